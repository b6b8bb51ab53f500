//! Records in the call log.

mod encode_record;

use std::sync::Arc;

use gatelodge_policy::Category;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::model::{CallId, GrantId, PolicyName, PolicyVersionNumber, ServerName, StoreError};

/// Kind of row in the call log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecordKind {
    /// The call is about to be sent. Written before the first byte is sent.
    Intent,
    /// The outcome of a call that has an intent row.
    Outcome,
    /// The call was refused; nothing was sent.
    Refused,
    /// A message that no rule covers was forwarded, such as a handshake, a list request or a notification.
    #[serde(rename = "passed")]
    PolicyExempt,
    /// Requests without a valid token: one row per address and minute.
    Unauthenticated,
    /// Older rows were pruned; `through` identifies the last of them.
    Pruned,
}

/// The outcome of a call that was to be sent upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallOutcome {
    /// The upstream returned a result.
    Ok,
    /// The upstream returned a result that is marked as an error.
    ToolError,
    /// The upstream returned a JSON-RPC error.
    Error,
    /// The upstream could not be reached; nothing was sent and the charges were released.
    NotSent,
    /// No response arrived in time; the call may have run.
    Timeout,
    /// The connection broke or the response was invalid; the call may have run.
    #[serde(rename = "gone")]
    NoValidResponse,
    /// The client cancelled the call, which may have run.
    Cancelled,
}

/// How long each step of a call took, in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallTimings {
    /// Parsing and policy evaluation.
    pub decide: u64,
    /// Reserving the charges and writing the intent row.
    pub reserve: u64,
    /// From sending the call until the end of the response.
    pub upstream: u64,
}

/// A row in the call log. Fields that do not apply are omitted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CallRecord {
    /// Time of the event.
    pub at: Timestamp,
    /// Kind of row.
    pub kind: RecordKind,
    /// Id of the call.
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
    /// The id of the client's request, as the client wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<Arc<str>>,
    /// The trace that the request belongs to, as 32 hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<Arc<str>>,
    /// The policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<PolicyName>,
    /// The version of the policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_version: Option<PolicyVersionNumber>,
    /// The code of the refusal or failure. Also set if a refusal was only observed and the call was sent anyway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<Arc<str>>,
    /// The rule that decided the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<Arc<str>>,
    /// The counter that was exhausted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counter: Option<Arc<str>>,
    /// Seconds until the counter has capacity again, rounded up. Omitted if waiting does not help.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_seconds: Option<u64>,
    /// The message that the client received, details that are only logged, or both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<Arc<str>>,
    /// Whether the policy would have refused the call if the grant were not in observe mode.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub observed: bool,
    /// The tool's category.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "category")]
    pub category: Option<Category>,
    /// The hash of the tool's definition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub definition: Option<Arc<str>>,
    /// The hash of the arguments as sent: SHA-256 as hexadecimal digits, or another hash prefixed with its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments_digest: Option<Arc<str>>,
    /// The names of the top-level arguments, sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub argument_keys: Vec<Arc<str>>,
    /// The redacted arguments, if the configuration requests them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Arc<str>>,
    /// The protocol generation and revision that the client uses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<Arc<str>>,
    /// The client's name and version, as reported by the client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<Arc<str>>,
    /// The address that the request came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<Arc<str>>,
    /// The outcome of the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<CallOutcome>,
    /// The HTTP status of the upstream's response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upstream_status: Option<u16>,
    /// How long each step took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timings: Option<CallTimings>,
    /// Number of requests that the row represents, if more than one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// The last pruned row, as `SEQ:HASH`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub through: Option<Arc<str>>,
}

impl CallRecord {
    /// Creates a record with only a time, kind and call id.
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
    /// Returns the record as it is stored in the log.
    pub(crate) fn to_body(&self) -> Result<String, StoreError> {
        encode_record::encode_record(self)
    }

    /// Parses a stored record.
    pub(crate) fn from_body(body: &str) -> Result<Self, StoreError> {
        serde_json::from_str(body).map_err(|error| StoreError::Corrupt(format!("call log row: {error}")))
    }
}

/// Returns the outcome of a call that was not sent because its caller stopped waiting for the reservation.
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

/// Serializes categories by name.
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
    fn a_record_omits_fields_that_do_not_apply_and_is_read_back() {
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

    /// Hashes cover the text, so no build may write it differently.
    #[test]
    fn a_record_with_every_member_keeps_its_text() {
        let at: Timestamp = "2026-11-15T12:00:00.5Z".parse().expect("a time");
        let text = |text: &str| -> Option<Arc<str>> { Some(text.into()) };
        let record = CallRecord {
            at,
            kind: RecordKind::Outcome,
            call: CallId::new(at, [3; 10]),
            grant: Some(GrantId("g\"1".into())),
            label: text("\u{1}\u{8}\t\n\u{c}\r\u{1f}"),
            server: Some("s-1".parse().expect("a name")),
            method: text("method"),
            target: text("\"\\/\u{7f}\u{2028}ä"),
            request: text("request"),
            trace: text("trace"),
            policy: Some("p_1".parse().expect("a name")),
            policy_version: Some(PolicyVersionNumber(7)),
            code: text("code"),
            rule: text("rule"),
            counter: text("counter"),
            retry_after_seconds: Some(u64::MAX),
            message: text("message"),
            observed: true,
            category: Some(Category::Financial),
            definition: text("definition"),
            arguments_digest: text("digest"),
            argument_keys: vec!["a".into(), "b\n".into()],
            arguments: text("arguments"),
            revision: text("revision"),
            client: text("client"),
            address: text("address"),
            outcome: Some(CallOutcome::ToolError),
            upstream_status: Some(200),
            timings: Some(CallTimings { decide: 1, reserve: 22, upstream: 333 }),
            count: Some(0),
            through: text("through"),
        };
        let expected = concat!(
            r#"{"at":"2026-11-15T12:00:00.5Z","kind":"outcome","call":"CALL","grant":"g\"1","#,
            r#""label":"\u0001\b\t\n\f\r\u001f","server":"s-1","method":"method","#,
            "\"target\":\"\\\"\\\\/\u{7f}\u{2028}ä\",",
            r#""request":"request","trace":"trace","policy":"p_1","policy_version":7,"code":"code","rule":"rule","#,
            r#""counter":"counter","retry_after_seconds":18446744073709551615,"message":"message","observed":true,"#,
            r#""category":"financial","definition":"definition","arguments_digest":"digest","argument_keys":["a","b\n"],"#,
            r#""arguments":"arguments","revision":"revision","client":"client","address":"address","#,
            r#""outcome":"tool_error","upstream_status":200,"timings":{"decide":1,"reserve":22,"upstream":333},"#,
            r#""count":0,"through":"through"}"#,
        );
        assert_eq!(record.to_body().expect("a text"), expected.replace("CALL", record.call.as_str()));
    }

    /// Hashes cover the text of rows, so rows of earlier builds must keep their text and meaning.
    #[test]
    fn a_row_without_a_trace_keeps_its_text() {
        let old = r#"{"at":"2026-11-15T12:00:00Z","kind":"refused","call":"0000000000000000000000000a","request":"7"}"#;
        let record = CallRecord::from_body(old).expect("a record");
        assert_eq!(record.trace, None);
        assert_eq!(record.to_body().expect("a text"), old);
        let traced = CallRecord { trace: Some("4bf92f3577b34da6a3ce929d0e0e4736".into()), ..record };
        let body = traced.to_body().expect("a text");
        assert!(body.contains(r#""trace":"4bf92f3577b34da6a3ce929d0e0e4736""#), "{body}");
        assert_eq!(CallRecord::from_body(&body).expect("a record"), traced);
    }
}
