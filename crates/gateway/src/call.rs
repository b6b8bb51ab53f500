//! The steps of a call, from what a caller sent to what an upstream gets.

mod facts;
mod forward;
mod permit;
mod refusal;
mod reserve;
mod room;
mod trail;

pub(crate) use facts::{Facts, subject_of};
pub(crate) use forward::{Ended, Errand, answer, forward, own_answer, result_text, says_error, under_our_id};
pub(crate) use permit::Permit;
pub(crate) use refusal::Refusal;
pub(crate) use reserve::take;
pub(crate) use room::Room;
pub(crate) use trail::Trail;
