//! The picture of `read_screen`: the image says where it is, and we look whether it can be read from here.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;

/// The most bytes of a picture that is passed on.
const MAX_BYTES: u64 = 8 << 20;
/// How every PNG file begins. Whatever else the image names is not read further: its path is the image's word.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";
/// Does not wait where the path names a pipe.
const NONBLOCK: i32 = 0o4000;

/// The bytes of the picture.
///
/// # Errors
/// Why it cannot be had, in words.
pub fn read(path: &str) -> Result<Vec<u8>, String> {
    if !path.starts_with('/') {
        return Err("its path is not absolute".to_owned());
    }
    let cannot = |error: std::io::Error| format!("it cannot be read here: {error}");
    let file = File::options().read(true).custom_flags(NONBLOCK).open(path).map_err(cannot)?;
    let metadata = file.metadata().map_err(cannot)?;
    if !metadata.is_file() {
        return Err("it is not a file".to_owned());
    }
    let mut bytes = Vec::new();
    let mut begin = (&file).take(PNG.len() as u64);
    begin.read_to_end(&mut bytes).map_err(cannot)?;
    if bytes != PNG {
        return Err("it is not a PNG picture".to_owned());
    }
    (&file).take(MAX_BYTES).read_to_end(&mut bytes).map_err(cannot)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(format!("it has more than {MAX_BYTES} bytes"));
    }
    Ok(bytes)
}
