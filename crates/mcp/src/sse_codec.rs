//! Server-sent events: decodes a byte stream into messages, and encodes messages as events.
//!
//! Event ids, retry times, comments and line breaks from the other side are never forwarded.

use std::time::Duration;

use crate::message_rewrite::to_single_line;

/// Maximum length of an event id in bytes: it must fit into a header.
const MAX_EVENT_ID_BYTES: usize = 1 << 10;

/// A comment that keeps an idle connection open.
pub const SSE_KEEP_ALIVE: &str = ": \n\n";

/// Decoder for an event stream.
///
/// ```
/// use gatelodge_mcp::{SseDecoder, sse_event};
///
/// let mut decoder = SseDecoder::new(1024);
/// let mut messages = Vec::new();
/// for chunk in sse_event(r#"{"id":1}"#).as_bytes().chunks(5) {
///     decoder.push(chunk, |data| messages.push(data))?;
/// }
/// assert_eq!(messages, [br#"{"id":1}"#.to_vec()]);
/// # Ok::<(), gatelodge_mcp::SseEventTooLargeError>(())
/// ```
#[derive(Debug)]
pub struct SseDecoder {
    /// The bytes received so far of a line that is still incomplete.
    partial_line: Vec<u8>,
    /// Data of the incomplete event; `None` before its first `data` line.
    data: Option<Vec<u8>>,
    /// Type of the incomplete event; `None` if the type is unknown.
    kind: Option<SseEventKind>,
    /// Whether the last byte was a carriage return; a line feed that follows belongs to the same line break.
    ends_with_cr: bool,
    is_first_line: bool,
    /// The id for the next event that is completed. `last_id` is the id of the last completed event.
    next_id: Option<String>,
    last_id: Option<String>,
    retry: Option<Duration>,
    max_event_bytes: usize,
}

/// Type of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SseEventKind {
    /// An MCP message.
    Message,
    /// The endpoint for messages, in the HTTP+SSE transport (2024-11-05).
    Endpoint,
}

/// Error for an event that exceeds the size limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an event has more than {limit} bytes")]
pub struct SseEventTooLargeError {
    /// Maximum size of an event in bytes.
    pub limit: usize,
}

impl SseDecoder {
    /// Makes a decoder for a new stream with events of at most `max_event_bytes`.
    pub fn new(max_event_bytes: usize) -> Self {
        Self {
            partial_line: Vec::new(),
            data: None,
            kind: Some(SseEventKind::Message),
            ends_with_cr: false,
            is_first_line: true,
            next_id: None,
            last_id: None,
            retry: None,
            max_event_bytes,
        }
    }

    /// The id of the last complete event, from which the stream can be resumed. `None` if it is not visible ASCII of at
    /// most 1,024 bytes.
    pub fn last_id(&self) -> Option<&str> {
        self.last_id.as_deref()
    }

    /// The reconnection delay that the other side requested.
    pub fn retry(&self) -> Option<Duration> {
        self.retry
    }

    /// Decodes the next bytes and calls `each` with the data of every message event that they complete.
    ///
    /// # Errors
    /// An event is too large. The rest of the stream cannot be decoded.
    pub fn push(&mut self, bytes: &[u8], mut each: impl FnMut(Vec<u8>)) -> Result<(), SseEventTooLargeError> {
        self.push_with_ids(bytes, |data, _| each(data))
    }

    /// Like [`push`](Self::push), but also passes each event's id. For an event without an id, this is the last id
    /// received before it.
    ///
    /// # Errors
    /// The same as for [`push`](Self::push).
    pub fn push_with_ids(
        &mut self,
        bytes: &[u8],
        mut each: impl FnMut(Vec<u8>, Option<&str>),
    ) -> Result<(), SseEventTooLargeError> {
        self.decode(bytes, |kind, data, id| match kind {
            SseEventKind::Message => each(data, id),
            SseEventKind::Endpoint => {}
        })
    }

    /// Like [`push`](Self::push), but for events of all known types.
    ///
    /// # Errors
    /// The same as for [`push`](Self::push).
    pub fn push_all_kinds(
        &mut self,
        bytes: &[u8],
        mut each: impl FnMut(SseEventKind, Vec<u8>),
    ) -> Result<(), SseEventTooLargeError> {
        self.decode(bytes, |kind, data, _| each(kind, data))
    }

    fn decode(
        &mut self,
        bytes: &[u8],
        mut each: impl FnMut(SseEventKind, Vec<u8>, Option<&str>),
    ) -> Result<(), SseEventTooLargeError> {
        let mut rest = bytes;
        if self.ends_with_cr && !rest.is_empty() {
            rest = rest.strip_prefix(b"\n").unwrap_or(rest);
            self.ends_with_cr = false;
        }
        while let Some(at) = memchr::memchr2(b'\n', b'\r', rest) {
            let (line, tail) = rest.split_at(at);
            self.append_to_line(line)?;
            self.end_line(&mut each);
            rest = match tail {
                [b'\r', b'\n', rest @ ..] => rest,
                [b'\r'] => {
                    self.ends_with_cr = true;
                    &[]
                }
                [_, rest @ ..] => rest,
                [] => &[],
            };
        }
        self.append_to_line(rest)
    }

    fn append_to_line(&mut self, bytes: &[u8]) -> Result<(), SseEventTooLargeError> {
        let held = self.data.as_ref().map_or(0, Vec::len) + self.partial_line.len();
        // The field name does not count towards the size of the event.
        if held + bytes.len() > self.max_event_bytes + "data: ".len() {
            return Err(SseEventTooLargeError { limit: self.max_event_bytes });
        }
        self.partial_line.extend_from_slice(bytes);
        Ok(())
    }

    fn end_line(&mut self, each: &mut impl FnMut(SseEventKind, Vec<u8>, Option<&str>)) {
        let mut line = std::mem::take(&mut self.partial_line);
        if std::mem::take(&mut self.is_first_line) && line.starts_with(b"\xef\xbb\xbf") {
            line.drain(..3);
        }
        if line.is_empty() {
            self.last_id.clone_from(&self.next_id);
            let kind = self.kind.replace(SseEventKind::Message);
            // An event without data only carries an id for resumption.
            match (kind, self.data.take()) {
                (Some(kind), Some(data)) if !data.is_empty() => each(kind, data, self.last_id.as_deref()),
                _ => {}
            }
            return;
        }
        let (field, value) = match line.iter().position(|byte| *byte == b':') {
            Some(at) => (line.get(..at).unwrap_or_default(), line.get(at + 1..).unwrap_or_default()),
            None => (line.as_slice(), &[][..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"data" => match &mut self.data {
                Some(data) => {
                    data.push(b'\n');
                    data.extend_from_slice(value);
                }
                None => self.data = Some(value.to_vec()),
            },
            b"id" => {
                let id = str::from_utf8(value).ok().filter(|id| !id.is_empty() && id.len() <= MAX_EVENT_ID_BYTES);
                self.next_id = id.filter(|id| id.bytes().all(|byte| byte.is_ascii_graphic())).map(str::to_owned);
            }
            b"retry" if value.iter().all(u8::is_ascii_digit) => {
                let time = str::from_utf8(value).ok().and_then(|digits| digits.parse().ok());
                self.retry = time.map(Duration::from_millis).or(self.retry);
            }
            b"event" => {
                self.kind = match value {
                    b"message" | b"" => Some(SseEventKind::Message),
                    b"endpoint" => Some(SseEventKind::Endpoint),
                    _ => None,
                }
            }
            _ => {}
        }
    }
}

/// Encodes a message as one event.
pub fn sse_event(text: &str) -> String {
    format!("event: message\ndata: {}\n\n", to_single_line(text))
}

/// Encodes a message as one event with an id, from which a client can resume.
pub fn sse_event_with_id(id: &str, text: &str) -> String {
    format!("id: {id}\nevent: message\ndata: {}\n\n", to_single_line(text))
}

/// Encodes an event without data that gives a client an id to resume from and a reconnection delay.
pub fn sse_priming_event(id: &str, retry: Duration) -> String {
    format!("id: {id}\nretry: {}\ndata:\n\n", retry.as_millis())
}

/// Encodes the first event of an HTTP+SSE connection (2024-11-05): the endpoint for the client's messages.
pub fn sse_endpoint_event(address: &str) -> String {
    format!("event: endpoint\ndata: {}\n\n", to_single_line(address))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(chunks: &[&[u8]]) -> Result<Vec<String>, SseEventTooLargeError> {
        let mut decoder = SseDecoder::new(64);
        let mut out = Vec::new();
        for chunk in chunks {
            decoder.push(chunk, |data| out.push(String::from_utf8(data).expect("text")))?;
        }
        Ok(out)
    }

    #[test]
    fn events_do_not_depend_on_chunk_borders_or_line_endings() {
        let stream =
            b"\xef\xbb\xbf: hello\r\nid: 7\rretry: 0\ndata: {\"a\":\r\ndata:1}\n\nevent: message\ndata: two\r\r\
            event: endpoint\ndata: /x\n\ndata\n\ndata: three\n\n";
        let whole = decode(&[stream]).expect("events");
        assert_eq!(whole, ["{\"a\":\n1}", "two", "three"]);
        let bytes: Vec<&[u8]> = stream.chunks(1).collect();
        assert_eq!(decode(&bytes).expect("events"), whole);
        let pairs: Vec<&[u8]> = stream.chunks(2).collect();
        assert_eq!(decode(&pairs).expect("events"), whole);
    }

    #[test]
    fn the_last_id_is_that_of_the_last_complete_event() {
        let mut decoder = SseDecoder::new(64);
        let mut push = |text: &str| {
            decoder.push(text.as_bytes(), |_| ()).expect("events");
            (decoder.last_id().map(str::to_owned), decoder.retry().map(|time| time.as_millis()))
        };
        assert_eq!(push("data: x\n\n"), (None, None));
        assert_eq!(push(&sse_priming_event("a/1", Duration::from_millis(500))), (Some("a/1".to_owned()), Some(500)));
        assert_eq!(push("id: a/2\ndata: cut off"), (Some("a/1".to_owned()), Some(500)), "not complete");
        assert_eq!(
            push("\n\nretry: soon\ndata: x\n\n"),
            (Some("a/2".to_owned()), Some(500)),
            "an invalid value changes nothing"
        );
        for odd in ["id:\n\n", "id: a b\n\n", "id: \u{e4}\n\n"] {
            assert_eq!(push(odd).0, None, "{odd}");
        }
    }

    #[test]
    fn an_incomplete_event_is_not_returned() {
        assert_eq!(decode(&[b"data: one\n"]), Ok(vec![]));
    }

    #[test]
    fn an_event_above_the_limit_ends_the_stream() {
        let long = [b"data: ".as_slice(), &[b'x'; 64]].concat();
        assert!(decode(&[&long, b"\n\n"]).is_ok());
        assert_eq!(decode(&[&long, b"y"]), Err(SseEventTooLargeError { limit: 64 }));
        let lines = b"data: 123456789\n".repeat(8);
        assert_eq!(decode(&[&lines]), Err(SseEventTooLargeError { limit: 64 }));
    }

    #[test]
    fn an_encoded_message_is_decoded_as_one_event() {
        let text = "{\"a\":\r\n\"\u{2028}\"}";
        let mut out = Vec::new();
        SseDecoder::new(100).push(sse_event(text).as_bytes(), |data| out.push(data)).expect("events");
        assert_eq!(out, [b"{\"a\":  \"\\u2028\"}".to_vec()]);
    }
}
