//! `connect --wait`: waits for the client's first request by polling the call log.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use gatelodge_clients::ClientProfile;
use gatelodge_server::config::{self, DURATION_SYNTAX, StoreSection};
use gatelodge_store::{CallLogFilter, CallLogRow, Store};
use serde_json::{Map, Value, json};
use tokio::runtime::Runtime;

use super::gateway_target::GatewayTarget;
use crate::cli::ConnectArgs;
use crate::commands::time_text::local_time;
use crate::diagnostic_report::{escape_for_terminal, print_stderr};
use crate::exit_code::{UnreachableError, UsageError};
use crate::{stdout_output, store_command_context};

/// Interval at which the call log is polled.
const LOG_POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Waits for the first request that is logged after [`FirstRequestWatch::start`].
pub struct FirstRequestWatch {
    stores: Store,
    /// The store was opened on it.
    runtime: Runtime,
    filter: CallLogFilter,
    timeout: Duration,
    json: bool,
}

impl FirstRequestWatch {
    /// Opens the call log and records where it currently ends, so that only later requests are considered.
    pub fn start(args: &ConnectArgs, server: Option<String>, gateway: &GatewayTarget) -> Result<Self> {
        let bad = || UsageError(format!("{}: write {DURATION_SYNTAX}", config::duration_error(&args.timeout)));
        let time = config::parse_duration(&args.timeout).ok_or_else(bad)?;
        let store = StoreSection::in_directory(gateway.data.clone());
        let missing = || {
            format!(
                "no gateway has used `{}` yet; name another data directory with `--data` or `--config`",
                gateway.data.display()
            )
        };
        let runtime = store_command_context::command_runtime()?;
        let clock = gatelodge_server::system_clock();
        let opened = runtime.block_on(gatelodge_server::open_existing_store(&store, &clock));
        let stores = opened.map_err(|_| UsageError(missing()))?;
        let head = runtime.block_on(stores.call_log.head()).context("cannot read the call log")?;
        let filter = CallLogFilter {
            after: Some(head.seq),
            grant: args.grant.clone(),
            server,
            limit: usize::MAX,
            ..CallLogFilter::default()
        };
        Ok(Self { stores, runtime, filter, timeout: time, json: args.json })
    }

    /// Waits for a request with a valid token, and prints its time and grant.
    pub fn wait(self, client: &ClientProfile, result: &mut Map<String, Value>) -> Result<()> {
        if !self.json {
            print_stderr(&format!("waiting for the first request of {}; press Ctrl-C to stop", client.name));
        }
        let Some(row) = self.runtime.block_on(self.poll_first_request())? else {
            let help = "is the token set where the client starts, and was the client restarted?";
            return Err(UnreachableError(format!("no request came in time; {help}")).into());
        };
        result.insert("first_request".to_owned(), json!(row));
        if !self.json {
            let label = row.record.label.as_deref().unwrap_or_default();
            stdout_output::print(&format!(
                "{} connected at {} with grant `{}`\n",
                client.name,
                local_time(row.record.at),
                escape_for_terminal(label)
            ))?;
        }
        Ok(())
    }

    async fn poll_first_request(&self) -> Result<Option<CallLogRow>> {
        let start = Instant::now();
        let mut polls = tokio::time::interval(LOG_POLL_INTERVAL);
        while start.elapsed() < self.timeout {
            tokio::select! {
                _ = polls.tick() => {}
                interrupted = tokio::signal::ctrl_c() => {
                    interrupted?;
                    return Ok(None);
                }
            }
            let rows = self.stores.call_log.rows(self.filter.clone()).await.context("cannot read the call log")?;
            // A row without a grant is a request without a valid token.
            if let Some(row) = rows.into_iter().find(|row| row.record.grant.is_some()) {
                return Ok(Some(row));
            }
        }
        Ok(None)
    }
}
