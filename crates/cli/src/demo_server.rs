//! A small MCP server for trying things out: notes, queries and payments that only it knows of.
//!
//! It listens on this machine, on a port of its own, and answers only who knows the key that the gateway sends.

mod demo_methods;
mod demo_tools;
mod note_store;

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

use note_store::NoteStore;

/// The policy of the demonstration.
pub const DEMO_POLICY: &str = include_str!("../../../examples/demo/policy.json");
/// The name of everything in the demonstration: server, policy and grant.
pub const DEMO_NAME: &str = "demo";

/// The server, not yet serving.
pub struct DemoServer {
    listener: TcpListener,
    authorization: HeaderValue,
    notes: Arc<NoteStore>,
}

impl DemoServer {
    /// Takes a free port and makes a key.
    pub async fn bind() -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.context("cannot start the demo server")?;
        let key = HeaderValue::try_from(format!("Bearer {}", GrantToken::random()?.reveal()))?;
        Ok(Self { listener, authorization: key, notes: Arc::default() })
    }

    /// What the gateway needs to know to reach it.
    pub fn upstream_config(&self) -> Result<UpstreamConfig> {
        let url: Uri = format!("http://{}/mcp", self.listener.local_addr()?).parse()?;
        let secret = self.authorization.to_str()?.trim_start_matches("Bearer ").to_owned();
        let header = InjectedHeader { name: AUTHORIZATION, value: self.authorization.clone(), secrets: vec![secret] };
        let way = UpstreamTransport::Http(UpstreamHttpConfig { url, headers: vec![header] });
        Ok(UpstreamConfig {
            name: DEMO_NAME.parse()?,
            transport: way,
            log_arguments: true,
            pinning: PinningSettings::default(),
        })
    }

    /// Serves until it is dropped.
    pub async fn serve(self) {
        loop {
            // An error means that the caller has gone already.
            let Ok((stream, _)) = self.listener.accept().await else { continue };
            let (notes, key) = (Arc::clone(&self.notes), self.authorization.clone());
            tokio::spawn(async move {
                let service = service_fn(|request| {
                    let (notes, key) = (Arc::clone(&notes), key.clone());
                    async move { Ok::<_, Infallible>(handle_http(&notes, &key, request).await) }
                });
                // The gateway closes when it likes; that is no fault.
                let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
            });
        }
    }
}

async fn handle_http(notes: &NoteStore, key: &HeaderValue, request: Request<Incoming>) -> Response<Full<Bytes>> {
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
        Err(fault) => json_response(
            StatusCode::BAD_REQUEST,
            gatelodge_mcp::error_response(fault.id.as_ref(), fault.code, &fault.message, None),
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
