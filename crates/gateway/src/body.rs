//! Bodies of messages: received in chunks, sent in segments, hashed while they arrive.

pub(crate) mod arguments_digest;
pub(crate) mod body_buffer;
pub(crate) mod json_word_finder;
pub(crate) mod message_body;
pub(crate) mod tool_result;

pub(crate) use self::body_buffer::{BodyBuffer, ReceivedBody};
pub(crate) use self::message_body::MessageBody;
