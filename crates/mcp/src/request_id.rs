//! Request ids and progress tokens: a string or an integer, kept as it is written.

use std::borrow::Cow;
use std::fmt;
use std::hash::{Hash, Hasher};

use gatelodge_json::{JsonKind, JsonLimits, JsonText, JsonValue, quote_into, read};

/// For what must be a string or a number: whatever else stands there is not worth reading.
pub(crate) const SCALAR_LIMITS: JsonLimits = JsonLimits { max_bytes: 64 << 10, max_depth: 0, max_members: 0 };

/// A string or an integer of any length. Equal by type and value: `"1"` is not `1`, `"\u0031"` is `"1"`.
#[derive(Debug, Clone)]
pub struct RequestId<'a> {
    /// As it is written, a string with its quotes.
    raw: Cow<'a, str>,
    /// What a string stands for; none for an integer.
    string: Option<Cow<'a, str>>,
}

impl<'a> RequestId<'a> {
    /// Reads an id from its JSON text; none for null, fractions, exponents and every other kind of value.
    pub fn read(raw: &'a str) -> Option<Self> {
        if let Some(string) = plain_string(raw) {
            return Some(Self { raw: raw.into(), string: Some(string.into()) });
        }
        let document = read(raw.as_bytes(), &SCALAR_LIMITS).ok()?;
        Self::of(document.root(), document.source())
    }

    /// Takes the id that stands in `text` as `value`.
    pub(crate) fn of(value: JsonValue<'_>, text: JsonText<'a>) -> Option<Self> {
        let (start, end) = value.span();
        let raw = Cow::Borrowed(text.get(start, end)?);
        match value.kind() {
            JsonKind::String => Some(Self { raw, string: string_value(text, value) }),
            JsonKind::Number if is_integer(&raw) => Some(Self { raw, string: None }),
            _ => None,
        }
    }

    /// Makes an id of a string.
    pub fn string(text: &str) -> RequestId<'static> {
        let mut raw = String::with_capacity(text.len() + 2);
        quote_into(text, &mut raw);
        RequestId { raw: Cow::Owned(raw), string: Some(Cow::Owned(text.to_owned())) }
    }

    /// Makes an id of a number.
    pub fn number(number: u64) -> RequestId<'static> {
        RequestId { raw: Cow::Owned(number.to_string()), string: None }
    }

    /// The id as it is written.
    pub fn raw(&self) -> &str {
        &self.raw
    }

    /// What a string stands for; none for an integer.
    pub fn as_str(&self) -> Option<&str> {
        self.string.as_deref()
    }

    /// Copies what is borrowed, for keeping.
    pub fn into_owned(self) -> RequestId<'static> {
        let own = |text: Cow<'a, str>| Cow::Owned(text.into_owned());
        RequestId { raw: own(self.raw), string: self.string.map(own) }
    }

    /// The type, and the value in its one spelling.
    fn canonical(&self) -> (bool, &str) {
        match &self.string {
            Some(string) => (true, string),
            // Without leading zeros, zero is the only integer with two spellings.
            None if self.raw == "-0" => (false, "0"),
            None => (false, &self.raw),
        }
    }
}

/// What a string of plain letters stands for, which is what is written. Most are of that kind, and need no reader.
pub(crate) fn plain_string(raw: &str) -> Option<&str> {
    let inside = raw.strip_prefix('"')?.strip_suffix('"')?;
    let is_plain = |byte: u8| matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\';
    // All are looked at, without a branch for each: they are few.
    let are_plain = || inside.bytes().fold(true, |so_far, byte| so_far & is_plain(byte));
    (raw.len() <= SCALAR_LIMITS.max_bytes && are_plain()).then_some(inside)
}

/// What a string in a text stands for, borrowed from the text itself if it holds no escapes.
pub(crate) fn string_value<'a>(text: JsonText<'a>, value: JsonValue<'_>) -> Option<Cow<'a, str>> {
    match value.as_str()? {
        Cow::Owned(unescaped) => Some(Cow::Owned(unescaped)),
        Cow::Borrowed(_) => {
            let (start, end) = value.span();
            text.get(start + 1, end - 1).map(Cow::Borrowed)
        }
    }
}

/// The reader has checked the grammar; what remains is that there is neither fraction nor exponent.
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
