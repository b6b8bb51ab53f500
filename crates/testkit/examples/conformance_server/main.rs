//! A server for the scenarios of the official conformance suite, built with the Rust SDK.
//!
//!     conformance_server PORT
//!
//! It listens on the loopback interface only and prints `{"port": N}` when it is ready. The suite defines the names of
//! tools, prompts and resources and their results.
#![allow(clippy::print_stdout, reason = "this is a program")]
#![expect(deprecated, reason = "older revisions have sampling and logging, and the suite tests them")]

mod asks;
mod fixture;
mod prompts;
mod resources;
mod rounds;
mod tasks;
mod tools;

use std::error::Error;
use std::sync::Arc;

use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use rmcp::transport::StreamableHttpService;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use serde_json::json;
use tokio::net::TcpListener;

use fixture::Fixture;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let port: u16 = std::env::args().nth(1).ok_or("usage: conformance_server PORT")?.parse()?;
    let fixture = Fixture::new()?;
    // One fixture for all sessions, so that a subscription is notified of changes by calls of other clients.
    let service = StreamableHttpService::new(
        move || Ok(fixture.clone()),
        Arc::new(LocalSessionManager::default()),
        Default::default(),
    );
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    println!("{}", json!({ "port": listener.local_addr()?.port() }));
    loop {
        let (stream, _) = listener.accept().await?;
        let service = TowerToHyperService::new(service.clone());
        tokio::spawn(async move {
            // A client that disconnects is not an error.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}
