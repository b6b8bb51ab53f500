//! A small MCP server for demonstrations, with fictitious notes, queries and payments.
//!
//! It listens on a free port on this machine, and accepts only requests with the key that the gateway sends.

mod demo_methods;
mod demo_notes;
mod demo_tools;

use std::convert::Infallible;
use std::net::Ipv4Addr;
use std::sync::Arc;

use anyhow::{Context, Result};
use bytes::Bytes;
use gatelodge_gateway::{InjectedHeader, PinningSettings, UpstreamConfig, UpstreamHttpConfig, UpstreamTransport};
use gatelodge_json::JsonLimits;
use gatelodge_mcp::{ClientMessage, read_client_message};
use gatelodge_store::GrantToken;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use http::{Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

use demo_notes::DemoNotes;

/// The policy that the demo uses.
pub const DEMO_POLICY: &str = include_str!("../../../examples/demo/policy.json");
/// Name of the demo's server, policy and grant.
pub const DEMO_NAME: &str = "demo";

/// The demo server, bound to a port but not yet serving.
pub struct DemoServer {
    listener: TcpListener,
    authorization: HeaderValue,
    notes: Arc<DemoNotes>,
}

impl DemoServer {
    /// Binds a free port and generates a key.
    pub async fn bind() -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.context("cannot start the demo server")?;
        let key = HeaderValue::try_from(format!("Bearer {}", GrantToken::random()?.reveal()))?;
        Ok(Self { listener, authorization: key, notes: Arc::default() })
    }

    /// Returns the configuration that the gateway needs to reach the server.
    pub fn upstream_config(&self) -> Result<UpstreamConfig> {
        let url: Uri = format!("http://{}/mcp", self.listener.local_addr()?).parse()?;
        let secret = self.authorization.to_str()?.trim_start_matches("Bearer ").to_owned();
        let header = InjectedHeader { name: AUTHORIZATION, value: self.authorization.clone(), secrets: vec![secret] };
        let transport = UpstreamTransport::Http(UpstreamHttpConfig { url, headers: vec![header] });
        Ok(UpstreamConfig {
            name: DEMO_NAME.parse()?,
            transport,
            log_arguments: true,
            pinning: PinningSettings::default(),
        })
    }

    /// Serves until the future is dropped.
    pub async fn serve(self) {
        loop {
            // An error means that the client has disconnected already.
            let Ok((stream, _)) = self.listener.accept().await else { continue };
            let (notes, key) = (Arc::clone(&self.notes), self.authorization.clone());
            tokio::spawn(async move {
                let service = service_fn(|request| {
                    let (notes, key) = (Arc::clone(&notes), key.clone());
                    async move { Ok::<_, Infallible>(handle_http(&notes, &key, request).await) }
                });
                // The gateway may close the connection at any time.
                let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
            });
        }
    }
}

async fn handle_http(notes: &DemoNotes, key: &HeaderValue, request: Request<Incoming>) -> Response<Full<Bytes>> {
    if request.headers().get(AUTHORIZATION) != Some(key) {
        return empty_response(StatusCode::UNAUTHORIZED);
    }
    if request.method() != Method::POST {
        return empty_response(StatusCode::METHOD_NOT_ALLOWED);
    }
    let Ok(body) = Limited::new(request.into_body(), JsonLimits::REQUEST.max_bytes).collect().await else {
        return empty_response(StatusCode::PAYLOAD_TOO_LARGE);
    };
    let body = body.to_bytes();
    match read_client_message(&body, &JsonLimits::REQUEST) {
        Ok(ClientMessage::Request(request)) => {
            let (status, text) = demo_methods::handle_request(notes, &request);
            json_response(status, text)
        }
        Ok(ClientMessage::Notification(_) | ClientMessage::Response(_)) => empty_response(StatusCode::ACCEPTED),
        Err(error) => json_response(
            StatusCode::BAD_REQUEST,
            gatelodge_mcp::error_response(error.id.as_ref(), error.code, &error.message, None),
        ),
    }
}

fn empty_response(status: StatusCode) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = status;
    response
}

fn json_response(status: StatusCode, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(text.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
