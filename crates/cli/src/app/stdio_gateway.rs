//! A gateway for one client at our standard streams, and one server.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use anyhow::Result;
use gatelodge_gateway::{Gateway, GatewaySettings, GatewayStores, GrantConfig, ServerAccess, UpstreamConfig};
use gatelodge_store::{Clock, GrantId, GrantToken};
use tokio::signal::unix::{SignalKind, signal};

/// What is put together.
pub struct StdioGateway {
    pub stores: GatewayStores,
    pub clock: Arc<dyn Clock>,
    pub server: UpstreamConfig,
    pub server_access: ServerAccess,
    /// What the caller is called.
    pub client_label: String,
}

/// Serves until the client's end of the streams is closed, or we are told to stop. `beside` is done meanwhile.
pub fn run_stdio_gateway(local: StdioGateway, beside: impl Future<Output = ()>) -> Result<()> {
    let runtime = tokio::runtime::Runtime::new()?;
    let ended = runtime.block_on(async {
        tokio::select! {
            ended = serve_client(local) => ended,
            () = beside => Ok(()),
        }
    });
    // Our input may still be waited for, and nobody closes it.
    runtime.shutdown_background();
    ended
}

async fn serve_client(local: StdioGateway) -> Result<()> {
    let StdioGateway { stores, clock, server, server_access: door, client_label: label } = local;
    let settings =
        GatewaySettings { supervisor: crate::process_supervisor::supervisor_command()?, ..GatewaySettings::default() };
    let gateway = Gateway::new(stores, clock, settings);
    // Nobody shows it: whoever is at the other end of our streams has been let in by starting us.
    let token = GrantToken::random()?.hash();
    let name = server.name.clone();
    let grant = GrantConfig {
        id: GrantId(format!("local:{label}").into()),
        label: label.into(),
        labels: BTreeMap::new(),
        token,
        expires: None,
        minimum_revision: None,
        servers: HashMap::from([(name.clone(), door)]),
    };
    gateway.apply_config(vec![server], vec![grant]);
    let told = async {
        wait_for_stop_signal().await?;
        gateway.stop();
        std::future::pending().await
    };
    tokio::select! {
        ended = gateway.serve_stdio(&token, &name, tokio::io::stdin(), tokio::io::stdout()) => Ok(ended?),
        told = told => told,
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
