//! The checks of the doctor, one function each.

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::Arc;

use gatelodge_store::{Clock, Filter, OpenStoreError};
use jiff::Timestamp;

use super::Check;
use crate::commands::server::test::{cut, reach};
use crate::config::{Entries, StoreConfig};
use crate::wire::{self, Stores, merge, stored};
use crate::{environment, headers};

/// A clock before this was never set.
const EARLIEST: &str = "2026-01-01T00:00:00Z";

/// Whether the data directory can be written.
pub fn directory(data: &Path) -> Check {
    let name = "data directory";
    let shown = data.display();
    if !data.exists() {
        return Check::warning(name, format!("`{shown}` is not there yet"), "the first start makes it");
    }
    let probe = data.join(format!("doctor.{}", std::process::id()));
    let written = std::fs::write(&probe, b"x").and_then(|()| std::fs::remove_file(&probe));
    match written {
        Ok(()) => Check::fine(name, format!("`{shown}` can be written")),
        Err(error) => {
            let fix = format!("give the user `{}` the right to write it", environment::user());
            Check::wrong(name, format!("`{shown}` cannot be written: {error}"), fix)
        }
    }
}

/// Whether the databases are ones that this build knows.
pub fn schema(store: &StoreConfig, clock: &Arc<dyn Clock>, checks: &mut Vec<Check>) -> Option<Stores> {
    let name = "databases";
    let (check, stores) = match wire::open_existing(store, clock) {
        Ok(stores) => (Check::fine(name, "of this build's schema"), Some(stores)),
        Err(OpenStoreError::Missing { .. }) => {
            (Check::warning(name, "there are none yet", "the first start makes them"), None)
        }
        Err(fault @ OpenStoreError::TooNew { .. }) => {
            (Check::wrong(name, fault.to_string(), "run the newer build"), None)
        }
        Err(fault @ OpenStoreError::TooOld { .. }) => {
            (Check::warning(name, fault.to_string(), "start the gateway once with this build"), None)
        }
        Err(fault) => {
            let cause = std::error::Error::source(&fault).map(|cause| format!(": {cause}")).unwrap_or_default();
            let fix = "see whether the files are there and readable, and whether the disk is full";
            (Check::wrong(name, format!("{fault}{cause}"), fix), None)
        }
    };
    checks.push(check);
    stores
}

/// Whether the clock is plausible: windows of limits follow it.
pub async fn time(stores: &Stores, now: Timestamp) -> Check {
    let name = "clock";
    let fix = "set the clock; limits count by it and never go back";
    if EARLIEST.parse::<Timestamp>().is_ok_and(|earliest| now < earliest) {
        return Check::wrong(name, format!("it is {now}, before this program was made"), fix);
    }
    let last = stores.ledger.rows(Filter { limit: 1, ..Filter::default() }).await;
    match last.ok().and_then(|rows| rows.last().map(|row| row.record.at)) {
        Some(last) if last > now => Check::wrong(name, format!("it is {now}, but the last call was at {last}"), fix),
        _ => Check::fine(name, format!("it is {now}")),
    }
}

/// Whether the variables that stored servers need are set here.
pub async fn variables(stores: &Stores) -> Vec<Check> {
    let name = "environment";
    let Ok(servers) = stores.servers.list().await else { return Vec::new() };
    let mut checks = Vec::new();
    for server in servers {
        for variable in server.headers.values().flat_map(|value| headers::variables(value)) {
            checks.push(match environment::variable(&variable) {
                Some(_) => Check::fine(name, format!("`{variable}` is set")),
                None => {
                    let says = format!("server `{}` needs `{variable}`, which is not set", server.name);
                    Check::wrong(name, says, format!("set `{variable}` where the gateway starts"))
                }
            });
        }
    }
    checks
}

/// Whether each server answers.
pub async fn servers(stores: &Stores, entries: &Entries) -> Vec<Check> {
    let name = "server";
    let Ok(stored) = stored(stores).await else { return Vec::new() };
    let picture = merge(entries, &stored, &environment::variable);
    let mut checks = Vec::new();
    for remark in picture.remarks {
        checks.push(Check::warning("entries", remark, "`gatelodge status` shows what is there"));
    }
    for server in &picture.servers {
        checks.push(match reach(server).await {
            Ok(offered) => Check::fine(name, format!("`{}` offers {} tools", server.name, offered.tools.len())),
            Err(error) => {
                let says = format!("`{}` does not answer: {}", server.name, cut(server, &error.to_string()));
                Check::wrong(name, says, "see whether it runs, and whether its address and headers are right")
            }
        });
    }
    checks
}

/// Whether an address is free, or this gateway's.
pub fn port(name: &'static str, address: SocketAddr, own: Option<SocketAddr>) -> Check {
    match TcpListener::bind(address) {
        Ok(_) => Check::fine(name, format!("{address} is free")),
        Err(_) if own == Some(address) => Check::fine(name, format!("{address} is the running gateway's")),
        Err(error) => {
            let fix = "stop what listens there, or name another address in the configuration";
            Check::wrong(name, format!("cannot listen on {address}: {error}"), fix)
        }
    }
}
