//! Ids and rows: what the traits take and return.

mod call_record;
mod grant_token;
mod id_digest;
mod validated_name;

pub use call_record::{CallId, CallOutcome, CallRecord, CallTimings, RecordKind};
pub(crate) use call_record::{not_sent_record, prune_record};
pub use grant_token::{GrantToken, GrantTokenError, TokenHash, TokenHashPair};
pub use id_digest::IdDigest;
pub use validated_name::{ParseNameError, PolicyName, ServerName};
