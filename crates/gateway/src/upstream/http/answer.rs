//! The answer of an upstream over HTTP, read within bounds.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use gatelodge_mcp::{RequestId, SseDecoder, http_headers};
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::{HeaderValue, Response, StatusCode, Uri};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};

use crate::body_buffer::{BodyBuffer, ReceivedBody};
use crate::upstream::exchange::Source;
use crate::upstream::{Earlier, Exchange, Link, SendError};

/// An answer over HTTP that is being read.
#[derive(Debug)]
pub(crate) struct HttpAnswer {
    body: Incoming,
    form: Form,
    /// The most bytes of one message.
    max_bytes: usize,
}

#[derive(Debug)]
enum Form {
    /// One JSON text, and what was read of it.
    Whole(BodyBuffer),
    Events {
        decoder: Box<SseDecoder>,
        /// Messages that came, each with the id of its event.
        ready: VecDeque<(Bytes, Option<String>)>,
        /// The id of the message that was handed out last.
        last: Option<String>,
    },
    /// A stream keeps where it ended.
    Ended(Option<Box<SseDecoder>>),
}

/// An answer of a kind that is not asked for. Kinds are not repeated: a server may write anything there, our secret, too.
fn strange(kind: &str) -> SendError {
    let but = match kind {
        "" => " and does not say what it is",
        "text/html" => " but a web page",
        "text/plain" => " but a plain text",
        _ => "",
    };
    SendError::Unusable(format!("the answer is neither JSON nor an event stream{but}"))
}

impl HttpAnswer {
    pub fn begin(response: Response<Incoming>, at: &Uri, max_bytes: usize) -> Result<Exchange, SendError> {
        let (head, body) = response.into_parts();
        if head.headers.contains_key(CONTENT_ENCODING) {
            return Err(SendError::Unusable("the answer is compressed, which was not asked for".to_owned()));
        }
        let kind = head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim();
        let is = |other: &str| kind.eq_ignore_ascii_case(other);
        let (is_good, is_over) = (head.status.is_success(), body.is_end_stream());
        let form = if is_good && is_over {
            Form::Ended(None)
        } else if is_good && is("text/event-stream") {
            Form::Events { decoder: Box::new(SseDecoder::new(max_bytes)), ready: VecDeque::new(), last: None }
        } else if is("application/json") {
            Form::Whole(BodyBuffer::for_upstream())
        } else if head.status == StatusCode::ACCEPTED {
            // Without content, by servers that do not say how long nothing is.
            Form::Ended(None)
        } else if is_good {
            return Err(strange(&kind.to_ascii_lowercase()));
        } else {
            return Err(SendError::Status(head.status.as_u16()));
        };
        let session = |id: &HeaderValue| Link::http(Some(id.clone()), at);
        let link = head.headers.get(http_headers::SESSION_ID).map_or(Link::None, session);
        let source = Source::Http(Self { body, form, max_bytes });
        Ok(Exchange { status: head.status, link, back: None, source })
    }

    /// Whether the answer is a stream that may hold more than the one message.
    pub fn is_stream(&self) -> bool {
        matches!(self.form, Form::Events { .. })
    }

    /// Whether there is nothing more to read.
    pub fn is_over(&self) -> bool {
        matches!(self.form, Form::Ended(_))
    }

    /// The last event of a stream of which everything was handed out, and how long to wait before asking for more.
    pub fn left_at(&self) -> (Option<HeaderValue>, Option<Duration>) {
        let (id, decoder) = match &self.form {
            Form::Events { decoder, ready, last } if !ready.is_empty() => (last.as_deref(), decoder),
            Form::Events { decoder, .. } | Form::Ended(Some(decoder)) => (decoder.last_id(), decoder),
            Form::Whole(_) | Form::Ended(None) => return (None, None),
        };
        (id.and_then(|id| HeaderValue::from_str(id).ok()), decoder.retry())
    }

    /// The next message; none at the end.
    pub async fn next(&mut self) -> Result<Option<ReceivedBody>, SendError> {
        match std::mem::replace(&mut self.form, Form::Ended(None)) {
            Form::Whole(begun) => self.whole(begun).await.map(Some),
            form => {
                self.form = form;
                Ok(self.event().await?.map(ReceivedBody::Whole))
            }
        }
    }

    /// Whether the answer is one JSON text in the words of an earlier one, under this id. It is held against that as it
    /// comes, and nothing is put together; if it is another, it can be read as if nobody had looked.
    pub async fn is_again(&mut self, earlier: &Earlier, id: &RequestId<'_>) -> Result<bool, SendError> {
        let length: usize = earlier.under(id).iter().map(|part| part.len()).sum();
        if !matches!(self.form, Form::Whole(_)) || self.body.size_hint().exact() != Some(length as u64) {
            return Ok(false);
        }
        let mut at = 0;
        while let Some(chunk) = self.chunk().await? {
            if !earlier.has(at, &chunk, id) {
                let mut begun = BodyBuffer::for_upstream();
                let same = earlier.under(id).concat().get(..at).map(Bytes::copy_from_slice);
                begun.push(same.unwrap_or_default(), length);
                begun.push(chunk, length);
                self.form = Form::Whole(begun);
                return Ok(false);
            }
            at += chunk.len();
        }
        self.form = Form::Ended(None);
        Ok(true)
    }

    async fn whole(&mut self, begun: BodyBuffer) -> Result<ReceivedBody, SendError> {
        let mut gathered = begun;
        while let Some(chunk) = self.chunk().await? {
            let left = usize::try_from(self.body.size_hint().lower()).unwrap_or(usize::MAX);
            let expected = left.saturating_add(gathered.len() + chunk.len());
            self.check_length(expected)?;
            gathered.push(chunk, expected);
        }
        match gathered.len() {
            0 => Err(SendError::Unusable("the answer is empty".to_owned())),
            _ => Ok(gathered.finish()),
        }
    }

    fn check_length(&self, bytes: usize) -> Result<(), SendError> {
        let max = self.max_bytes;
        if bytes > max { Err(SendError::Unusable(format!("the answer has more than {max} bytes"))) } else { Ok(()) }
    }

    async fn event(&mut self) -> Result<Option<Bytes>, SendError> {
        loop {
            let Form::Events { ready, last, .. } = &mut self.form else { return Ok(None) };
            if let Some((message, id)) = ready.pop_front() {
                *last = id;
                return Ok(Some(message));
            }
            let Some(chunk) = self.chunk().await? else {
                if let Form::Events { decoder, .. } = std::mem::replace(&mut self.form, Form::Ended(None)) {
                    self.form = Form::Ended(Some(decoder));
                }
                return Ok(None);
            };
            let Form::Events { decoder, ready, .. } = &mut self.form else { return Ok(None) };
            let each = |data: Vec<u8>, id: Option<&str>| ready.push_back((data.into(), id.map(str::to_owned)));
            let pushed = decoder.push_with_ids(&chunk, each);
            pushed.map_err(|error| SendError::Unusable(error.to_string()))?;
        }
    }

    async fn chunk(&mut self) -> Result<Option<Bytes>, SendError> {
        loop {
            let Some(frame) = self.body.frame().await else { return Ok(None) };
            let frame = frame.map_err(|error| SendError::Gone(format!("the answer broke off: {error}")))?;
            // Trailers say nothing here.
            let Ok(data) = frame.into_data() else { continue };
            return Ok(Some(data));
        }
    }
}
