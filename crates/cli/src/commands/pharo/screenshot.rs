//! The picture of `read_screen`: the image says where it is, and we look whether it can be read from here.
//!
//! So whoever can change the image chooses the file: of those that we can read, any that begins like a PNG.

use std::fs::File;
use std::io::Read;

use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;

/// The most bytes of a picture that is passed on.
const MAX_PNG_BYTES: u64 = 8 << 20;
/// How every PNG file begins. Whatever else the image names is not read further: its path is the image's word.
const PNG_SIGNATURE: &[u8] = b"\x89PNG\r\n\x1a\n";

/// The bytes of the picture.
///
/// # Errors
/// Why it cannot be had, in words.
pub fn read_png(path: &str) -> Result<Vec<u8>, String> {
    if !path.starts_with('/') {
        return Err("its path is not absolute".to_owned());
    }
    let cannot = |error: std::io::Error| format!("it cannot be read here: {error}");
    // Without waiting where the path names a pipe, and without going where a link leads.
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

    fn house() -> tempfile::TempDir {
        tempfile::tempdir().expect("a temporary folder")
    }

    fn file(house: &tempfile::TempDir, bytes: &[u8]) -> PathBuf {
        let path = house.path().join("screen.png");
        std::fs::write(&path, bytes).expect("a file");
        path
    }

    fn read_at(path: &Path) -> Result<Vec<u8>, String> {
        read_png(path.to_str().expect("UTF-8"))
    }

    #[test]
    fn a_png_is_read_whole() {
        let house = house();
        let picture = [PNG_SIGNATURE, b"and what follows"].concat();
        assert_eq!(read_at(&file(&house, &picture)), Ok(picture));
    }

    #[test]
    fn whatever_does_not_begin_like_a_png_is_not_read_further() {
        let house = house();
        for bytes in [&b""[..], b"\x89PNG", b"root:x:0:0", b"\x89PNG\r\n\x1a\r"] {
            assert_eq!(read_at(&file(&house, bytes)), Err("it is not a PNG picture".to_owned()));
        }
    }

    #[test]
    fn what_is_no_file_is_refused() {
        let house = house();
        let other = Err("it is not a file".to_owned());
        assert_eq!(read_at(house.path()), other);
        assert_eq!(read_png("/dev/zero"), other);
        let missing = read_at(&house.path().join("gone.png")).expect_err("nothing is there");
        assert!(missing.starts_with("it cannot be read here: No such file"), "{missing}");
    }

    #[test]
    fn a_link_is_not_followed() {
        let house = house();
        let link = house.path().join("link.png");
        std::os::unix::fs::symlink(file(&house, PNG_SIGNATURE), &link).expect("a link");
        assert_eq!(read_at(&link), Err("it is a link".to_owned()));
    }

    #[test]
    fn a_pipe_that_nobody_writes_to_does_not_hang() {
        let house = house();
        let path = house.path().join("pipe");
        assert!(Command::new("mkfifo").arg(&path).status().expect("mkfifo runs").success());
        assert_eq!(read_at(&path), Err("it is not a file".to_owned()));
    }

    #[test]
    fn a_picture_that_is_too_large_is_refused() {
        let house = house();
        let path = file(&house, PNG_SIGNATURE);
        let of_size = |bytes: u64| {
            File::options().write(true).open(&path).and_then(|file| file.set_len(bytes)).expect("a larger file");
            read_at(&path)
        };
        assert_eq!(of_size(MAX_PNG_BYTES).map(|picture| picture.len() as u64), Ok(MAX_PNG_BYTES));
        assert_eq!(of_size(MAX_PNG_BYTES + 1), Err("it has more than 8388608 bytes".to_owned()));
    }

    #[test]
    fn a_relative_path_is_refused() {
        for path in ["screen.png", "../screen.png", "./screen.png", "", "~/screen.png"] {
            assert_eq!(read_png(path), Err("its path is not absolute".to_owned()), "{path}");
        }
        assert!(read_png("/tmp/\0.png").is_err());
    }
}
