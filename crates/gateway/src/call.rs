//! The steps of a call, from what a caller sent to what an upstream gets.

mod forward;
mod mirrored;
mod paused;
mod permit;
mod progress;
mod refusal;
mod request_subject;
mod reserve;
mod resume;
mod room;
mod status;
mod trail;

pub(crate) use forward::{
    COMPLETE, Ended, Errand, MOST_AT_ONCE, answer, answer_of, attend, forward, go_on, left, may_ask, own_answer,
    result_text, says_error, under_our_id, without_complete,
};
pub(crate) use mirrored::mirrored;
pub(crate) use paused::{Bond, MOST_WAIT, Paused, PausedCalls, Question};
pub(crate) use permit::Permit;
pub(crate) use progress::Progress;
pub(crate) use refusal::Refusal;
pub(crate) use request_subject::{RequestSubject, parse_subject};
pub(crate) use reserve::{Reserved, take};
use resume::Resumption;
pub(crate) use room::Room;
pub(crate) use status::status_of;
pub(crate) use trail::Trail;
