//! A gateway for one client on standard input and output, in front of one server.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use anyhow::Result;
use gatelodge_gateway::{Gateway, GatewaySettings, GrantConfig, GrantServerAccess, UpstreamConfig};
use gatelodge_store::{Clock, GrantId, GrantToken, Store};
use tokio::signal::unix::{SignalKind, signal};

/// Parameters of a stdio gateway.
pub struct StdioGateway {
    pub store: Store,
    pub clock: Arc<dyn Clock>,
    pub server: UpstreamConfig,
    pub server_access: GrantServerAccess,
    /// Label of the client's grant.
    pub client_label: String,
}

/// Serves until the client closes standard input or a stop signal arrives. Runs `background` concurrently, and also
/// stops when it returns.
pub fn run_stdio_gateway(params: StdioGateway, background: impl Future<Output = ()>) -> Result<()> {
    let runtime = tokio::runtime::Runtime::new()?;
    let ended = runtime.block_on(async {
        tokio::select! {
            ended = serve_client(params) => ended,
            () = background => Ok(()),
        }
    });
    // A thread may still block on reading standard input, so the runtime cannot wait for its threads.
    runtime.shutdown_background();
    ended
}

async fn serve_client(params: StdioGateway) -> Result<()> {
    let StdioGateway { store, clock, server, server_access, client_label: label } = params;
    let settings =
        GatewaySettings { supervisor: crate::process_supervisor::supervisor_command()?, ..GatewaySettings::default() };
    let gateway = Gateway::new(store, clock, settings);
    // The client never presents this token: it started this process, which is its authorization.
    let token = GrantToken::random()?.hash();
    let name = server.name.clone();
    let grant = GrantConfig {
        id: GrantId(format!("local:{label}").into()),
        label: label.into(),
        labels: BTreeMap::new(),
        token,
        expires: None,
        minimum_revision: None,
        servers: HashMap::from([(name.clone(), server_access)]),
    };
    gateway.apply_config(vec![server], vec![grant]);
    let stopping = async {
        wait_for_stop_signal().await?;
        gateway.stop();
        std::future::pending().await
    };
    tokio::select! {
        ended = gateway.serve_stdio(&token, &name, tokio::io::stdin(), tokio::io::stdout()) => Ok(ended?),
        stopped = stopping => stopped,
    }
}

/// Waits for SIGTERM or SIGINT.
pub async fn wait_for_stop_signal() -> Result<()> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}
