//! Builds the syntax tree from a YAML parser's events.
//!
//! Accepts only what JSON can express. Anything that two YAML parsers could read differently is an error.

use std::borrow::Cow;
use std::ops::Range;

use gatelodge_json::{Decimal, JsonLimits};
use saphyr_parser::{Event, Parser, ScalarStyle, Span, Tag};

use super::{EMPTY_TEXT_MESSAGE, SyntaxMapEntry, SyntaxNode, SyntaxNodeValue};
use crate::syntax::diagnostic::{Diagnostic, DiagnosticCode, push_bounded};

pub(super) fn read(text: &[u8]) -> Result<(SyntaxNode, Vec<Diagnostic>), Diagnostic> {
    let limit = JsonLimits::DOCUMENT.max_bytes;
    if text.len() > limit {
        let message = format!("the text is larger than {limit} bytes");
        return Err(Diagnostic::error(DiagnosticCode::TooLarge, limit..text.len(), message));
    }
    let text = str::from_utf8(text).map_err(|error| {
        let at = error.valid_up_to();
        Diagnostic::error(DiagnosticCode::Syntax, at..at + 1, "the text is not valid UTF-8")
            .with_help("save the file as UTF-8 text")
    })?;
    if text.starts_with('\u{feff}') {
        let diagnostic = Diagnostic::error(DiagnosticCode::Syntax, 0..3, "the document starts with a byte order mark");
        return Err(diagnostic.with_help("save the file without a byte order mark"));
    }
    if let Some(at) = find_directive(text) {
        let diagnostic = Diagnostic::error(DiagnosticCode::YamlFeature, at..at + 1, "directives are not allowed");
        return Err(diagnostic.with_help("remove the line; documents are YAML 1.2"));
    }
    let mut reader = YamlDocumentReader {
        parser: Parser::new_from_str(text),
        offsets: ByteOffsets::new(text),
        diagnostics: Vec::new(),
    };
    let root = reader.read_document()?;
    Ok((root, reader.diagnostics))
}

struct YamlDocumentReader<'a> {
    parser: Parser<'a, saphyr_parser::StrInput<'a>>,
    offsets: ByteOffsets,
    diagnostics: Vec<Diagnostic>,
}

impl<'a> YamlDocumentReader<'a> {
    fn read_document(&mut self) -> Result<SyntaxNode, Diagnostic> {
        let empty = || Diagnostic::error(DiagnosticCode::Syntax, 0..0, EMPTY_TEXT_MESSAGE);
        loop {
            let (event, span) = self.next_event()?;
            match event {
                Event::StreamStart | Event::DocumentStart(_) | Event::Nothing => {}
                Event::StreamEnd | Event::DocumentEnd => return Err(empty()),
                event => {
                    let root = self.read_node(event, span, 0)?.ok_or_else(empty)?;
                    self.expect_end()?;
                    return Ok(root);
                }
            }
        }
    }

    fn expect_end(&mut self) -> Result<(), Diagnostic> {
        loop {
            match self.next_event()? {
                (Event::StreamEnd, _) => return Ok(()),
                (Event::DocumentStart(_), span) => {
                    let message = "a second document follows";
                    return Err(Diagnostic::error(DiagnosticCode::Syntax, span, message)
                        .with_help("one file holds one document"));
                }
                _ => {}
            }
        }
    }

    fn next_event(&mut self) -> Result<(Event<'a>, Range<usize>), Diagnostic> {
        match self.parser.next_event() {
            Some(Ok((event, span))) => {
                let span = self.offsets.byte_range(&span);
                Ok((event, span))
            }
            Some(Err(error)) => {
                let at = self.offsets.byte_offset(error.marker().index());
                // The YAML parser reads ahead, so it can hit its own depth limit first.
                if error.info().contains("recursion limit") {
                    return Err(too_deep_error(at..at));
                }
                if error.info().contains("unknown anchor") {
                    let diagnostic = Diagnostic::error(DiagnosticCode::YamlFeature, at..at, "aliases are not allowed");
                    return Err(diagnostic
                        .with_help("write the value out where it is used, or put a text with a star in quotes"));
                }
                Err(Diagnostic::error(DiagnosticCode::Syntax, at..at, format!("this is not YAML: {}", error.info())))
            }
            None => Err(Diagnostic::error(DiagnosticCode::Syntax, 0..0, "the text ends too early")),
        }
    }

    /// Reads the value that starts with `event`. `None` for an alias, which is reported and left out.
    fn read_node(
        &mut self,
        event: Event<'a>,
        span: Range<usize>,
        depth: usize,
    ) -> Result<Option<SyntaxNode>, Diagnostic> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                self.refuse_properties(anchor, tag.as_deref(), &span);
                Ok(Some(SyntaxNode { value: self.resolve_scalar(text, style, &span), span }))
            }
            Event::SequenceStart(..) | Event::MappingStart(..) if depth >= JsonLimits::DOCUMENT.max_depth => {
                Err(too_deep_error(span))
            }
            Event::SequenceStart(anchor, tag) => {
                self.refuse_properties(anchor, tag.as_deref(), &span);
                self.read_list(span, depth).map(Some)
            }
            Event::MappingStart(anchor, tag) => {
                self.refuse_properties(anchor, tag.as_deref(), &span);
                self.read_map(span, depth).map(Some)
            }
            Event::Alias(_) => {
                self.refuse(&span, "aliases are not allowed", "write the value out where it is used");
                Ok(None)
            }
            _ => Err(Diagnostic::error(DiagnosticCode::Syntax, span, "a value is missing here")),
        }
    }

    fn read_list(&mut self, start: Range<usize>, depth: usize) -> Result<SyntaxNode, Diagnostic> {
        let mut items = Vec::new();
        loop {
            match self.next_event()? {
                (Event::SequenceEnd, end) => {
                    return Ok(SyntaxNode {
                        value: SyntaxNodeValue::List(items),
                        span: start.start..end.end.max(start.end),
                    });
                }
                (event, span) => items.extend(self.read_node(event, span, depth + 1)?),
            }
        }
    }

    fn read_map(&mut self, start: Range<usize>, depth: usize) -> Result<SyntaxNode, Diagnostic> {
        let mut entries: Vec<SyntaxMapEntry> = Vec::new();
        let mut seen = std::collections::BTreeSet::new();
        loop {
            let (event, key_span) = self.next_event()?;
            if event == Event::MappingEnd {
                return Ok(SyntaxNode {
                    value: SyntaxNodeValue::Map(entries),
                    span: start.start..key_span.end.max(start.end),
                });
            }
            let key = self.read_key(event, &key_span, depth)?;
            let (event, span) = self.next_event()?;
            let value = self.read_node(event, span, depth + 1)?;
            let (Some(key), Some(value)) = (key, value) else { continue };
            if !seen.insert(key.clone()) {
                let diagnostic = Diagnostic::error(
                    DiagnosticCode::RepeatedKey,
                    key_span.clone(),
                    format!("the key `{key}` is repeated"),
                );
                push_bounded(&mut self.diagnostics, diagnostic.with_help("keep one of the two; neither wins"));
            }
            if entries.len() >= JsonLimits::DOCUMENT.max_members {
                let message = format!("an object has more than {} members", JsonLimits::DOCUMENT.max_members);
                return Err(Diagnostic::error(DiagnosticCode::TooLarge, key_span, message));
            }
            entries.push(SyntaxMapEntry { key, key_span, value });
        }
    }

    /// Reads a key. `None` if the key is rejected; its member is then left out.
    fn read_key(&mut self, event: Event<'a>, span: &Range<usize>, depth: usize) -> Result<Option<String>, Diagnostic> {
        let is_merge = matches!(&event, Event::Scalar(text, ScalarStyle::Plain, ..) if text == "<<");
        if is_merge {
            self.refuse(span, "merge keys are not allowed", "write the members out where they are used");
            return Ok(None);
        }
        match self.read_node(event, span.clone(), depth + 1)?.map(|node| node.value) {
            Some(SyntaxNodeValue::Text(key)) => Ok(Some(key)),
            Some(_) => {
                self.refuse(span, "a key must be a string", "put the key in double quotes");
                Ok(None)
            }
            None => Ok(None),
        }
    }

    fn refuse_properties(&mut self, anchor: usize, tag: Option<&Tag>, span: &Range<usize>) {
        if anchor != 0 {
            self.refuse(span, "anchors are not allowed", "write the value out where it is used");
        }
        if tag.is_some() {
            self.refuse(span, "tags are not allowed", "put text in double quotes; numbers and booleans need no tag");
        }
    }

    fn refuse(&mut self, span: &Range<usize>, message: &str, help: &str) {
        push_bounded(
            &mut self.diagnostics,
            Diagnostic::error(DiagnosticCode::YamlFeature, span.clone(), message).with_help(help),
        );
    }

    /// Resolves a scalar according to YAML's core schema. Numbers must be in JSON notation.
    fn resolve_scalar(&mut self, text: Cow<'_, str>, style: ScalarStyle, span: &Range<usize>) -> SyntaxNodeValue {
        if style != ScalarStyle::Plain {
            return SyntaxNodeValue::Text(text.into_owned());
        }
        match text.as_ref() {
            "" | "~" | "null" | "Null" | "NULL" => SyntaxNodeValue::Null,
            "true" | "True" | "TRUE" => SyntaxNodeValue::Bool(true),
            "false" | "False" | "FALSE" => SyntaxNodeValue::Bool(false),
            number if Decimal::new(number).is_some() => SyntaxNodeValue::Number(number.to_owned()),
            other if is_non_json_number(other) => {
                let message = format!("`{other}` is not a number in JSON notation, or is out of range");
                let diagnostic = Diagnostic::error(DiagnosticCode::BadNumber, span.clone(), message);
                let help = "write it as JSON does (`15`, `0.5`, `1e3`), or quote it if it is text";
                push_bounded(&mut self.diagnostics, diagnostic.with_help(help));
                // Any number will do: the document is rejected anyway, and one error is enough.
                SyntaxNodeValue::Number("1".to_owned())
            }
            other => SyntaxNodeValue::Text(other.to_owned()),
        }
    }
}

/// Returns the offset of the first `%` directive. Only comments and empty lines can precede it.
fn find_directive(text: &str) -> Option<usize> {
    let mut at = 0;
    // In YAML, a carriage return alone also ends a line.
    for line in text.split_inclusive(['\n', '\r']) {
        match line.trim_start().chars().next() {
            Some('%') if line.starts_with('%') => return Some(at),
            None | Some('#') => at += line.len(),
            Some(_) => return None,
        }
    }
    None
}

fn too_deep_error(span: Range<usize>) -> Diagnostic {
    Diagnostic::error(
        DiagnosticCode::TooLarge,
        span,
        format!("nested deeper than {} levels", JsonLimits::DOCUMENT.max_depth),
    )
}

/// Returns whether YAML's core schema accepts the text as a number but [`Decimal`] does not.
fn is_non_json_number(text: &str) -> bool {
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

/// Converts the parser's character offsets to byte offsets.
struct ByteOffsets {
    /// Byte offset of each character. Empty for ASCII text, where byte and character offsets are equal.
    char_starts: Vec<usize>,
    text_len: usize,
}

impl ByteOffsets {
    fn new(text: &str) -> Self {
        let char_starts = if text.is_ascii() { Vec::new() } else { text.char_indices().map(|(at, _)| at).collect() };
        Self { char_starts, text_len: text.len() }
    }

    fn byte_offset(&self, character: usize) -> usize {
        if self.char_starts.is_empty() {
            return character.min(self.text_len);
        }
        self.char_starts.get(character).copied().unwrap_or(self.text_len)
    }

    fn byte_range(&self, span: &Span) -> Range<usize> {
        self.byte_offset(span.start.index())..self.byte_offset(span.end.index())
    }
}
