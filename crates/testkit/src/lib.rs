//! Test support: an in-process gateway, scripted upstreams, and a raw HTTP client.
//!
//! It is used only by tests, so a failed expectation panics.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on should stop where it is"
)]

mod fake_sse_upstream;
mod fake_upstream;
mod raw_http;
mod sse_test_client;
mod test_gateway;

pub use fake_sse_upstream::{FakeSseUpstream, SsePostReply};
pub use fake_upstream::{
    FakeUpstream, RecordedRequest, ResponseScript, ScriptStep, event_response, json_response, tool_definition,
};
pub use raw_http::{TestResponse, exchange};
pub use sse_test_client::SseTestClient;
pub use test_gateway::{TestGateway, TestGatewayBuilder};
