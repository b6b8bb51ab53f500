//! Reads other programs' files up to a size limit, backs them up, and replaces them atomically.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

/// Maximum size of a file. Claude Code's file grows with every project, but stays far below this.
const MAX_CONFIG_FILE_BYTES: u64 = 16 * 1024 * 1024;
/// Mode of the files we create, which may contain secrets such as tokens.
const PRIVATE_FILE_MODE: u32 = 0o600;
/// Suffix of backup file names.
const BACKUP_SUFFIX: &str = "gatelodge-backup";

/// Why a file could not be read, backed up or replaced. The file itself has not been changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientFileError(pub String);

impl fmt::Display for ClientFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ClientFileError {}

/// A file with the content it had when it was read.
#[derive(Debug)]
pub struct ClientFileSnapshot {
    path: PathBuf,
    /// Path of the file after resolving all symbolic links. That file is replaced, and the links are kept.
    target: PathBuf,
    bytes: Option<Vec<u8>>,
}

impl ClientFileSnapshot {
    /// Reads a file, which may be missing.
    ///
    /// # Errors
    /// The file exists but cannot be read, is not a regular file, or is too large.
    pub fn read(path: &Path) -> Result<Self, ClientFileError> {
        let target = match fs::canonicalize(path) {
            Ok(target) => target,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                if fs::symlink_metadata(path).is_ok() {
                    return Err(ClientFileError("it is a broken symbolic link".into()));
                }
                return Ok(Self { path: path.to_owned(), target: path.to_owned(), bytes: None });
            }
            Err(error) => return Err(ClientFileError(format!("it cannot be read: {error}"))),
        };
        let bytes = read_bounded(&target)?;
        Ok(Self { path: path.to_owned(), target, bytes: Some(bytes) })
    }

    /// Returns the content, or `None` if the file did not exist.
    pub fn bytes(&self) -> Option<&[u8]> {
        self.bytes.as_deref()
    }

    /// Returns the path as given, before resolving links.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns an error if the file is read-only. Replacing it may still fail for other reasons.
    pub fn check_writable(&self) -> Result<(), ClientFileError> {
        match fs::metadata(&self.target) {
            // Replacing it would work, but a read-only file was probably made so on purpose.
            Ok(metadata) if metadata.permissions().readonly() => Err(ClientFileError("it is read-only".into())),
            _ => Ok(()),
        }
    }

    /// Creates a backup next to the file, with the same mode. Never overwrites an earlier backup.
    pub fn back_up(&self) -> Result<PathBuf, ClientFileError> {
        let backup_error =
            |error: std::io::Error| ClientFileError(format!("cannot create a backup next to it: {error}"));
        let bytes = self.bytes.as_deref().unwrap_or_default();
        for number in 1.. {
            let backup = backup_path(&self.path, number);
            match create_private_file(&backup) {
                Ok(file) => {
                    let written = write_and_sync(file, &backup, bytes).and_then(|()| copy_mode(&self.target, &backup));
                    written.map_err(|error| backup_error(remove_incomplete(&backup, error)))?;
                    return Ok(backup);
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(backup_error(error)),
            }
        }
        Err(ClientFileError("it has too many backups".into()))
    }

    /// Replaces the content atomically, keeping the mode and owner.
    ///
    /// # Errors
    /// Returns an error, and writes nothing, if the file is not writable or has changed since it was read.
    pub fn replace(&self, bytes: &[u8]) -> Result<(), ClientFileError> {
        self.check_writable()?;
        let write_error = |error: std::io::Error| ClientFileError(format!("it cannot be written: {error}"));
        let directory = self.target.parent().unwrap_or(Path::new("."));
        if self.bytes.is_none() {
            create_private_directory(directory).map_err(write_error)?;
        }
        let name = self.target.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let temporary = directory.join(format!(".{name}.gatelodge-{}", std::process::id()));
        let file = create_private_file(&temporary).map_err(write_error)?;
        let mut ready = write_and_sync(file, &temporary, bytes);
        if self.bytes.is_some() {
            ready = ready.and_then(|()| copy_mode(&self.target, &temporary));
        }
        ready.map_err(|error| write_error(remove_incomplete(&temporary, error)))?;
        // Checked as late as possible, to keep the window in which another program's change could be lost short.
        if let Err(error) = self.check_unchanged() {
            let _ = fs::remove_file(&temporary);
            return Err(error);
        }
        fs::rename(&temporary, &self.target).map_err(|error| write_error(remove_incomplete(&temporary, error)))?;
        // The file is replaced; without this, a power failure could still undo it.
        let _ = File::open(directory).and_then(|directory| directory.sync_all());
        Ok(())
    }

    fn check_unchanged(&self) -> Result<(), ClientFileError> {
        let now = Self::read(&self.path)?;
        if now.bytes == self.bytes && now.target == self.target {
            Ok(())
        } else {
            Err(ClientFileError("it was changed in the meantime; nothing was written to it".into()))
        }
    }
}

/// Returns the hash of a file's content, for the undo journal.
pub fn content_hash(bytes: &[u8]) -> String {
    HEXLOWER.encode(&Sha256::digest(bytes))
}

/// Returns the path of a file's backup.
pub fn backup_path(path: &Path, number: u32) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let number = if number == 1 { String::new() } else { format!("-{number}") };
    path.with_file_name(format!("{name}.{BACKUP_SUFFIX}{number}"))
}

fn read_bounded(target: &Path) -> Result<Vec<u8>, ClientFileError> {
    let read_error = |error: std::io::Error| ClientFileError(format!("it cannot be read: {error}"));
    let metadata = fs::metadata(target).map_err(read_error)?;
    if metadata.is_dir() {
        return Err(ClientFileError("it is a directory".into()));
    }
    if !metadata.is_file() {
        // Opening a pipe would block until another process writes to it.
        return Err(ClientFileError("it is not a regular file".into()));
    }
    let mut bytes = Vec::new();
    File::open(target)
        .and_then(|file| file.take(MAX_CONFIG_FILE_BYTES + 1).read_to_end(&mut bytes))
        .map_err(read_error)?;
    if bytes.len() as u64 > MAX_CONFIG_FILE_BYTES {
        return Err(ClientFileError(format!("it is larger than {} MiB", MAX_CONFIG_FILE_BYTES / 1024 / 1024)));
    }
    Ok(bytes)
}

/// Creates a directory and its parents, accessible only to the user.
pub fn create_private_directory(path: &Path) -> std::io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// Creates a new file, accessible only to the user.
fn create_private_file(path: &Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, PRIVATE_FILE_MODE);
    options.open(path)
}

fn write_and_sync(mut file: File, path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    file.write_all(bytes).and_then(|()| file.sync_all()).map_err(|error| remove_incomplete(path, error))
}

/// Copies the mode and owner of a file.
fn copy_mode(from: &Path, to: &Path) -> std::io::Result<()> {
    let metadata = fs::metadata(from)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let copy = fs::metadata(to)?;
        if (copy.uid(), copy.gid()) != (metadata.uid(), metadata.gid()) {
            std::os::unix::fs::chown(to, Some(metadata.uid()), Some(metadata.gid()))?;
        }
    }
    fs::set_permissions(to, metadata.permissions())
}

/// Removes a file that was not written completely, and returns the write error unchanged.
fn remove_incomplete(path: &Path, error: std::io::Error) -> std::io::Error {
    let _ = fs::remove_file(path);
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_changed_in_the_meantime_is_kept_without_leftovers() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("a.json");
        fs::write(&path, "one").expect("a file");
        let snapshot = ClientFileSnapshot::read(&path).expect("the file");
        fs::write(&path, "two").expect("a file");
        assert!(snapshot.replace(b"three").expect_err("trouble").0.contains("changed in the meantime"));
        assert_eq!(fs::read(&path).expect("the file"), b"two");
        assert_eq!(fs::read_dir(directory.path()).expect("the directory").count(), 1);
        let missing = ClientFileSnapshot::read(&directory.path().join("b.json")).expect("no file");
        fs::write(directory.path().join("b.json"), "created by another program").expect("a file");
        assert!(missing.replace(b"ours").is_err());
    }

    #[cfg(unix)]
    #[test]
    fn links_and_modes_are_kept_and_backups_are_numbered() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let directory = tempfile::tempdir().expect("a directory");
        let (real, link) = (directory.path().join("real.json"), directory.path().join("link.json"));
        fs::write(&real, "one").expect("a file");
        fs::set_permissions(&real, PermissionsExt::from_mode(0o640)).expect("a mode");
        symlink(&real, &link).expect("a link");
        let mode = |path: &Path| fs::metadata(path).expect("a file").permissions().mode() & 0o777;
        let snapshot = ClientFileSnapshot::read(&link).expect("the file");
        let (first, second) = (snapshot.back_up().expect("a backup"), snapshot.back_up().expect("a backup"));
        assert_eq!((first, second.clone()), (backup_path(&link, 1), backup_path(&link, 2)));
        assert_eq!((fs::read(&second).expect("the backup"), mode(&second)), (b"one".to_vec(), 0o640));
        snapshot.replace(b"two").expect("a new text");
        assert_eq!((fs::read(&real).expect("the file"), mode(&real)), (b"two".to_vec(), 0o640));
        assert!(fs::symlink_metadata(&link).expect("the link").is_symlink());
    }
}
