//! Parses JSON like Python's `json` module, with the same error messages, and writes it like pydantic.
//!
//! This parser is more lenient than our own: if a key is repeated, the last value is used; NaN and Infinity are
//! numbers; and floats do not keep their original notation.

use std::collections::HashMap;
use std::fmt::Write;

/// A Python value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum PythonValue {
    /// `None`, `True`, `False` or an integer of any length, as written in the JSON document.
    Literal(String),
    Float(f64),
    Str(String),
    List(Vec<PythonValue>),
    Dict(Vec<(String, PythonValue)>),
}

/// Output formats, which differ in how floats are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JsonFloatStyle {
    /// Text content of a result: `NaN` and `Infinity` are written by name.
    TextContent,
    /// Structured content of a result: `NaN` and `Infinity` become `null`.
    StructuredContent,
    /// Request to the image: `NaN` and `Infinity` become `null`, and exponents have a sign and two digits.
    RequestBody,
}

/// Why a JSON document cannot be converted to a Python value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PythonJsonError {
    /// The document is not valid JSON. The message matches Python's `json` decoder.
    NotJson(String),
    /// The document is valid JSON, but Python cannot represent it or pydantic cannot write it.
    PythonException(String),
}

/// Maximum nesting depth that pydantic can write.
const MAX_PYDANTIC_NESTING_LEVELS: usize = 254;
/// Maximum number of digits in an integer that Python can parse.
const MAX_DIGITS: usize = 4_300;

/// Parses a JSON document.
///
/// # Errors
/// Returns the error that Python would report.
pub(crate) fn read(text: &str) -> Result<PythonValue, PythonJsonError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut reader = PythonJsonReader { text, at: 0 };
    reader.skip_whitespace();
    let value = reader.value(0)?;
    reader.skip_whitespace();
    if reader.at < text.len() { Err(reader.json_error("Extra data", reader.at)) } else { Ok(value) }
}

impl PythonValue {
    /// Writes the value as compact JSON.
    pub fn write(&self, style: JsonFloatStyle) -> String {
        let mut out = String::new();
        self.push(style, &mut out);
        out
    }

    fn push(&self, style: JsonFloatStyle, out: &mut String) {
        match self {
            Self::Literal(raw) => out.push_str(raw),
            Self::Float(float) if !float.is_finite() => out.push_str(match (style, *float) {
                (JsonFloatStyle::StructuredContent | JsonFloatStyle::RequestBody, _) => "null",
                (JsonFloatStyle::TextContent, float) if float.is_nan() => "NaN",
                (JsonFloatStyle::TextContent, float) if float > 0.0 => "Infinity",
                (JsonFloatStyle::TextContent, _) => "-Infinity",
            }),
            Self::Float(float) => out.push_str(&format_float(*float, style)),
            Self::Str(text) => push_string(text, out),
            Self::List(items) => {
                out.push('[');
                for (at, item) in items.iter().enumerate() {
                    if at > 0 {
                        out.push(',');
                    }
                    item.push(style, out);
                }
                out.push(']');
            }
            Self::Dict(members) => {
                out.push('{');
                for (at, (key, value)) in members.iter().enumerate() {
                    if at > 0 {
                        out.push(',');
                    }
                    push_string(key, out);
                    out.push(':');
                    value.push(style, out);
                }
                out.push('}');
            }
        }
    }
}

/// Writes a float with the fewest digits that round-trip, in the format of Python's `repr` or of pydantic.
fn format_float(float: f64, style: JsonFloatStyle) -> String {
    let written = format!("{float:e}");
    let (digits, power) = written.split_once('e').unwrap_or((&written, "0"));
    let least = if style == JsonFloatStyle::RequestBody { -4 } else { -5 };
    match power.parse::<i32>() {
        Ok(power) if (least..16).contains(&power) => {
            let plain = float.to_string();
            if plain.contains('.') { plain } else { format!("{plain}.0") }
        }
        Ok(power) if style == JsonFloatStyle::RequestBody => {
            let sign = if power < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", power.abs())
        }
        _ => written,
    }
}

fn push_string(text: &str, out: &mut String) {
    let _ = write!(out, "{}", serde_json::Value::from(text));
}

struct PythonJsonReader<'a> {
    text: &'a str,
    at: usize,
}

impl PythonJsonReader<'_> {
    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_whitespace(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    /// Builds an error. Its position counts characters, not bytes, as in Python.
    fn json_error(&self, what: &str, at: usize) -> PythonJsonError {
        let before = self.text.get(..at).unwrap_or(self.text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        PythonJsonError::NotJson(format!("{what}: line {line} column {column} (char {})", before.chars().count()))
    }

    fn value(&mut self, depth: usize) -> Result<PythonValue, PythonJsonError> {
        if depth > MAX_PYDANTIC_NESTING_LEVELS {
            let what = "Error serializing to JSON: ValueError: Circular reference detected (depth exceeded)";
            return Err(PythonJsonError::PythonException(what.to_owned()));
        }
        match self.peek() {
            Some(b'"') => self.string().map(PythonValue::Str),
            Some(b'{') => self.dict(depth),
            Some(b'[') => self.list(depth),
            _ => self.word_or_number(),
        }
    }

    fn word_or_number(&mut self) -> Result<PythonValue, PythonJsonError> {
        let words = [("null", None), ("true", None), ("false", None), ("NaN", Some(f64::NAN))];
        let words =
            words.into_iter().chain([("Infinity", Some(f64::INFINITY)), ("-Infinity", Some(f64::NEG_INFINITY))]);
        for (word, float) in words {
            if self.rest().starts_with(word) {
                self.at += word.len();
                return Ok(float.map_or_else(|| PythonValue::Literal(word.to_owned()), PythonValue::Float));
            }
        }
        self.number()
    }

    fn number(&mut self) -> Result<PythonValue, PythonJsonError> {
        let begin = self.at;
        let rest = self.rest().as_bytes();
        let digits = |from: usize| rest.iter().skip(from).take_while(|byte| byte.is_ascii_digit()).count();
        let sign = usize::from(rest.first() == Some(&b'-'));
        let whole = if rest.get(sign) == Some(&b'0') { 1 } else { digits(sign) };
        if whole == 0 {
            return Err(self.json_error("Expecting value", begin));
        }
        let mut end = sign + whole;
        let mut is_float = false;
        if rest.get(end) == Some(&b'.') && digits(end + 1) > 0 {
            end += 1 + digits(end + 1);
            is_float = true;
        }
        if matches!(rest.get(end), Some(b'e' | b'E')) {
            let sign = usize::from(matches!(rest.get(end + 1), Some(b'+' | b'-')));
            let power = digits(end + 1 + sign);
            if power > 0 {
                end += 1 + sign + power;
                is_float = true;
            }
        }
        self.at = begin + end;
        let raw = self.text.get(begin..self.at).unwrap_or_default();
        if is_float {
            // INVARIANT: the number above is valid in Rust's grammar, too. Out of range, it becomes infinite.
            return Ok(PythonValue::Float(raw.parse().unwrap_or(f64::NAN)));
        }
        if whole > MAX_DIGITS {
            return Err(PythonJsonError::PythonException(format!(
                "Exceeds the limit ({MAX_DIGITS} digits) for integer string conversion: value has {whole} digits; use \
                sys.set_int_max_str_digits() to increase the limit"
            )));
        }
        Ok(PythonValue::Literal(if raw == "-0" { "0" } else { raw }.to_owned()))
    }

    fn list(&mut self, depth: usize) -> Result<PythonValue, PythonJsonError> {
        let mut items = Vec::new();
        self.at += 1;
        self.skip_whitespace();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(PythonValue::List(items));
        }
        loop {
            items.push(self.value(depth + 1)?);
            self.skip_whitespace();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.at += 1;
                    return Ok(PythonValue::List(items));
                }
                _ => return Err(self.json_error("Expecting ',' delimiter", self.at)),
            }
            self.skip_whitespace();
        }
    }

    fn dict(&mut self, depth: usize) -> Result<PythonValue, PythonJsonError> {
        let mut members: Vec<(String, PythonValue)> = Vec::new();
        let mut places = HashMap::new();
        self.at += 1;
        self.skip_whitespace();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(PythonValue::Dict(members));
        }
        loop {
            if self.peek() != Some(b'"') {
                return Err(self.json_error("Expecting property name enclosed in double quotes", self.at));
            }
            let key = self.string()?;
            self.skip_whitespace();
            if self.peek() != Some(b':') {
                return Err(self.json_error("Expecting ':' delimiter", self.at));
            }
            self.at += 1;
            self.skip_whitespace();
            let value = self.value(depth + 1)?;
            // The last of repeated keys applies, at the position of the first.
            match places.get(&key).and_then(|place: &usize| members.get_mut(*place)) {
                Some((_, own)) => *own = value,
                None => {
                    places.insert(key.clone(), members.len());
                    members.push((key, value));
                }
            }
            self.skip_whitespace();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    return Ok(PythonValue::Dict(members));
                }
                _ => return Err(self.json_error("Expecting ',' delimiter", self.at)),
            }
            self.skip_whitespace();
        }
    }

    fn string(&mut self) -> Result<String, PythonJsonError> {
        let begin = self.at;
        self.at += 1;
        loop {
            match self.peek() {
                None => return Err(self.json_error("Unterminated string starting at", begin)),
                Some(b'"') => break,
                Some(b'\\') => self.escape(begin)?,
                Some(byte) if byte < b' ' => return Err(self.json_error("Invalid control character at", self.at)),
                Some(_) => self.at += 1,
            }
        }
        self.at += 1;
        let raw = self.text.get(begin..self.at).unwrap_or_default();
        // Only a lone surrogate is left for Rust to refuse, which Python holds but cannot write.
        serde_json::from_str(raw).map_err(|_| PythonJsonError::PythonException("lone surrogate".to_owned()))
    }

    fn escape(&mut self, begin: usize) -> Result<(), PythonJsonError> {
        let at = self.at;
        match self.text.as_bytes().get(at + 1) {
            None => Err(self.json_error("Unterminated string starting at", begin)),
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => {
                self.at += 2;
                Ok(())
            }
            Some(b'u') => {
                let hex = self.text.as_bytes().get(at + 2..at + 6).unwrap_or_default();
                if hex.len() < 4 || !hex.iter().all(u8::is_ascii_hexdigit) {
                    return Err(self.json_error("Invalid \\uXXXX escape", at + 1));
                }
                self.at += 6;
                Ok(())
            }
            Some(_) => Err(self.json_error("Invalid \\escape", at)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(text: &str) -> Result<String, PythonJsonError> {
        read(text).map(|value| value.write(JsonFloatStyle::TextContent))
    }

    #[test]
    fn numbers_keys_and_strings_are_written_like_python() {
        for (text, expected) in [
            (
                "[1.10, 1e2, 1e16, 1e400, -0, 12345678901234567890123]",
                "[1.1,100.0,1e16,Infinity,0,12345678901234567890123]",
            ),
            (r#"{"a":1,"b":2,"a":[NaN,-Infinity]}"#, r#"{"a":[NaN,-Infinity],"b":2}"#),
            (r#""\u00e9\u2028\b/""#, "\"é\u{2028}\\b/\""),
        ] {
            assert_eq!(written(text), Ok(expected.to_owned()));
        }
        assert_eq!(read("[NaN,1e400]").expect("a value").write(JsonFloatStyle::StructuredContent), "[null,null]");
        let floats = read("[1e400,1e-7,1e22,1.10,1e2,-0.0,123456789012345680.0]").expect("floats");
        assert_eq!(
            floats.write(JsonFloatStyle::RequestBody),
            "[null,1e-07,1e+22,1.1,100.0,-0.0,1.2345678901234568e+17]"
        );
    }

    #[test]
    fn many_keys_are_read_quickly() {
        let members: Vec<String> = (0..100_000).map(|at| format!("\"a key of some length {at:06}\":{at}")).collect();
        let text = format!("{{{},\"a key of some length 000000\":7}}", members.join(","));
        let begin = std::time::Instant::now();
        let list = read(&format!("[{}]", members.join(",").replace(':', ",")));
        let as_list = begin.elapsed();
        assert!(matches!(list, Ok(PythonValue::List(items)) if items.len() == 200_000));
        let begin = std::time::Instant::now();
        let Ok(PythonValue::Dict(read)) = read(&text) else { panic!("no dict") };
        assert!(begin.elapsed() < as_list * 20, "{:?}, and {as_list:?} as a list", begin.elapsed());
        assert_eq!(read.len(), 100_000);
        assert_eq!(read.first().map(|(_, value)| value), Some(&PythonValue::Literal("7".to_owned())));
    }

    #[test]
    fn error_messages_are_those_of_python() {
        for (text, expected) in [
            ("", "Expecting value: line 1 column 1 (char 0)"),
            ("<html>", "Expecting value: line 1 column 1 (char 0)"),
            ("{\"a\": 1\n  \"b\"", "Expecting ',' delimiter: line 2 column 3 (char 10)"),
            ("{\"é\" 1}", "Expecting ':' delimiter: line 1 column 6 (char 5)"),
            ("{a:1}", "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
            ("{} x", "Extra data: line 1 column 4 (char 3)"),
            ("[\"abc", "Unterminated string starting at: line 1 column 2 (char 1)"),
            ("[\"a\tb\"]", "Invalid control character at: line 1 column 4 (char 3)"),
            (r#"["\x"]"#, "Invalid \\escape: line 1 column 3 (char 2)"),
            (r#"["\u12"]"#, "Invalid \\uXXXX escape: line 1 column 4 (char 3)"),
        ] {
            assert_eq!(written(text), Err(PythonJsonError::NotJson(expected.to_owned())), "{text}");
        }
    }
}
