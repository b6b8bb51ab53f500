//! Runs each request as a task of its own on the worker of its connection. If the client disconnects, the task
//! continues, so the call is always recorded and its reservation settled.
//!
//! The task is boxed before it is spawned. Its state is about 10 KB, and spawning moves a future several times: without
//! the box a call copies 38 KB more, executes 19 % more instructions and takes about 5 % more CPU.

use std::sync::Arc;

use http::{Response, StatusCode};
use tokio::sync::oneshot;

use super::mcp_endpoint::{InboundClientMessage, run_message};
use crate::reply::{ReplyBody, http_response};
use crate::responder::Responder;
use crate::services::GatewayServices;

/// Spawns the work for one message and waits for its response. Any remaining work continues after the response.
pub(crate) async fn run_request(gw: &Arc<GatewayServices>, message: InboundClientMessage) -> Response<ReplyBody> {
    let (responder, response) = Responder::new();
    gw.tasks.spawn(Box::pin(run_message(Arc::clone(gw), message, responder)));
    response_or_error(response).await
}

async fn response_or_error(response: oneshot::Receiver<Response<ReplyBody>>) -> Response<ReplyBody> {
    // Only a panic drops the sender without a response.
    response.await.unwrap_or_else(|_| {
        http_response::http_error_response(
            StatusCode::INTERNAL_SERVER_ERROR,
            "the gateway could not handle the request",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panicking_request_gets_an_error_and_does_not_hang() {
        let (responder, response) = Responder::new();
        let task = tokio::spawn(async move {
            let _responder = responder;
            panic!("as planned");
        });
        assert_eq!(response_or_error(response).await.status(), StatusCode::INTERNAL_SERVER_ERROR);
        assert!(task.await.expect_err("it panicked").is_panic());
    }
}
