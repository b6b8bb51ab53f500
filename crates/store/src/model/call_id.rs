//! Ids of calls.

use std::fmt;

use data_encoding::BASE32HEX_NOPAD;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Unique id of a call. It appears in logs, and people can use it to refer to the call. Later calls have larger ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallId([u8; 26]);

impl CallId {
    /// Creates an id from the time in milliseconds and 80 random bits, so that it cannot be guessed.
    pub fn new(at: Timestamp, random: [u8; 10]) -> Self {
        let mut bytes = [0; 16];
        let milliseconds = u64::try_from(at.as_millisecond()).unwrap_or_default().to_be_bytes();
        let (time, tail) = bytes.split_at_mut(6);
        time.copy_from_slice(milliseconds.last_chunk::<6>().unwrap_or(&[0; 6]));
        tail.copy_from_slice(&random);
        let mut text = [b'0'; 26];
        BASE32HEX_NOPAD.encode_mut(&bytes, &mut text);
        text.make_ascii_lowercase();
        Self(text)
    }

    /// Returns the id as a string.
    pub fn as_str(&self) -> &str {
        // INVARIANT: only ASCII letters and digits are stored.
        str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for CallId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for CallId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let bytes: [u8; 26] = text.as_bytes().try_into().map_err(|_| serde::de::Error::custom("not a call id"))?;
        let is_plain = bytes.iter().all(u8::is_ascii_alphanumeric);
        if is_plain { Ok(Self(bytes)) } else { Err(serde::de::Error::custom("not a call id")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_calls_have_larger_ids() {
        let at: Timestamp = "2026-11-15T12:00:00Z".parse().expect("a time");
        let later = at + std::time::Duration::from_millis(1);
        assert!(CallId::new(at, [255; 10]) < CallId::new(later, [0; 10]));
        assert_eq!(CallId::new(at, [1; 10]).as_str().len(), 26);
    }
}
