//! `connect --undo`: reverts the last change that `connect` made to a client's file.

use std::path::Path;

use anyhow::Result;
use gatelodge_clients::ClientConfigLocation;
use serde_json::json;

use super::write_client_config::{UNDO_JOURNAL_NAME, file_error};
use crate::cli::ConnectArgs;
use crate::client_files::{UndoFileState, UndoJournal};
use crate::diagnostic_report::{escape_for_terminal, print_stderr};
use crate::exit_code::{CommandExitCode, ExitError, UsageError};
use crate::stdout_output;
use crate::terminal_prompt;

pub fn run(args: &ConnectArgs, location: &ClientConfigLocation, data: &Path) -> Result<CommandExitCode> {
    let path = std::path::absolute(&location.file)?;
    let name = escape_for_terminal(&path.display().to_string());
    let journal_file = data.join(UNDO_JOURNAL_NAME);
    let mut journal = UndoJournal::load(&journal_file)?.unwrap_or_default();
    let Some(at) = journal.steps.iter().rposition(|step| step.file == path) else {
        return Err(UsageError(format!("`connect` wrote nothing into `{name}`")).into());
    };
    let step = journal.steps.remove(at);
    if step.file_state().map_err(|error| file_error(&name, &error))? == UndoFileState::Modified && !args.force {
        let what = format!("`{name}` was changed since then; `--force` removes our entry and keeps the changes");
        return Err(ExitError(CommandExitCode::Findings, what).into());
    }
    if !terminal_prompt::confirm(args.yes, &format!("Restore `{name}`?"))? {
        return Err(UsageError("nothing was restored".to_owned()).into());
    }
    step.undo().map_err(|error| file_error(&name, &error))?;
    journal.save(&journal_file)?;
    print_stderr(&format!("restored `{name}`"));
    if args.json {
        stdout_output::print_json(&json!({"restored": path}))?;
    }
    Ok(CommandExitCode::Success)
}
