//! Files of other programs: read within bounds, kept beside themselves, and replaced whole or not at all.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

/// Claude Code's file grows with every project; nobody's has come near this.
const MAX_CONFIG_FILE_BYTES: u64 = 16 * 1024 * 1024;
/// Mode of what we make: it may name secrets, and tokens are among it.
const PRIVATE_FILE_MODE: u32 = 0o600;
/// What a kept file is called, behind its own name.
const BACKUP_SUFFIX: &str = "gatelodge-backup";

/// Why a file was left as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientFileError(pub String);

impl fmt::Display for ClientFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ClientFileError {}

/// A file as it was read.
#[derive(Debug)]
pub struct FileSnapshot {
    path: PathBuf,
    /// What the path leads to, behind all links: that is replaced, and the links stay.
    target: PathBuf,
    bytes: Option<Vec<u8>>,
}

impl FileSnapshot {
    /// Reads a file; one that is not there is held as such.
    ///
    /// # Errors
    /// It is there and cannot be read, or is no file of a sensible size.
    pub fn read(path: &Path) -> Result<Self, ClientFileError> {
        let target = match fs::canonicalize(path) {
            Ok(target) => target,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                if fs::symlink_metadata(path).is_ok() {
                    return Err(ClientFileError("it is a link that leads nowhere".into()));
                }
                return Ok(Self { path: path.to_owned(), target: path.to_owned(), bytes: None });
            }
            Err(error) => return Err(ClientFileError(format!("it cannot be read: {error}"))),
        };
        let bytes = read_bounded(&target)?;
        Ok(Self { path: path.to_owned(), target, bytes: Some(bytes) })
    }

    /// What it held; none if it is not there.
    pub fn bytes(&self) -> Option<&[u8]> {
        self.bytes.as_deref()
    }

    /// Where it was asked for.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it may be replaced, as far as can be told without trying.
    pub fn check_writable(&self) -> Result<(), ClientFileError> {
        match fs::metadata(&self.target) {
            // Replacing it would work; who took the leave to write meant something by it.
            Ok(metadata) if metadata.permissions().readonly() => Err(ClientFileError("it is read-only".into())),
            _ => Ok(()),
        }
    }

    /// Puts a copy beside the file, with its mode. An earlier copy is never overwritten.
    pub fn back_up(&self) -> Result<PathBuf, ClientFileError> {
        let told = |error: std::io::Error| ClientFileError(format!("no backup can be made beside it: {error}"));
        let bytes = self.bytes.as_deref().unwrap_or_default();
        for number in 1.. {
            let backup = backup_path(&self.path, number);
            match create_private_file(&backup) {
                Ok(file) => {
                    let kept = write_and_sync(file, &backup, bytes).and_then(|()| copy_mode(&self.target, &backup));
                    kept.map_err(|error| told(remove_incomplete(&backup, error)))?;
                    return Ok(backup);
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(told(error)),
            }
        }
        Err(ClientFileError("it has too many backups".into()))
    }

    /// Puts another text in its place, in one step, with the mode and owner it had.
    ///
    /// # Errors
    /// Nothing was written: it cannot be, or somebody changed the file since it was read.
    pub fn replace(&self, bytes: &[u8]) -> Result<(), ClientFileError> {
        self.check_writable()?;
        let told = |error: std::io::Error| ClientFileError(format!("it cannot be written: {error}"));
        let folder = self.target.parent().unwrap_or(Path::new("."));
        if self.bytes.is_none() {
            create_private_directory(folder).map_err(told)?;
        }
        let name = self.target.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let draft = folder.join(format!(".{name}.gatelodge-{}", std::process::id()));
        let file = create_private_file(&draft).map_err(told)?;
        let mut ready = write_and_sync(file, &draft, bytes);
        if self.bytes.is_some() {
            ready = ready.and_then(|()| copy_mode(&self.target, &draft));
        }
        ready.map_err(|error| told(remove_incomplete(&draft, error)))?;
        // As late as can be: between this look and the next line nobody is likely to write.
        if let Err(trouble) = self.check_unchanged() {
            let _ = fs::remove_file(&draft);
            return Err(trouble);
        }
        fs::rename(&draft, &self.target).map_err(|error| told(remove_incomplete(&draft, error)))?;
        // The new text is there; only a power cut could still take it back.
        let _ = File::open(folder).and_then(|folder| folder.sync_all());
        Ok(())
    }

    fn check_unchanged(&self) -> Result<(), ClientFileError> {
        let now = Self::read(&self.path)?;
        if now.bytes == self.bytes && now.target == self.target {
            Ok(())
        } else {
            Err(ClientFileError("it was changed meanwhile; nothing was written to it".into()))
        }
    }
}

/// The hash by which a text is known again.
pub fn content_hash(bytes: &[u8]) -> String {
    HEXLOWER.encode(&Sha256::digest(bytes))
}

/// The name of a file's backup.
pub fn backup_path(path: &Path, number: u32) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let number = if number == 1 { String::new() } else { format!("-{number}") };
    path.with_file_name(format!("{name}.{BACKUP_SUFFIX}{number}"))
}

fn read_bounded(target: &Path) -> Result<Vec<u8>, ClientFileError> {
    let told = |error: std::io::Error| ClientFileError(format!("it cannot be read: {error}"));
    let metadata = fs::metadata(target).map_err(told)?;
    if metadata.is_dir() {
        return Err(ClientFileError("it is a directory".into()));
    }
    if !metadata.is_file() {
        // Opening a pipe would wait for whoever writes to it.
        return Err(ClientFileError("it is not a plain file".into()));
    }
    let mut bytes = Vec::new();
    File::open(target).and_then(|file| file.take(MAX_CONFIG_FILE_BYTES + 1).read_to_end(&mut bytes)).map_err(told)?;
    if bytes.len() as u64 > MAX_CONFIG_FILE_BYTES {
        return Err(ClientFileError(format!("it is larger than {} MiB", MAX_CONFIG_FILE_BYTES / 1024 / 1024)));
    }
    Ok(bytes)
}

/// Makes a folder and those above it, for the user alone.
pub fn create_private_directory(path: &Path) -> std::io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// Makes a file that was not there, for the user alone.
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

/// Gives a copy the mode and the owner of the original.
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

/// Takes a file away that did not come to be.
fn remove_incomplete(path: &Path, error: std::io::Error) -> std::io::Error {
    let _ = fs::remove_file(path);
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_changed_meanwhile_is_left_and_nothing_stays_beside_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.json");
        fs::write(&path, "one").expect("a file");
        let held = FileSnapshot::read(&path).expect("the file");
        fs::write(&path, "two").expect("a file");
        assert!(held.replace(b"three").expect_err("trouble").0.contains("changed meanwhile"));
        assert_eq!(fs::read(&path).expect("the file"), b"two");
        assert_eq!(fs::read_dir(folder.path()).expect("the folder").count(), 1);
        let gone = FileSnapshot::read(&folder.path().join("b.json")).expect("no file");
        fs::write(folder.path().join("b.json"), "made by somebody").expect("a file");
        assert!(gone.replace(b"ours").is_err());
    }

    #[cfg(unix)]
    #[test]
    fn links_and_modes_stay_and_backups_are_numbered() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let folder = tempfile::tempdir().expect("a folder");
        let (real, link) = (folder.path().join("real.json"), folder.path().join("link.json"));
        fs::write(&real, "one").expect("a file");
        fs::set_permissions(&real, PermissionsExt::from_mode(0o640)).expect("a mode");
        symlink(&real, &link).expect("a link");
        let mode = |path: &Path| fs::metadata(path).expect("a file").permissions().mode() & 0o777;
        let held = FileSnapshot::read(&link).expect("the file");
        let (first, second) = (held.back_up().expect("a backup"), held.back_up().expect("a backup"));
        assert_eq!((first, second.clone()), (backup_path(&link, 1), backup_path(&link, 2)));
        assert_eq!((fs::read(&second).expect("the backup"), mode(&second)), (b"one".to_vec(), 0o640));
        held.replace(b"two").expect("a new text");
        assert_eq!((fs::read(&real).expect("the file"), mode(&real)), (b"two".to_vec(), 0o640));
        assert!(fs::symlink_metadata(&link).expect("the link").is_symlink());
    }
}
