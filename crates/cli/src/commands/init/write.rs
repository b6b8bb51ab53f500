//! Writes what was planned: the journal first, our own files next, the clients' last.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::scan::Finding;
use crate::client_config::{ClientFileError, PlannedWrite, UndoJournal, create_private_directory};
use crate::exit_code::UsageError;

/// Everything that is to be written.
pub struct Work {
    /// Folders to be made.
    pub folders: Vec<PathBuf>,
    /// Our own files: all of them or none.
    pub ours: Vec<PlannedWrite>,
    /// The clients' files, each for itself.
    pub theirs: Vec<PlannedWrite>,
}

/// What came of it.
#[derive(Debug, Default)]
pub struct Done {
    /// The files that were written.
    pub written: Vec<PathBuf>,
    /// Those that could not be.
    pub findings: Vec<Finding>,
}

/// Writes everything. If one of our own files cannot be written, nothing stays; a client's file is left out alone.
pub fn write(work: Work, journal_file: &Path) -> Result<Done> {
    let mut done = Done::default();
    let mut journal = UndoJournal { folders: work.folders, ..UndoJournal::default() };
    let mut outputs = Vec::new();
    let ours = work.ours.len();
    for (at, output) in work.ours.into_iter().chain(work.theirs).enumerate() {
        match output.prepare_undo_step() {
            Ok(step) => {
                journal.steps.push(step);
                outputs.push((at < ours, output));
            }
            Err(trouble) if at < ours => return Err(take_back(&journal, journal_file, &output, &trouble)),
            Err(trouble) => done.findings.push(finding(&output, &trouble)),
        }
    }
    journal.save(journal_file).map_err(|trouble| take_back_all(&journal, journal_file, trouble.0))?;
    for folder in &journal.folders {
        create_private_directory(folder).map_err(|error| take_back_all(&journal, journal_file, error.to_string()))?;
    }
    for (is_ours, output) in outputs {
        match output.snapshot.replace(&output.new_bytes) {
            Ok(()) => done.written.push(output.snapshot.path().to_owned()),
            Err(trouble) if is_ours => return Err(take_back(&journal, journal_file, &output, &trouble)),
            Err(trouble) => {
                forget(&mut journal, output.snapshot.path());
                done.findings.push(finding(&output, &trouble));
            }
        }
    }
    journal.save(journal_file)?;
    Ok(done)
}

/// Takes a file out that was not written; somebody else's text stays in it.
fn forget(journal: &mut UndoJournal, file: &Path) {
    for step in journal.steps.iter().filter(|step| step.file == file) {
        step.backup.iter().for_each(|backup| drop(std::fs::remove_file(backup)));
    }
    journal.steps.retain(|step| step.file != file);
}

fn take_back(
    journal: &UndoJournal,
    journal_file: &Path,
    output: &PlannedWrite,
    trouble: &ClientFileError,
) -> anyhow::Error {
    take_back_all(journal, journal_file, format!("`{}`: {trouble}", output.snapshot.path().display()))
}

/// Everything as it was, and why.
fn take_back_all(journal: &UndoJournal, journal_file: &Path, why: String) -> anyhow::Error {
    for step in journal.steps.iter().rev() {
        // A file that was not written yet stands as before, and only its backup goes.
        let _ = step.undo();
    }
    super::undo::remove_folders(journal);
    let _ = std::fs::remove_file(journal_file);
    UsageError(format!("{why}; nothing was written")).into()
}

fn finding(output: &PlannedWrite, trouble: &ClientFileError) -> Finding {
    Finding::new(output.snapshot.path().display().to_string(), trouble.0.clone())
}
