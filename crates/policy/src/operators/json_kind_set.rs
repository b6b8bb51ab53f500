//! Sets of JSON kinds.

use std::fmt;

use gatelodge_json::JsonKind;

/// A set of JSON kinds. Null is not a member, because it counts as absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct JsonKindSet(u8);

impl JsonKindSet {
    pub const NONE: Self = Self(0);
    pub const BOOL: Self = Self(1);
    pub const NUMBER: Self = Self(2);
    pub const STRING: Self = Self(4);
    pub const LIST: Self = Self(8);
    pub const OBJECT: Self = Self(16);
    pub const ALL: Self = Self(31);

    pub fn of(kind: JsonKind) -> Self {
        match kind {
            JsonKind::Null => Self::NONE,
            JsonKind::Bool => Self::BOOL,
            JsonKind::Number => Self::NUMBER,
            JsonKind::String => Self::STRING,
            JsonKind::Array => Self::LIST,
            JsonKind::Object => Self::OBJECT,
        }
    }

    pub fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    pub fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub fn has(self, other: Self) -> bool {
        !self.and(other).is_empty()
    }
}

impl fmt::Display for JsonKindSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds = [JsonKind::Bool, JsonKind::Number, JsonKind::String, JsonKind::Array, JsonKind::Object];
        let own = kinds.into_iter().filter(|kind| self.has(Self::of(*kind)));
        let words: Vec<&str> = own.map(JsonKind::with_article).collect();
        f.write_str(&words.join(" or "))
    }
}
