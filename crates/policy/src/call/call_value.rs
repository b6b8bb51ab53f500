//! Values found in calls, in the form that operators compare.

use std::borrow::Cow;

use gatelodge_json::{Decimal, JsonKind, JsonValue};

/// A value found in a call.
#[derive(Debug, Clone)]
pub(crate) enum CallValue<'a> {
    Text(Cow<'a, str>),
    Number(Decimal<'a>),
    Bool(bool),
    List(JsonValue<'a>),
    /// An object, or a null inside a list.
    Other,
}

impl<'a> CallValue<'a> {
    pub fn of(value: JsonValue<'a>) -> Self {
        match value.kind() {
            JsonKind::String => Self::Text(value.as_str().unwrap_or_default()),
            JsonKind::Number => value.as_number().map_or(Self::Other, Self::Number),
            JsonKind::Bool => Self::Bool(value.as_bool() == Some(true)),
            JsonKind::Array => Self::List(value),
            JsonKind::Null | JsonKind::Object => Self::Other,
        }
    }

    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Number(_) | Self::Bool(_) | Self::List(_) | Self::Other => None,
        }
    }

    pub fn as_number(&self) -> Option<Decimal<'a>> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Text(_) | Self::Bool(_) | Self::List(_) | Self::Other => None,
        }
    }
}
