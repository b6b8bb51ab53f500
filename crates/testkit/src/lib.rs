//! For tests: a gateway in the process, an upstream that does what it is told, and a caller that sends any bytes.
//!
//! Nothing here is used outside of tests, so a broken expectation panics.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on should stop where it is"
)]

mod gateway;
mod sse;
mod sse_upstream;
mod upstream;
mod wire;

pub use gateway::{TestGateway, TestGatewayBuilder};
pub use sse::SseCaller;
pub use sse_upstream::{FakeSse, Posted};
pub use upstream::{FakeUpstream, Hit, Script, Step, event_response, json_response, tool};
pub use wire::{Answer, exchange};
