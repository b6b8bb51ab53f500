//! Request ids and progress tokens: strings or integers, kept as written.

use std::borrow::Cow;
use std::fmt;
use std::hash::{Hash, Hasher};

use gatelodge_json::{JsonDocumentText, JsonKind, JsonLimits, JsonValue, quote_into, read};

/// Parser limits for values that must be strings or numbers. They rule out lists and objects.
pub(crate) const SCALAR_LIMITS: JsonLimits = JsonLimits { max_bytes: 64 << 10, max_depth: 0, max_members: 0 };

/// A string or an integer of any length. Equality is by type and value: `"1"` differs from `1`, but `"\u0031"` equals
/// `"1"`.
#[derive(Debug, Clone)]
pub struct RequestId<'a> {
    /// The id as written; a string includes its quotes.
    raw: Cow<'a, str>,
    /// The unescaped string; `None` for an integer.
    string: Option<Cow<'a, str>>,
}

impl<'a> RequestId<'a> {
    /// Parses an id from its JSON text; `None` for null, fractions, exponents and all other kinds of values.
    ///
    /// ```
    /// use gatelodge_mcp::RequestId;
    ///
    /// assert_eq!(RequestId::read(r#""\u0031""#), RequestId::read(r#""1""#));
    /// assert_ne!(RequestId::read("1"), RequestId::read(r#""1""#));
    /// assert!(RequestId::read("1.0").is_none());
    /// ```
    pub fn read(raw: &'a str) -> Option<Self> {
        if let Some(string) = plain_string(raw) {
            return Some(Self { raw: raw.into(), string: Some(string.into()) });
        }
        let document = read(raw.as_bytes(), &SCALAR_LIMITS).ok()?;
        Self::of(document.root(), document.source())
    }

    /// Makes an id from `value`, borrowing from `text`.
    pub(crate) fn of(value: JsonValue<'_>, text: JsonDocumentText<'a>) -> Option<Self> {
        let (start, end) = value.span();
        let raw = Cow::Borrowed(text.get(start, end)?);
        match value.kind() {
            JsonKind::String => Some(Self { raw, string: string_value(text, value) }),
            JsonKind::Number if is_integer(&raw) => Some(Self { raw, string: None }),
            _ => None,
        }
    }

    /// Makes an id from a string.
    pub fn string(text: &str) -> RequestId<'static> {
        let mut raw = String::with_capacity(text.len() + 2);
        quote_into(text, &mut raw);
        RequestId { raw: Cow::Owned(raw), string: Some(Cow::Owned(text.to_owned())) }
    }

    /// Makes an id from a number.
    pub fn number(number: u64) -> RequestId<'static> {
        RequestId { raw: Cow::Owned(number.to_string()), string: None }
    }

    /// The id as written.
    pub fn raw(&self) -> &str {
        &self.raw
    }

    /// The unescaped string; `None` for an integer.
    pub fn as_str(&self) -> Option<&str> {
        self.string.as_deref()
    }

    /// Copies any borrowed text, so that the id can outlive the message.
    pub fn into_owned(self) -> RequestId<'static> {
        let own = |text: Cow<'a, str>| Cow::Owned(text.into_owned());
        RequestId { raw: own(self.raw), string: self.string.map(own) }
    }

    /// Returns the type and the value in canonical notation, for comparisons.
    fn canonical(&self) -> (bool, &str) {
        match &self.string {
            Some(string) => (true, string),
            // Since leading zeros are not allowed, zero is the only integer with two notations.
            None if self.raw == "-0" => (false, "0"),
            None => (false, &self.raw),
        }
    }
}

/// Returns the content of a JSON string that is printable ASCII without escapes. Most ids are like this and need no
/// parser.
pub(crate) fn plain_string(raw: &str) -> Option<&str> {
    let inside = raw.strip_prefix('"')?.strip_suffix('"')?;
    let is_plain = |byte: u8| matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\';
    // No early exit: the strings are short, and a loop without branches is faster.
    let are_plain = || inside.bytes().fold(true, |so_far, byte| so_far & is_plain(byte));
    (raw.len() <= SCALAR_LIMITS.max_bytes && are_plain()).then_some(inside)
}

/// Returns the unescaped content of a string, borrowed from the JSON if it has no escapes.
pub(crate) fn string_value<'a>(text: JsonDocumentText<'a>, value: JsonValue<'_>) -> Option<Cow<'a, str>> {
    match value.as_str()? {
        Cow::Owned(unescaped) => Some(Cow::Owned(unescaped)),
        Cow::Borrowed(_) => {
            let (start, end) = value.span();
            text.get(start + 1, end - 1).map(Cow::Borrowed)
        }
    }
}

/// Returns whether a valid JSON number has neither a fraction nor an exponent.
fn is_integer(raw: &str) -> bool {
    raw.strip_prefix('-').unwrap_or(raw).bytes().all(|byte| byte.is_ascii_digit())
}

impl PartialEq<RequestId<'_>> for RequestId<'_> {
    fn eq(&self, other: &RequestId<'_>) -> bool {
        self.canonical() == other.canonical()
    }
}

impl Eq for RequestId<'_> {}

impl Hash for RequestId<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.canonical().hash(state);
    }
}

impl fmt::Display for RequestId<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.raw)
    }
}
