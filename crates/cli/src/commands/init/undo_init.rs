//! `init --undo`: restores every file that `init` changed, byte for byte. If any of them has changed since, nothing is
//! restored unless `--force` is given. With `--force`, such files keep the later changes, and only the entries that
//! `init` changed are restored.

use std::path::Path;

use anyhow::Result;
use serde_json::json;

use crate::cli::InitArgs;
use crate::client_files::{UndoFileState, UndoJournal, UndoOutcome, UndoStep};
use crate::diagnostic_report::{escape_for_terminal, print_stderr};
use crate::exit_code::{CommandExitCode, ExitError, UsageError};
use crate::stdout_output;
use crate::terminal_prompt;

pub fn run(args: &InitArgs, journal_file: &Path) -> Result<CommandExitCode> {
    let Some(mut journal) = UndoJournal::load(journal_file)? else {
        return Err(UsageError(format!("`init` wrote nothing for `{}`", args.config.display())).into());
    };
    let is_changed =
        |step: &&UndoStep| !matches!(step.file_state(), Ok(UndoFileState::AsWritten | UndoFileState::Original));
    let changed: Vec<String> = journal
        .steps
        .iter()
        .filter(is_changed)
        .map(|step| escape_for_terminal(&step.file.display().to_string()))
        .collect();
    if !changed.is_empty() && !args.force {
        changed.iter().for_each(|file| print_stderr(&format!("{file}: changed since `init`, or not readable")));
        let help = "`--force` removes our entries from the changed files and keeps the changes";
        let what = format!("nothing was restored; {help}");
        return Err(ExitError(CommandExitCode::Findings, what).into());
    }
    if !terminal_prompt::confirm(args.yes, &format!("Restore {} files?", journal.steps.len()))? {
        return Err(UsageError("nothing was restored".to_owned()).into());
    }
    let (mut restored, mut left) = (Vec::new(), Vec::new());
    // A configuration that is kept refers to our policies and tokens; without them it would not load.
    let config_stays = journal.steps.iter().filter(|step| step.file == config_path(args)).any(|step| is_changed(&step));
    for step in journal.steps.drain(..).rev() {
        if config_stays && step.client.is_none() && step.file != config_path(args) {
            print_stderr(&format!(
                "{}: kept, because the configuration is kept",
                escape_for_terminal(&step.file.display().to_string())
            ));
            continue;
        }
        match step.undo() {
            Ok(UndoOutcome::Restored) => restored.push(step.file),
            Ok(UndoOutcome::LeftModified) => print_stderr(&format!(
                "{}: changed, so it is kept",
                escape_for_terminal(&step.file.display().to_string())
            )),
            Err(error) => {
                print_stderr(&format!("{}: {error}", escape_for_terminal(&step.file.display().to_string())));
                left.push(step);
            }
        }
    }
    let exit = if left.is_empty() { CommandExitCode::Success } else { CommandExitCode::Findings };
    left.reverse();
    journal.steps = left;
    journal.save(journal_file)?;
    remove_created_folders(&journal);
    if args.json {
        stdout_output::print_json(&json!({"restored": restored}))?;
    }
    print_stderr(&format!("restored {} files", restored.len()));
    Ok(exit)
}

fn config_path(args: &InitArgs) -> std::path::PathBuf {
    std::path::absolute(&args.config).unwrap_or_else(|_| args.config.clone())
}

/// Removes the folders that `init` created, except those that are not empty.
pub fn remove_created_folders(journal: &UndoJournal) {
    for folder in journal.folders.iter().rev() {
        let _ = std::fs::remove_dir(folder);
    }
}
