//! Prints how a text is parsed and forwarded, for the differential test against other JSON readers: one text per line in
//! hexadecimal, one result per line.
//!
//! A result is `refused KIND` or `tree TREE`. After the tree of a request follow the text that would be forwarded and the
//! tree that it must have. A tree is JSON that any reader can write: `{"o":[[key,value],…]}` for an object, `{"n":"text"}`
//! for a number.

#![allow(clippy::expect_used, reason = "only a test runs this program")]

use std::fmt::Write as _;
use std::io::{BufRead, Write, stdin, stdout};

use gatelodge_json::{JsonErrorKind, JsonKind, JsonLimits, JsonValue, read};
use gatelodge_mcp::{ClientMessage, RequestId, RequestRewrite, read_client_message, to_single_line};

fn main() {
    let mut out = std::io::BufWriter::new(stdout().lock());
    for line in stdin().lock().lines() {
        let bytes = from_hex(&line.expect("a line"));
        writeln!(out, "{}", answer(&bytes)).expect("the test reads all results");
    }
}

fn answer(bytes: &[u8]) -> String {
    let document = match read(bytes, &JsonLimits::REQUEST) {
        Ok(document) => document,
        Err(error) => return format!("refused {}", kind(&error.kind)),
    };
    let mut out = String::from("tree ");
    write_tree(document.root(), &mut out);
    match read_client_message(bytes, &JsonLimits::REQUEST) {
        Ok(ClientMessage::Request(request)) => {
            let id = RequestId::string("gate");
            let rewrite = RequestRewrite { id: &id, target: None, progress_token: None, trace: None };
            let sent = request.rewrite(&rewrite).expect("an id can always be replaced");
            out.push('\t');
            to_single_line(&sent).bytes().for_each(|byte| write!(out, "{byte:02x}").expect("memory"));
            out.push('\t');
            write_members(document.root(), Some(&id), &mut out);
        }
        Ok(ClientMessage::Notification(_) | ClientMessage::Response(_)) => {}
        Err(error) => write!(out, "\t{}", error.code).expect("memory"),
    }
    out
}

fn write_tree(value: JsonValue<'_>, out: &mut String) {
    match value.kind() {
        JsonKind::Null | JsonKind::Bool => out.push_str(value.raw()),
        JsonKind::Number => write!(out, "{{\"n\":\"{}\"}}", value.raw()).expect("memory"),
        JsonKind::String => write_string(&value.as_str().expect("a string"), out),
        JsonKind::Object => write_members(value, None, out),
        JsonKind::Array => {
            out.push('[');
            for (index, element) in value.elements().enumerate() {
                out.push_str(if index > 0 { "," } else { "" });
                write_tree(element, out);
            }
            out.push(']');
        }
    }
}

/// Writes an object, with `id` in place of its own id if one is given.
fn write_members(object: JsonValue<'_>, id: Option<&RequestId<'_>>, out: &mut String) {
    out.push_str("{\"o\":[");
    for (index, (key, value)) in object.members().enumerate() {
        out.push_str(if index > 0 { ",[" } else { "[" });
        write_string(&key.as_str().expect("a key"), out);
        out.push(',');
        match id.filter(|_| key.is_str("id")) {
            Some(id) => out.push_str(id.raw()),
            None => write_tree(value, out),
        }
        out.push(']');
    }
    out.push_str("]}");
}

/// Writes a string in ASCII, which all readers agree on.
fn write_string(text: &str, out: &mut String) {
    out.push('"');
    for unit in text.encode_utf16() {
        match u8::try_from(unit) {
            Ok(byte @ (b'"' | b'\\')) => out.extend(['\\', char::from(byte)]),
            Ok(byte @ b' '..=b'~') => out.push(char::from(byte)),
            _ => match unit {
                0x08 => out.push_str("\\b"),
                0x09 => out.push_str("\\t"),
                0x0a => out.push_str("\\n"),
                0x0c => out.push_str("\\f"),
                0x0d => out.push_str("\\r"),
                _ => write!(out, "\\u{unit:04x}").expect("memory"),
            },
        }
    }
    out.push('"');
}

fn from_hex(line: &str) -> Vec<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).expect("a hexadecimal digit") as u8;
    line.as_bytes().chunks(2).map(|pair| pair.iter().fold(0, |byte, half| byte << 4 | digit(*half))).collect()
}

fn kind(kind: &JsonErrorKind) -> &'static str {
    match kind {
        JsonErrorKind::Empty => "empty",
        JsonErrorKind::TooLarge { .. } => "too-large",
        JsonErrorKind::InvalidUtf8 => "not-utf-8",
        JsonErrorKind::ByteOrderMark => "byte-order-mark",
        JsonErrorKind::TooDeep { .. } => "too-deep",
        JsonErrorKind::TooManyMembers { .. } => "too-many-members",
        JsonErrorKind::UnexpectedEnd(_) => "ended",
        JsonErrorKind::Expected(_) => "expected",
        JsonErrorKind::TrailingComma => "trailing-comma",
        JsonErrorKind::TrailingText => "trailing-text",
        JsonErrorKind::Comment => "comment",
        JsonErrorKind::UnclosedComment => "open-comment",
        JsonErrorKind::ControlCharacter => "control-character",
        JsonErrorKind::InvalidEscape => "bad-escape",
        JsonErrorKind::LoneSurrogate => "lone-surrogate",
        JsonErrorKind::InvalidNumber => "bad-number",
        JsonErrorKind::NumberTooLong => "long-number",
        JsonErrorKind::NumberTooLarge => "large-number",
        JsonErrorKind::DuplicateKey(_) => "repeated-key",
    }
}
