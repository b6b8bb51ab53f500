//! Writes what was planned: the journal first, our own files next, the clients' last.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::client_scan::ClientConfigProblem;
use crate::client_config::{ClientFileError, PlannedWrite, UndoJournal, create_private_directory};
use crate::exit_code::UsageError;

/// Everything that is to be written.
pub struct InitWriteSet {
    /// Folders to be made.
    pub folders: Vec<PathBuf>,
    /// Our own files: all of them or none.
    pub own_files: Vec<PlannedWrite>,
    /// The clients' files, each for itself.
    pub client_files: Vec<PlannedWrite>,
}

/// What came of it.
#[derive(Debug, Default)]
pub struct InitWriteOutcome {
    /// The files that were written.
    pub written: Vec<PathBuf>,
    /// Those that could not be.
    pub problems: Vec<ClientConfigProblem>,
}

/// Writes everything. If one of our own files cannot be written, nothing stays; a client's file is left out alone.
pub fn write_files(work: InitWriteSet, journal_file: &Path) -> Result<InitWriteOutcome> {
    let mut done = InitWriteOutcome::default();
    let mut journal = UndoJournal { folders: work.folders, ..UndoJournal::default() };
    let mut outputs = Vec::new();
    let ours = work.own_files.len();
    for (at, output) in work.own_files.into_iter().chain(work.client_files).enumerate() {
        match output.prepare_undo_step() {
            Ok(step) => {
                journal.steps.push(step);
                outputs.push((at < ours, output));
            }
            Err(trouble) if at < ours => return Err(roll_back_file(&journal, journal_file, &output, &trouble)),
            Err(trouble) => done.problems.push(write_problem(&output, &trouble)),
        }
    }
    journal.save(journal_file).map_err(|trouble| roll_back(&journal, journal_file, trouble.0))?;
    for folder in &journal.folders {
        create_private_directory(folder).map_err(|error| roll_back(&journal, journal_file, error.to_string()))?;
    }
    for (is_ours, output) in outputs {
        match output.snapshot.replace(&output.new_bytes) {
            Ok(()) => done.written.push(output.snapshot.path().to_owned()),
            Err(trouble) if is_ours => return Err(roll_back_file(&journal, journal_file, &output, &trouble)),
            Err(trouble) => {
                drop_step(&mut journal, output.snapshot.path());
                done.problems.push(write_problem(&output, &trouble));
            }
        }
    }
    journal.save(journal_file)?;
    Ok(done)
}

/// Takes a file out that was not written; somebody else's text stays in it.
fn drop_step(journal: &mut UndoJournal, file: &Path) {
    for step in journal.steps.iter().filter(|step| step.file == file) {
        step.backup.iter().for_each(|backup| drop(std::fs::remove_file(backup)));
    }
    journal.steps.retain(|step| step.file != file);
}

fn roll_back_file(
    journal: &UndoJournal,
    journal_file: &Path,
    output: &PlannedWrite,
    trouble: &ClientFileError,
) -> anyhow::Error {
    roll_back(journal, journal_file, format!("`{}`: {trouble}", output.snapshot.path().display()))
}

/// Everything as it was, and why.
fn roll_back(journal: &UndoJournal, journal_file: &Path, why: String) -> anyhow::Error {
    for step in journal.steps.iter().rev() {
        // A file that was not written yet stands as before, and only its backup goes.
        let _ = step.undo();
    }
    super::undo_init::remove_created_folders(journal);
    let _ = std::fs::remove_file(journal_file);
    UsageError(format!("{why}; nothing was written")).into()
}

fn write_problem(output: &PlannedWrite, trouble: &ClientFileError) -> ClientConfigProblem {
    ClientConfigProblem::new(output.snapshot.path().display().to_string(), trouble.0.clone())
}
