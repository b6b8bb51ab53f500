//! Reads the screenshot for `read_screen` from the path that the Pharo image returns.
//!
//! Code in the Pharo image therefore chooses which file is read. It can be any readable file that begins with the PNG
//! signature.

use std::fs::File;
use std::io::Read;

use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;

/// Maximum size of a screenshot.
const MAX_PNG_BYTES: u64 = 8 << 20;
/// First bytes of every PNG file. Since the image chooses the path, the rest of a file is read only if the file begins
/// with these bytes.
const PNG_SIGNATURE: &[u8] = b"\x89PNG\r\n\x1a\n";

/// Reads a PNG file.
///
/// # Errors
/// Returns a message that says why the file could not be used.
pub fn read_png(path: &str) -> Result<Vec<u8>, String> {
    if !path.starts_with('/') {
        return Err("its path is not absolute".to_owned());
    }
    let cannot = |error: std::io::Error| format!("it cannot be read here: {error}");
    // `NONBLOCK`, because the path may name a pipe; `NOFOLLOW`, because it may name a symbolic link.
    let file = match open(path, OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(Errno::LOOP) => return Err("it is a link".to_owned()),
        Err(error) => return Err(cannot(error.into())),
    };
    let metadata = file.metadata().map_err(cannot)?;
    if !metadata.is_file() {
        return Err("it is not a file".to_owned());
    }
    let mut bytes = Vec::new();
    let mut begin = (&file).take(PNG_SIGNATURE.len() as u64);
    begin.read_to_end(&mut bytes).map_err(cannot)?;
    if bytes != PNG_SIGNATURE {
        return Err("it is not a PNG picture".to_owned());
    }
    (&file).take(MAX_PNG_BYTES).read_to_end(&mut bytes).map_err(cannot)?;
    if bytes.len() as u64 > MAX_PNG_BYTES {
        return Err(format!("it has more than {MAX_PNG_BYTES} bytes"));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};
    use std::process::Command;

    use super::*;

    fn temp_directory() -> tempfile::TempDir {
        tempfile::tempdir().expect("a temporary folder")
    }

    fn file(directory: &tempfile::TempDir, bytes: &[u8]) -> PathBuf {
        let path = directory.path().join("screen.png");
        std::fs::write(&path, bytes).expect("a file");
        path
    }

    fn read_at(path: &Path) -> Result<Vec<u8>, String> {
        read_png(path.to_str().expect("UTF-8"))
    }

    #[test]
    fn png_is_read_completely() {
        let directory = temp_directory();
        let picture = [PNG_SIGNATURE, b"and what follows"].concat();
        assert_eq!(read_at(&file(&directory, &picture)), Ok(picture));
    }

    #[test]
    fn file_without_png_signature_is_refused() {
        let directory = temp_directory();
        for bytes in [&b""[..], b"\x89PNG", b"root:x:0:0", b"\x89PNG\r\n\x1a\r"] {
            assert_eq!(read_at(&file(&directory, bytes)), Err("it is not a PNG picture".to_owned()));
        }
    }

    #[test]
    fn directory_device_and_missing_file_are_refused() {
        let directory = temp_directory();
        let other = Err("it is not a file".to_owned());
        assert_eq!(read_at(directory.path()), other);
        assert_eq!(read_png("/dev/zero"), other);
        let missing = read_at(&directory.path().join("gone.png")).expect_err("nothing is there");
        assert!(missing.starts_with("it cannot be read here: No such file"), "{missing}");
    }

    #[test]
    fn symbolic_link_is_not_followed() {
        let directory = temp_directory();
        let link = directory.path().join("link.png");
        std::os::unix::fs::symlink(file(&directory, PNG_SIGNATURE), &link).expect("a link");
        assert_eq!(read_at(&link), Err("it is a link".to_owned()));
    }

    #[test]
    fn pipe_without_a_writer_does_not_block() {
        let directory = temp_directory();
        let path = directory.path().join("pipe");
        assert!(Command::new("mkfifo").arg(&path).status().expect("mkfifo runs").success());
        assert_eq!(read_at(&path), Err("it is not a file".to_owned()));
    }

    #[test]
    fn file_that_is_too_large_is_refused() {
        let directory = temp_directory();
        let path = file(&directory, PNG_SIGNATURE);
        let of_size = |bytes: u64| {
            File::options().write(true).open(&path).and_then(|file| file.set_len(bytes)).expect("a larger file");
            read_at(&path)
        };
        assert_eq!(of_size(MAX_PNG_BYTES).map(|picture| picture.len() as u64), Ok(MAX_PNG_BYTES));
        assert_eq!(of_size(MAX_PNG_BYTES + 1), Err("it has more than 8388608 bytes".to_owned()));
    }

    #[test]
    fn relative_path_is_refused() {
        for path in ["screen.png", "../screen.png", "./screen.png", "", "~/screen.png"] {
            assert_eq!(read_png(path), Err("its path is not absolute".to_owned()), "{path}");
        }
        assert!(read_png("/tmp/\0.png").is_err());
    }
}
