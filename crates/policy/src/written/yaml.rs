//! YAML into the written form, from the parser's events.
//!
//! Only what JSON can also say: whatever two YAML readers could take differently is a fault.

use std::borrow::Cow;
use std::ops::Range;

use gatelodge_json::{Decimal, Limits};
use saphyr_parser::{Event, Parser, ScalarStyle, Span, Tag};

use super::{Entry, Node, Written};
use crate::fault::{Code, Fault};

pub(super) fn read(text: &[u8]) -> Result<(Node, Vec<Fault>), Fault> {
    let limit = Limits::DOCUMENT.bytes;
    if text.len() > limit {
        let message = format!("the text is larger than {limit} bytes");
        return Err(Fault::error(Code::TooLarge, limit..text.len(), message));
    }
    let text = str::from_utf8(text).map_err(|error| {
        let at = error.valid_up_to();
        Fault::error(Code::Syntax, at..at + 1, "the text is not valid UTF-8").help("save the file as UTF-8 text")
    })?;
    let mut reader = Reader { parser: Parser::new_from_str(text), offsets: Offsets::new(text), repeats: Vec::new() };
    let root = reader.document()?;
    Ok((root, reader.repeats))
}

struct Reader<'a> {
    parser: Parser<'a, saphyr_parser::StrInput<'a>>,
    offsets: Offsets,
    repeats: Vec<Fault>,
}

impl<'a> Reader<'a> {
    fn document(&mut self) -> Result<Node, Fault> {
        let empty = || {
            Fault::error(Code::Syntax, 0..0, "the text is empty")
                .help("the smallest policy is `version: \"1\"` and `default: deny`")
        };
        loop {
            let (event, span) = self.next()?;
            match event {
                Event::StreamStart | Event::DocumentStart(_) | Event::Nothing => {}
                Event::StreamEnd | Event::DocumentEnd => return Err(empty()),
                event => {
                    let root = self.node(event, span, 0)?;
                    self.end()?;
                    return Ok(root);
                }
            }
        }
    }

    fn end(&mut self) -> Result<(), Fault> {
        loop {
            match self.next()? {
                (Event::StreamEnd, _) => return Ok(()),
                (Event::DocumentStart(_), span) => {
                    let message = "a second document follows";
                    return Err(Fault::error(Code::Syntax, span, message).help("one file holds one policy"));
                }
                _ => {}
            }
        }
    }

    fn next(&mut self) -> Result<(Event<'a>, Range<usize>), Fault> {
        match self.parser.next_event() {
            Some(Ok((event, span))) => {
                let span = self.offsets.range(&span);
                Ok((event, span))
            }
            Some(Err(error)) => {
                let at = self.offsets.byte(error.marker().index());
                // The parser looks ahead, so it can meet its own bound before ours.
                if error.info().contains("recursion limit") {
                    return Err(too_deep(at..at));
                }
                Err(Fault::error(Code::Syntax, at..at, format!("this is not YAML: {}", error.info())))
            }
            None => Err(Fault::error(Code::Syntax, 0..0, "the text ends too early")),
        }
    }

    fn node(&mut self, event: Event<'a>, span: Range<usize>, depth: usize) -> Result<Node, Fault> {
        if depth > Limits::DOCUMENT.depth {
            return Err(too_deep(span));
        }
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                refuse_properties(anchor, tag.as_deref(), &span)?;
                Ok(Node { value: scalar(text, style, &span)?, span })
            }
            Event::SequenceStart(anchor, tag) => {
                refuse_properties(anchor, tag.as_deref(), &span)?;
                self.list(span, depth)
            }
            Event::MappingStart(anchor, tag) => {
                refuse_properties(anchor, tag.as_deref(), &span)?;
                self.map(span, depth)
            }
            Event::Alias(_) => Err(Fault::error(Code::YamlFeature, span, "aliases are not allowed")
                .help("write the value out where it is used")),
            _ => Err(Fault::error(Code::Syntax, span, "a value is missing here")),
        }
    }

    fn list(&mut self, start: Range<usize>, depth: usize) -> Result<Node, Fault> {
        let mut items = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd, end) => {
                    return Ok(Node { value: Written::List(items), span: start.start..end.end.max(start.end) });
                }
                (event, span) => items.push(self.node(event, span, depth + 1)?),
            }
        }
    }

    fn map(&mut self, start: Range<usize>, depth: usize) -> Result<Node, Fault> {
        let mut entries: Vec<Entry> = Vec::new();
        let mut seen = std::collections::BTreeSet::new();
        loop {
            let (event, key_span) = self.next()?;
            if event == Event::MappingEnd {
                return Ok(Node { value: Written::Map(entries), span: start.start..key_span.end.max(start.end) });
            }
            let key = key(event, &key_span)?;
            if !seen.insert(key.clone()) {
                let message = format!("the key `{key}` is repeated");
                let fault = Fault::error(Code::RepeatedKey, key_span.clone(), message);
                self.repeats.push(fault.help("keep one of the two; neither wins"));
            }
            let (event, span) = self.next()?;
            let value = self.node(event, span, depth + 1)?;
            entries.push(Entry { key, key_span, value });
        }
    }
}

fn too_deep(span: Range<usize>) -> Fault {
    Fault::error(Code::TooLarge, span, format!("nested deeper than {} levels", Limits::DOCUMENT.depth))
}

fn key(event: Event<'_>, span: &Range<usize>) -> Result<String, Fault> {
    let not_text =
        || Fault::error(Code::YamlFeature, span.clone(), "a key must be a string").help("put the key in double quotes");
    let Event::Scalar(text, style, anchor, tag) = event else { return Err(not_text()) };
    refuse_properties(anchor, tag.as_deref(), span)?;
    if style == ScalarStyle::Plain && text == "<<" {
        let fault = Fault::error(Code::YamlFeature, span.clone(), "merge keys are not allowed");
        return Err(fault.help("write the members out where they are used"));
    }
    match scalar(text, style, span)? {
        Written::Text(key) => Ok(key),
        _ => Err(not_text()),
    }
}

fn refuse_properties(anchor: usize, tag: Option<&Tag>, span: &Range<usize>) -> Result<(), Fault> {
    if anchor != 0 {
        let fault = Fault::error(Code::YamlFeature, span.clone(), "anchors are not allowed");
        return Err(fault.help("write the value out where it is used"));
    }
    if tag.is_some() {
        let fault = Fault::error(Code::YamlFeature, span.clone(), "tags are not allowed");
        return Err(fault.help("put text in double quotes; numbers and booleans need no tag"));
    }
    Ok(())
}

/// Resolves a scalar by the core schema, with numbers as JSON writes them.
fn scalar(text: Cow<'_, str>, style: ScalarStyle, span: &Range<usize>) -> Result<Written, Fault> {
    if style != ScalarStyle::Plain {
        return Ok(Written::Text(text.into_owned()));
    }
    match text.as_ref() {
        "" | "~" | "null" | "Null" | "NULL" => Ok(Written::Null),
        "true" | "True" | "TRUE" => Ok(Written::Bool(true)),
        "false" | "False" | "FALSE" => Ok(Written::Bool(false)),
        number if Decimal::new(number).is_some() => Ok(Written::Number(number.to_owned())),
        other if is_other_number(other) => {
            let message = format!("`{other}` is a number that JSON would not write so, or is out of bounds");
            let fault = Fault::error(Code::BadNumber, span.clone(), message);
            Err(fault.help("write it as JSON does (`15`, `0.5`, `1e3`), or quote it if it is text"))
        }
        other => Ok(Written::Text(other.to_owned())),
    }
}

/// Whether YAML's core schema takes the text for a number although [`Decimal`] does not.
fn is_other_number(text: &str) -> bool {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if matches!(unsigned, ".inf" | ".Inf" | ".INF") || matches!(text, ".nan" | ".NaN" | ".NAN") {
        return true;
    }
    let all = |digits: &str, test: fn(&char) -> bool| !digits.is_empty() && digits.chars().all(|c| test(&c));
    if let Some(octal) = text.strip_prefix("0o") {
        return all(octal, |c| ('0'..='7').contains(c));
    }
    if let Some(hex) = text.strip_prefix("0x") {
        return all(hex, char::is_ascii_hexdigit);
    }
    // [-+]? ( \. [0-9]+ | [0-9]+ ( \. [0-9]* )? ) ( [eE] [-+]? [0-9]+ )?
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent.strip_prefix(['-', '+']).unwrap_or(exponent))),
        None => (unsigned, None),
    };
    let (integer, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits_only = |text: &str| text.chars().all(|c| c.is_ascii_digit());
    digits_only(integer)
        && digits_only(fraction)
        && !(integer.is_empty() && fraction.is_empty())
        && exponent.is_none_or(|exponent| all(exponent, char::is_ascii_digit))
}

/// From the parser's places, in characters, to bytes.
struct Offsets {
    /// Byte offset of each character; empty for ASCII, where the two are the same.
    bytes: Vec<usize>,
    length: usize,
}

impl Offsets {
    fn new(text: &str) -> Self {
        let bytes = if text.is_ascii() { Vec::new() } else { text.char_indices().map(|(at, _)| at).collect() };
        Self { bytes, length: text.len() }
    }

    fn byte(&self, character: usize) -> usize {
        if self.bytes.is_empty() {
            return character.min(self.length);
        }
        self.bytes.get(character).copied().unwrap_or(self.length)
    }

    fn range(&self, span: &Span) -> Range<usize> {
        self.byte(span.start.index())..self.byte(span.end.index())
    }
}
