//! Writes the planned files: first the undo journal, then the gateway's files, then the clients' files.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::client_scan::ClientConfigProblem;
use crate::client_files::{ClientFileError, PlannedWrite, UndoJournal, create_private_directory};
use crate::exit_code::UsageError;

/// The files and folders that `init` writes.
pub struct InitWriteSet {
    /// Folders to create.
    pub folders: Vec<PathBuf>,
    /// The gateway's files; either all or none of them are written.
    pub own_files: Vec<PlannedWrite>,
    /// The clients' files. If one of them cannot be written, the others are written nevertheless.
    pub client_files: Vec<PlannedWrite>,
}

/// The files that were written, and those that could not be.
#[derive(Debug, Default)]
pub struct InitWriteOutcome {
    /// Files that were written.
    pub written: Vec<PathBuf>,
    /// Clients' files that could not be written.
    pub problems: Vec<ClientConfigProblem>,
}

/// Writes all files. If one of the gateway's files cannot be written, everything is rolled back. A client's file that
/// cannot be written is skipped.
pub fn write_files(work: InitWriteSet, journal_file: &Path) -> Result<InitWriteOutcome> {
    let mut done = InitWriteOutcome::default();
    let mut journal = UndoJournal { folders: work.folders, ..UndoJournal::default() };
    let mut outputs = Vec::new();
    let own_count = work.own_files.len();
    for (at, output) in work.own_files.into_iter().chain(work.client_files).enumerate() {
        match output.prepare_undo_step() {
            Ok(step) => {
                journal.steps.push(step);
                outputs.push((at < own_count, output));
            }
            Err(error) if at < own_count => return Err(roll_back_file(&journal, journal_file, &output, &error)),
            Err(error) => done.problems.push(write_problem(&output, &error)),
        }
    }
    journal.save(journal_file).map_err(|error| roll_back(&journal, journal_file, error.0))?;
    for folder in &journal.folders {
        create_private_directory(folder).map_err(|error| roll_back(&journal, journal_file, error.to_string()))?;
    }
    for (is_own, output) in outputs {
        match output.snapshot.replace(&output.new_bytes) {
            Ok(()) => done.written.push(output.snapshot.path().to_owned()),
            Err(error) if is_own => return Err(roll_back_file(&journal, journal_file, &output, &error)),
            Err(error) => {
                drop_step(&mut journal, output.snapshot.path());
                done.problems.push(write_problem(&output, &error));
            }
        }
    }
    journal.save(journal_file)?;
    Ok(done)
}

/// Removes the journal entry and the backup of a file that was not written.
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
    error: &ClientFileError,
) -> anyhow::Error {
    roll_back(journal, journal_file, format!("`{}`: {error}", output.snapshot.path().display()))
}

/// Undoes all steps in the journal, and returns an error with the reason for the rollback.
fn roll_back(journal: &UndoJournal, journal_file: &Path, why: String) -> anyhow::Error {
    for step in journal.steps.iter().rev() {
        // For a file that was not written yet, this only removes its backup.
        let _ = step.undo();
    }
    super::undo_init::remove_created_folders(journal);
    let _ = std::fs::remove_file(journal_file);
    UsageError(format!("{why}; nothing was written")).into()
}

fn write_problem(output: &PlannedWrite, error: &ClientFileError) -> ClientConfigProblem {
    ClientConfigProblem::new(output.snapshot.path().display().to_string(), error.0.clone())
}
