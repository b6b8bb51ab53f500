//! From bytes to text, as those read them who run it.

/// How many lines of a Python file may say how it is coded.
const ENCODING_DECLARATION_LINES: usize = 2;

/// The text of a source file; none if it is not known what it says.
pub fn decode_source(path: &str, bytes: &[u8]) -> Option<String> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    if !path.ends_with(".py") {
        // JavaScript is run whatever its bytes are.
        return Some(String::from_utf8_lossy(bytes).replace('\0', "\u{fffd}"));
    }
    let text = match declared_encoding(bytes).as_deref().unwrap_or("utf8") {
        // Editors add how lines end.
        "utf8" | "utf8sig" | "utf8unix" | "utf8dos" | "ascii" | "usascii" => {
            std::str::from_utf8(bytes).ok()?.to_owned()
        }
        "latin1" | "iso88591" => bytes.iter().copied().map(char::from).collect(),
        // Under others, such as UTF-7, a remark may be code.
        _ => return None,
    };
    (!text.contains('\0')).then_some(text)
}

/// How a Python file says that it is coded, `# -*- coding: utf-8 -*-`, in small letters and digits.
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
