//! Waits for a client's first request, by the call log.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use gatelodge_store::{CallLogFilter, CallLogRow};
use serde_json::{Map, Value, json};

use super::gateway_target::GatewayTarget;
use crate::app::{self, StoreHandles};
use crate::cli::ConnectArgs;
use crate::client_config::ClientProfile;
use crate::config::{self, DURATION_SYNTAX, StoreSection};
use crate::diagnostic_report::{escape_for_terminal, print_stderr};
use crate::exit_code::{UnreachableError, UsageError};
use crate::{admin_context, stdout_output};

/// How often the log is looked at.
const LOG_POLL_INTERVAL: Duration = Duration::from_millis(250);

/// The log as it stood when the wait began.
pub struct FirstRequestWatch {
    stores: StoreHandles,
    filter: CallLogFilter,
    timeout: Duration,
    json: bool,
}

impl FirstRequestWatch {
    /// Notes where the log ends.
    pub fn start(args: &ConnectArgs, server: Option<String>, peek: &GatewayTarget) -> Result<Self> {
        let bad = || {
            UsageError(format!(
                "`{}` is not a length of time: write {DURATION_SYNTAX}",
                escape_for_terminal(&args.timeout)
            ))
        };
        let time = config::parse_duration(&args.timeout).ok_or_else(bad)?;
        let store = StoreSection::in_directory(peek.data.clone());
        let missing =
            || format!("no gateway has run on `{}` yet; `--data` or `--config` names another", peek.data.display());
        let stores = app::open_existing(&store, &app::system_clock()).map_err(|_| UsageError(missing()))?;
        let head = admin_context::block_on(async { stores.ledger.head().await.context("cannot read the call log") })?;
        let filter = CallLogFilter {
            after: Some(head.seq),
            grant: args.grant.clone(),
            server,
            limit: usize::MAX,
            ..CallLogFilter::default()
        };
        Ok(Self { stores, filter, timeout: time, json: args.json })
    }

    /// Waits for a row of a grant, and says when it came.
    pub fn wait(self, client: &ClientProfile, told: &mut Map<String, Value>) -> Result<()> {
        if !self.json {
            print_stderr(&format!("waiting for the first request of {}; Ctrl-C ends it", client.name));
        }
        let Some(row) = admin_context::block_on(self.poll_first_request())? else {
            let help = "is the token set where the client starts, and was the client started anew?";
            return Err(UnreachableError(format!("no request came in time; {help}")).into());
        };
        told.insert("first_request".to_owned(), json!(row));
        if !self.json {
            let label = row.record.label.as_deref().unwrap_or_default();
            stdout_output::print(&format!(
                "{} connected at {} with grant `{}`\n",
                client.name,
                row.record.at,
                escape_for_terminal(label)
            ))?;
        }
        Ok(())
    }

    async fn poll_first_request(&self) -> Result<Option<CallLogRow>> {
        let start = Instant::now();
        let mut looks = tokio::time::interval(LOG_POLL_INTERVAL);
        while start.elapsed() < self.timeout {
            tokio::select! {
                _ = looks.tick() => {}
                interrupted = tokio::signal::ctrl_c() => {
                    interrupted?;
                    return Ok(None);
                }
            }
            let rows = self.stores.ledger.rows(self.filter.clone()).await.context("cannot read the call log")?;
            // A row without a grant is somebody without a token of ours.
            if let Some(row) = rows.into_iter().find(|row| row.record.grant.is_some()) {
                return Ok(Some(row));
            }
        }
        Ok(None)
    }
}
