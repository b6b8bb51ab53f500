//! Decodes source files the way Python and JavaScript runtimes do.

/// Number of lines at the start of a Python file in which its encoding may be declared.
const ENCODING_DECLARATION_LINES: usize = 2;

/// Decodes a source file. Returns `None` if its encoding is unsupported or the bytes are invalid.
pub fn decode_source(path: &str, bytes: &[u8]) -> Option<String> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    if !path.ends_with(".py") {
        // JavaScript runtimes accept any bytes.
        return Some(String::from_utf8_lossy(bytes).replace('\0', "\u{fffd}"));
    }
    let text = match declared_encoding(bytes).as_deref().unwrap_or("utf8") {
        // Some editors append the line ending to the name.
        "utf8" | "utf8sig" | "utf8unix" | "utf8dos" | "ascii" | "usascii" => {
            std::str::from_utf8(bytes).ok()?.to_owned()
        }
        "latin1" | "iso88591" => bytes.iter().copied().map(char::from).collect(),
        // Under other encodings, such as UTF-7, a comment can contain code.
        _ => return None,
    };
    (!text.contains('\0')).then_some(text)
}

/// Returns the encoding that a Python file declares (`# -*- coding: utf-8 -*-`), reduced to lower-case letters and
/// digits.
fn declared_encoding(bytes: &[u8]) -> Option<String> {
    let lines = bytes.split(|byte| *byte == b'\n').take(ENCODING_DECLARATION_LINES);
    let mut remarks = lines.filter_map(|line| line.get(line.iter().position(|byte| *byte == b'#')?..));
    remarks.find_map(|remark| {
        let said = remark.windows(7).enumerate().filter(|(_, word)| matches!(*word, b"coding:" | b"coding="));
        said.filter_map(|(at, _)| parse_encoding_name(remark.get(at + 7..)?)).next()
    })
}

fn parse_encoding_name(bytes: &[u8]) -> Option<String> {
    let name = bytes.iter().skip_while(|byte| matches!(byte, b' ' | b'\t'));
    let name = name.take_while(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte));
    let mut name = name.map(|byte| char::from(byte.to_ascii_lowercase())).peekable();
    name.peek()?;
    Some(name.filter(char::is_ascii_alphanumeric).collect())
}
