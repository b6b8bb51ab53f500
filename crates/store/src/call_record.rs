//! What the call log says of a call.

mod encode_record;

use std::fmt;
use std::sync::Arc;

use data_encoding::BASE32HEX_NOPAD;
use gatelodge_policy::Category;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::StoreError;
use crate::grants::GrantId;
use crate::hash_chain::ChainHead;
use crate::policies::PolicyVersion;
use crate::validated_name::{PolicyName, ServerName};

/// The number under which a call is found in logs and quoted by people. Later calls have larger ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallId([u8; 26]);

impl CallId {
    /// Makes an id: milliseconds, then 80 random bits, so that nobody guesses it.
    pub fn new(at: Timestamp, random: [u8; 10]) -> Self {
        let mut bytes = [0; 16];
        let milliseconds = u64::try_from(at.as_millisecond()).unwrap_or_default().to_be_bytes();
        let (head, tail) = bytes.split_at_mut(6);
        head.copy_from_slice(milliseconds.last_chunk::<6>().unwrap_or(&[0; 6]));
        tail.copy_from_slice(&random);
        let mut text = [b'0'; 26];
        BASE32HEX_NOPAD.encode_mut(&bytes, &mut text);
        text.make_ascii_lowercase();
        Self(text)
    }

    /// The id as it is written.
    pub fn as_str(&self) -> &str {
        // INVARIANT: only letters and digits are ever put in.
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
        let bytes: [u8; 26] = text.as_bytes().try_into().map_err(|_| serde::de::Error::custom("not a call's id"))?;
        let is_plain = bytes.iter().all(u8::is_ascii_alphanumeric);
        if is_plain { Ok(Self(bytes)) } else { Err(serde::de::Error::custom("not a call's id")) }
    }
}

/// What a row of the call log is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecordKind {
    /// The call is about to be sent; written before the first byte goes out.
    Intent,
    /// How a call that had an intent ended.
    Outcome,
    /// The call was refused; nothing was sent.
    Refused,
    /// A message that no rule speaks of went its way: a handshake, a list, a notification.
    #[serde(rename = "passed")]
    Unchecked,
    /// A request without a valid token; one row for each address and minute.
    Unauthenticated,
    /// Older rows were removed; `through` is the last of them.
    Pruned,
}

/// How a call ended that was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallOutcome {
    /// The upstream gave a result.
    Ok,
    /// The upstream gave a result that says it is an error.
    ToolError,
    /// The upstream gave a JSON-RPC error.
    Error,
    /// The upstream could not be reached; nothing was sent and the charges were given back.
    NotSent,
    /// No answer came in time; the call may have run.
    Timeout,
    /// The connection broke, or what came was no answer; the call may have run.
    #[serde(rename = "gone")]
    ConnectionLost,
    /// The caller cancelled; the call may have run.
    Cancelled,
}

/// Where the time of a call went, in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallTimings {
    /// Reading and judging.
    pub decide: u64,
    /// Taking the charges and writing the intent.
    pub reserve: u64,
    /// From sending to the end of the answer.
    pub upstream: u64,
}

/// One entry of the call log. What does not apply is left out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CallRecord {
    /// When.
    pub at: Timestamp,
    /// What this row is.
    pub kind: RecordKind,
    /// Which call.
    pub call: CallId,
    /// The grant's id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant: Option<GrantId>,
    /// The grant's label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<Arc<str>>,
    /// The server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<ServerName>,
    /// The JSON-RPC method.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<Arc<str>>,
    /// The tool, resource or prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Arc<str>>,
    /// The id that the caller gave its request, as it is written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<Arc<str>>,
    /// The trace that the request belongs to, as 32 hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<Arc<str>>,
    /// The policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<PolicyName>,
    /// Its version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_version: Option<PolicyVersion>,
    /// Why it was refused, or would have been: the code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<Arc<str>>,
    /// The rule that decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<Arc<str>>,
    /// The counter that was full.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counter: Option<Arc<str>>,
    /// In how many seconds it has room again, rounded up; left out if waiting does not help.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_seconds: Option<u64>,
    /// What the caller was told, and what only the log says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<Arc<str>>,
    /// The policy would have refused; the grant only observes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub observed: bool,
    /// The tool's category.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "category")]
    pub category: Option<Category>,
    /// The hash of the tool's definition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub definition: Option<Arc<str>>,
    /// The hash of the arguments as they are sent: SHA-256 in hexadecimal digits, or another with its name before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments_digest: Option<Arc<str>>,
    /// The names of the top-level arguments, sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub argument_keys: Vec<Arc<str>>,
    /// The arguments, where the configuration asks for them, redacted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Arc<str>>,
    /// The era and revision that the client speaks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<Arc<str>>,
    /// The client's name and version, as it claims.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<Arc<str>>,
    /// Where the request came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<Arc<str>>,
    /// How it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<CallOutcome>,
    /// The HTTP status of the upstream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upstream_status: Option<u16>,
    /// Where the time went.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timings: Option<CallTimings>,
    /// How many requests a row stands for, where it is more than one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// The last row that was removed, as `SEQ:HASH`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub through: Option<Arc<str>>,
}

impl CallRecord {
    /// A record that says nothing yet but when, what and which.
    pub fn new(kind: RecordKind, call: CallId, at: Timestamp) -> Self {
        Self {
            at,
            kind,
            call,
            grant: None,
            label: None,
            server: None,
            method: None,
            target: None,
            request: None,
            trace: None,
            policy: None,
            policy_version: None,
            code: None,
            rule: None,
            counter: None,
            retry_after_seconds: None,
            message: None,
            observed: false,
            category: None,
            definition: None,
            arguments_digest: None,
            argument_keys: Vec::new(),
            arguments: None,
            revision: None,
            client: None,
            address: None,
            outcome: None,
            upstream_status: None,
            timings: None,
            count: None,
            through: None,
        }
    }
}

impl CallRecord {
    /// The record as logs keep it.
    pub(crate) fn to_body(&self) -> Result<String, StoreError> {
        encode_record::encode_record(self)
    }

    /// Reads a record that a log kept.
    pub(crate) fn from_body(body: &str) -> Result<Self, StoreError> {
        serde_json::from_str(body).map_err(|error| StoreError::Corrupt(format!("a row of the call log: {error}")))
    }
}

/// The row that tells of removed rows.
pub(crate) fn prune_record(through: ChainHead, count: u64, at: Timestamp) -> Result<CallRecord, StoreError> {
    let mut random = [0; 10];
    getrandom::fill(&mut random).map_err(|error| StoreError::Unavailable(error.to_string()))?;
    let mut record = CallRecord::new(RecordKind::Pruned, CallId::new(at, random), at);
    record.through = Some(through.to_string().into());
    record.count = Some(count);
    Ok(record)
}

/// The outcome of a call that was meant to be sent and was not: nobody waited for leave to send it any more.
pub(crate) fn not_sent_record(intent: CallRecord, at: Timestamp) -> CallRecord {
    CallRecord {
        at,
        kind: RecordKind::Outcome,
        outcome: Some(CallOutcome::NotSent),
        definition: None,
        arguments_digest: None,
        argument_keys: Vec::new(),
        arguments: None,
        timings: None,
        ..intent
    }
}

/// Categories are written by their words.
mod category {
    use gatelodge_policy::Category;
    use serde::{Deserialize, Deserializer, Serializer};

    #[expect(clippy::ref_option, reason = "serde gives a reference to the field")]
    pub fn serialize<S: Serializer>(category: &Option<Category>, serializer: S) -> Result<S::Ok, S::Error> {
        match category {
            Some(category) => serializer.serialize_str(category.as_str()),
            None => serializer.serialize_none(),
        }
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Category>, D::Error> {
        let word = Option::<String>::deserialize(deserializer)?;
        Ok(word.and_then(|word| Category::from_word(&word)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_written_without_what_does_not_apply_and_read_back() {
        let at: Timestamp = "2026-11-15T12:00:00Z".parse().expect("a time");
        let mut record = CallRecord::new(RecordKind::Intent, CallId::new(at, [7; 10]), at);
        record.category = Some(Category::Financial);
        record.target = Some("pay".into());
        let text = serde_json::to_string(&record).expect("json");
        assert_eq!(
            text,
            format!(
                r#"{{"at":"2026-11-15T12:00:00Z","kind":"intent","call":"{}","target":"pay","category":"financial"}}"#,
                record.call
            )
        );
        assert_eq!(serde_json::from_str::<CallRecord>(&text).expect("a record"), record);
    }

    /// Rows are covered by their text, so those of earlier builds must mean what they did.
    #[test]
    fn a_row_without_a_trace_is_read_and_written_as_it_was() {
        let old = r#"{"at":"2026-11-15T12:00:00Z","kind":"refused","call":"0000000000000000000000000a","request":"7"}"#;
        let record = CallRecord::from_body(old).expect("a record");
        assert_eq!(record.trace, None);
        assert_eq!(record.to_body().expect("a text"), old);
        let traced = CallRecord { trace: Some("4bf92f3577b34da6a3ce929d0e0e4736".into()), ..record };
        let body = traced.to_body().expect("a text");
        assert!(body.contains(r#""trace":"4bf92f3577b34da6a3ce929d0e0e4736""#), "{body}");
        assert_eq!(CallRecord::from_body(&body).expect("a record"), traced);
    }

    #[test]
    fn later_calls_have_larger_ids() {
        let at: Timestamp = "2026-11-15T12:00:00Z".parse().expect("a time");
        let later = at + std::time::Duration::from_millis(1);
        assert!(CallId::new(at, [255; 10]) < CallId::new(later, [0; 10]));
        assert_eq!(CallId::new(at, [1; 10]).as_str().len(), 26);
    }
}
