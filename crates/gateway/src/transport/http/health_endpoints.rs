//! Health, readiness and metrics endpoints for operators.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Method, Request, Response, StatusCode};

use crate::reply::{ReplyBody, http_response};
use crate::services::GatewayServices;

pub(crate) async fn serve_health_endpoints<B>(gw: &Arc<GatewayServices>, request: &Request<B>) -> Response<ReplyBody> {
    if request.method() != Method::GET {
        return http_response::method_not_allowed_response("GET", "this URL accepts GET");
    }
    match request.uri().path() {
        "/healthz" => http_response::json_response(StatusCode::OK, Bytes::from_static(b"{\"status\":\"ok\"}")),
        "/readyz" => readiness_response(gw).await,
        "/metrics" => metrics_response(gw),
        _ => http_response::http_error_response(
            StatusCode::NOT_FOUND,
            "not found; this listener serves /healthz, /readyz and /metrics",
        ),
    }
}

/// Reports the gateway as ready if the store responds and the gateway is not stopping.
async fn readiness_response(gw: &Arc<GatewayServices>) -> Response<ReplyBody> {
    let unready =
        |why: &str| http_response::json_response(StatusCode::SERVICE_UNAVAILABLE, format!("{{\"status\":\"{why}\"}}"));
    if gw.shutdown.is_stopping() {
        return unready("stopping");
    }
    match gw.ledger.flush().await {
        Ok(()) => http_response::json_response(StatusCode::OK, Bytes::from_static(b"{\"status\":\"ready\"}")),
        Err(_) => unready("store_unavailable"),
    }
}

fn metrics_response(gw: &GatewayServices) -> Response<ReplyBody> {
    let text = gw.metrics.render(gw.sessions.registry.count());
    let mut response = Response::new(ReplyBody::from_message(Bytes::from(text)));
    let kind = HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}
