//! The checks of the doctor, one function each.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use gatelodge_gateway::{UpstreamConfig, UpstreamProcessConfig, UpstreamTransport, fits_tool_name_limit};
use gatelodge_store::{CallLogFilter, Clock, OpenStoreError};
use jiff::Timestamp;

use super::CheckResult;
use crate::app::{
    self, EffectiveConfig, GatewayStatusFile, StoreHandles, StoredConfig, load_stored_config, merge_config,
    open_file_limit,
};
use crate::commands::server::test_server::{probe_redacted, redact_text};
use crate::config::{ConfigEntries, GatewaySection, StoreSection};
use crate::diagnostic_report::count_noun;
use crate::{admin_context, header_template, process_environment};

/// A clock before this was never set.
const MIN_PLAUSIBLE_TIME: &str = "2026-01-01T00:00:00Z";
/// How many rows are looked at for times that have not come.
const MAX_CLOCK_CHECK_ROWS: usize = 10_000;
/// How long the running gateway may take to take a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// Whether the data directory can be written.
pub async fn check_data_directory(data: &Path, listen: Option<&GatewaySection>) -> CheckResult {
    let name = "data directory";
    let shown = data.display();
    if !data.exists() {
        let admin = listen.map(|listen| listen.admin_listen);
        if let Some(admin) = admin
            && admin_context::is_gateway_up(admin).await.is_ok_and(|is| is)
        {
            let says = format!("`{shown}` is gone, but a gateway answers at {admin}: what it keeps is lost");
            return CheckResult::wrong(name, says, "stop the gateway, restore the directory, and start it again");
        }
        return CheckResult::warning(name, format!("`{shown}` is not there yet"), "the first start makes it");
    }
    let probe = data.join(format!("doctor.{}", std::process::id()));
    let written = std::fs::write(&probe, b"x").and_then(|()| std::fs::remove_file(&probe));
    match written {
        Ok(()) => CheckResult::fine(name, format!("`{shown}` can be written")),
        Err(error) => {
            // It may be there, and empty.
            let _ = std::fs::remove_file(&probe);
            CheckResult::wrong(name, format!("`{shown}` cannot be written: {error}"), write_error_fix(error.kind()))
        }
    }
}

fn write_error_fix(kind: ErrorKind) -> String {
    match kind {
        ErrorKind::StorageFull => "make room on the disk".to_owned(),
        ErrorKind::QuotaExceeded => "make room, or have the quota raised".to_owned(),
        ErrorKind::FileTooLarge => "raise the limit for the size of files (`ulimit -f`)".to_owned(),
        ErrorKind::ReadOnlyFilesystem => "mount the disk so that it can be written".to_owned(),
        _ => format!("give the user `{}` the right to write it", process_environment::current_user()),
    }
}

/// Whether the databases are ones that this build knows.
pub fn check_databases(
    store: &StoreSection,
    clock: &Arc<dyn Clock>,
    checks: &mut Vec<CheckResult>,
) -> Option<StoreHandles> {
    let name = "databases";
    let (check, stores) = match app::open_existing(store, clock) {
        Ok(stores) => (CheckResult::fine(name, "of this build's schema"), Some(stores)),
        Err(fault @ OpenStoreError::Lost { .. }) => {
            (CheckResult::wrong(name, fault.to_string(), "restore it from a backup, and start the gateway"), None)
        }
        Err(OpenStoreError::Missing { .. }) => {
            (CheckResult::warning(name, "there are none yet", "the first start makes them"), None)
        }
        Err(fault @ OpenStoreError::TooNew { .. }) => {
            (CheckResult::wrong(name, fault.to_string(), "run the newer build"), None)
        }
        Err(fault @ OpenStoreError::TooOld { .. }) => {
            (CheckResult::warning(name, fault.to_string(), "start the gateway once with this build"), None)
        }
        Err(fault) => {
            let cause = std::error::Error::source(&fault).map(|cause| format!(": {cause}")).unwrap_or_default();
            let fix = "see whether the files are there and readable, and whether the disk is full";
            (CheckResult::wrong(name, format!("{fault}{cause}"), fix), None)
        }
    };
    checks.push(check);
    stores
}

/// Whether the clock is plausible: windows of limits follow it.
pub async fn check_clock(stores: &StoreHandles, clock: &dyn Clock) -> CheckResult {
    let name = "clock";
    let latest = stores.ledger.rows(CallLogFilter { limit: MAX_CLOCK_CHECK_ROWS, ..CallLogFilter::default() }).await;
    let latest = latest.ok().and_then(|rows| rows.iter().map(|row| row.record.at).max());
    // Read behind the rows: a gateway may be writing.
    let now = clock.now();
    if MIN_PLAUSIBLE_TIME.parse::<Timestamp>().is_ok_and(|earliest| now < earliest) {
        return CheckResult::wrong(name, format!("it is {now}, before this program was made"), "set the clock");
    }
    match latest {
        Some(latest) if latest > now => {
            let says = format!("it is {now}, but calls were recorded up to {latest}: limits never go back");
            let fix = format!(
                "set the clock if it is wrong now; if it was wrong then, what those calls used counts until their \
                 windows end after {latest}: wait, or name the counter anew in the policy"
            );
            CheckResult::wrong(name, says, fix)
        }
        _ => CheckResult::fine(name, format!("it is {now}")),
    }
}

/// Whether the variables that stored servers need are set here.
pub async fn variables(stores: &StoreHandles) -> Vec<CheckResult> {
    let name = "environment";
    let Ok(servers) = stores.servers.list().await else { return Vec::new() };
    let mut checks = Vec::new();
    for server in servers {
        for variable in server.headers.values().flat_map(|value| header_template::referenced_variables(value)) {
            checks.push(match process_environment::find_variable(&variable) {
                Some(_) => CheckResult::fine(name, format!("`{variable}` is set")),
                None => {
                    let says = format!("server `{}` needs `{variable}`, which is not set", server.name);
                    CheckResult::wrong(name, says, format!("set `{variable}` where the gateway starts"))
                }
            });
        }
    }
    checks
}

/// Whether each server answers. Gives what is in force, or would be.
pub async fn servers(
    stores: Option<&StoreHandles>,
    entries: &ConfigEntries,
    note: Option<&GatewayStatusFile>,
    checks: &mut Vec<CheckResult>,
) -> EffectiveConfig {
    let name = "server";
    // Before the first start there is the configuration alone.
    let stored = match stores {
        Some(stores) => load_stored_config(stores).await.unwrap_or_default(),
        None => StoredConfig::default(),
    };
    let picture = merge_config(entries, &stored, &process_environment::find_variable);
    let running = note.map(|note| note.servers.as_slice()).unwrap_or_default();
    let inner: Vec<&String> = running
        .iter()
        .filter(|running| !picture.servers.iter().any(|server| server.name.as_str() == **running))
        .collect();
    for server in &inner {
        checks.push(CheckResult::fine(
            name,
            format!("`{server}` is in the running gateway alone, which says it is there"),
        ));
    }
    let is_there = |remark: &&String| {
        inner.iter().any(|server| remark.ends_with(&format!(" is for a server `{server}`, which is not there")))
    };
    for remark in picture.warnings.iter().filter(|remark| !is_there(remark)) {
        checks.push(CheckResult::warning("entries", remark, "`gatelodge status` shows what is there"));
    }
    for server in &picture.servers {
        let is_at_all =
            picture.grants.iter().any(|grant| grant.servers.len() > 1 && grant.servers.contains_key(&server.name));
        checks.push(reached(server, is_at_all).await);
    }
    picture
}

/// Whether a server answers; and if a grant has it together with others, whether clients have room for its names then.
async fn reached(server: &UpstreamConfig, is_at_all: bool) -> CheckResult {
    let name = "server";
    if let UpstreamTransport::Process(child) = &server.transport
        && let Some(program) = not_found(child)
    {
        let says = format!(
            "`{}` runs `{}`, which is not found",
            server.name,
            crate::diagnostic_report::escape_for_terminal(&program)
        );
        return CheckResult::wrong(
            name,
            says,
            "install it where the gateway runs, or write its full path in `command`",
        );
    }
    let error = match probe_redacted(server).await {
        Ok(offered) => {
            let tools = count_noun(offered.tools.len(), "tool");
            let long = offered.tools.iter().find(|tool| is_at_all && !fits_tool_name_limit(&server.name, tool));
            return match long {
                Some(tool) => {
                    let (server, tool) = (&server.name, crate::diagnostic_report::escape_for_terminal(tool));
                    let says = format!(
                        "`{server}` offers {tools}; at `/mcp`, some clients have no room for `{server}__{tool}`"
                    );
                    let fix = format!("give the server a shorter name, or connect clients to `/mcp/{server}`");
                    CheckResult::warning(name, says, fix)
                }
                None => CheckResult::fine(name, format!("`{}` offers {tools}", server.name)),
            };
        }
        Err(error) => redact_text(server, &error.to_string()),
    };
    unanswered(server, &error)
}

fn unanswered(server: &UpstreamConfig, error: &str) -> CheckResult {
    let is_tls = matches!(&server.transport, UpstreamTransport::Http(http) if http.url.scheme_str() == Some("https"));
    if is_tls && error.contains("certificate") {
        let says = format!("`{}` has a certificate that is refused: {error}", server.name);
        let fix = "see whether its name and dates are right, and add its authority to those that this machine trusts";
        return CheckResult::wrong("TLS", says, fix);
    }
    let fix = match &server.transport {
        UpstreamTransport::Process(_) => "run the command by hand where the gateway runs, with the same variables",
        UpstreamTransport::Http(_) => "see whether it runs, and whether its address and headers are right",
    };
    CheckResult::wrong("server", format!("`{}` does not answer: {error}", server.name), fix)
}

/// The program of a server, if there is none such where it would be looked for.
fn not_found(child: &UpstreamProcessConfig) -> Option<String> {
    let program = Path::new(&child.program);
    let is_there = if child.program.contains('/') {
        child.directory.as_deref().unwrap_or(Path::new("")).join(program).exists() || program.exists()
    } else {
        let path = child.env.iter().find(|(name, _)| name == "PATH").map(|(_, path)| path.as_str());
        std::env::split_paths(path.unwrap_or_default()).any(|folder| folder.join(program).is_file())
    };
    (!is_there).then(|| child.program.clone())
}

/// Whether an address is free, or the running gateway's.
pub fn port(
    name: &'static str,
    written: Option<SocketAddr>,
    usual: SocketAddr,
    own: Option<SocketAddr>,
) -> CheckResult {
    let address = written.unwrap_or(usual);
    if let Some(own) = own {
        let is_it = written.is_none_or(|written| written.port() == 0 || written == own);
        let says = format!("the running gateway listens on {own}");
        return match TcpStream::connect_timeout(&own, CONNECT_TIMEOUT) {
            Ok(_) if is_it => CheckResult::fine(name, says),
            Ok(_) => {
                CheckResult::warning(name, format!("{says}, the configuration says {address}"), "restart the gateway")
            }
            Err(error) => {
                let says = format!("the gateway's process is there, but {own} does not answer: {error}");
                CheckResult::wrong(name, says, "look at its log; restart it")
            }
        };
    }
    match TcpListener::bind(address) {
        Ok(_) => CheckResult::fine(name, format!("{address} is free")),
        Err(error) => {
            let fix = "stop what listens there, or name another address in the configuration";
            CheckResult::wrong(name, format!("cannot listen on {address}: {error}"), fix)
        }
    }
}

/// Whether as many files may be open as there may be connections.
pub fn open_files(listen: &GatewaySection) -> CheckResult {
    let name = "open files";
    let connections = listen.settings.connections;
    match open_file_limit::maximum_limit() {
        Some(most) if open_file_limit::is_too_low(Some(most), connections) => {
            let says = format!("{most} may be open, too few for `connections` = {connections}");
            let fix = "raise the limit (`LimitNOFILE=` in a unit, `ulimit -Hn` in a shell), or lower `connections`";
            CheckResult::warning(name, says, fix)
        }
        Some(most) => CheckResult::fine(name, format!("up to {most}, enough for {connections} connections")),
        None => CheckResult::fine(name, "as many as there are"),
    }
}

#[cfg(test)]
mod tests {
    use gatelodge_gateway::{PinningSettings, UpstreamHttpConfig};

    use super::*;
    use crate::commands::doctor::CheckStatus;

    #[test]
    fn a_certificate_that_is_refused_is_named_as_that() {
        let server = |url: &str| UpstreamConfig {
            name: "books".parse().expect("a name"),
            transport: UpstreamTransport::Http(UpstreamHttpConfig {
                url: url.parse().expect("a URL"),
                headers: Vec::new(),
            }),
            log_arguments: false,
            pinning: PinningSettings::default(),
        };
        let error = "invalid peer certificate: UnknownIssuer";
        let check = unanswered(&server("https://books.example.com/mcp"), error);
        assert_eq!((check.name, check.status), ("TLS", CheckStatus::Wrong));
        assert!(check.message.contains("has a certificate that is refused"), "{}", check.message);
        assert_eq!(unanswered(&server("http://books.example.com/mcp"), error).name, "server");
        assert_eq!(unanswered(&server("https://books.example.com/mcp"), "connection refused").name, "server");
    }

    #[test]
    fn a_full_disk_is_not_taken_for_a_missing_right() {
        assert_eq!(write_error_fix(ErrorKind::StorageFull), "make room on the disk");
        assert!(write_error_fix(ErrorKind::PermissionDenied).starts_with("give the user"));
    }
}
