//! A gateway for one client on standard input and output, in front of one server.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::Arc;

use gatelodge_gateway::{Gateway, GatewaySettings, GrantConfig, GrantServerAccess, UpstreamConfig};
use gatelodge_store::{Clock, GrantId, GrantToken, GrantTokenError, Store};
use tokio::signal::unix::{SignalKind, signal};

use crate::process_supervisor;

/// Parameters of a stdio gateway.
pub struct StdioGateway {
    /// Store of the gateway.
    pub store: Store,
    /// Clock for calls and records.
    pub clock: Arc<dyn Clock>,
    /// The server.
    pub server: UpstreamConfig,
    /// The policy for the server, and whether it is enforced.
    pub server_access: GrantServerAccess,
    /// Label of the client's grant.
    pub client_label: String,
}

/// Why a stdio gateway could not be started, or stopped serving.
#[derive(Debug, thiserror::Error)]
pub enum RunStdioGatewayError {
    /// Standard input or output, a signal or the runtime failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// No token could be generated.
    #[error(transparent)]
    Token(#[from] GrantTokenError),
}

/// Serves until the client closes standard input or a stop signal arrives. Runs `background` concurrently, and also
/// stops when it returns. `prepare` runs on the same runtime, so it can open the store.
pub fn run_stdio_gateway<E: From<RunStdioGatewayError>>(
    prepare: impl Future<Output = Result<StdioGateway, E>>,
    background: impl Future<Output = ()>,
) -> Result<(), E> {
    let runtime = tokio::runtime::Runtime::new().map_err(RunStdioGatewayError::Io)?;
    let ended = runtime.block_on(async {
        let params = prepare.await?;
        tokio::select! {
            ended = serve_client(params) => Ok(ended?),
            () = background => Ok(()),
        }
    });
    // A thread may still block on reading standard input, so the runtime cannot wait for its threads.
    runtime.shutdown_background();
    ended
}

async fn serve_client(params: StdioGateway) -> Result<(), RunStdioGatewayError> {
    let StdioGateway { store, clock, server, server_access, client_label: label } = params;
    let settings =
        GatewaySettings { supervisor: process_supervisor::supervisor_command()?, ..GatewaySettings::default() };
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
pub async fn wait_for_stop_signal() -> io::Result<()> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}
