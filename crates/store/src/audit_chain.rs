//! The hash chain of the call log and the admin log, and its verification.

mod chain_verification;
mod hash_chain;
mod log_page;
mod prune_record;

pub use chain_verification::ChainReport;
pub(crate) use chain_verification::ChainVerification;
pub use hash_chain::{ChainBreak, ChainHead, ParseChainHeadError, RowHash};
pub use log_page::ChainedRow;
pub(crate) use log_page::{LogPage, MAX_PAGE_ROWS};
pub(crate) use prune_record::prune_record;
