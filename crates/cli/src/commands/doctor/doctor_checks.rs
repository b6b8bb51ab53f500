//! The checks that `gatelodge doctor` runs, one function each.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use gatelodge_admin::header_template;
use gatelodge_gateway::{UpstreamConfig, UpstreamProcessConfig, UpstreamTransport, fits_tool_name_limit};
use gatelodge_server::config::{ConfigFileEntries, GatewaySection, StoreSection};
use gatelodge_server::{
    EffectiveConfig, GatewayStatusFile, PolicyCache, StoredConfig, load_stored_config, merge_config,
    missing_server_text, open_file_limit, process_environment,
};
use gatelodge_store::{CallLogFilter, Clock, OpenStoreError, Store};
use jiff::Timestamp;

use super::DoctorCheckResult;
use crate::commands::server::test_server_connection::{probe_redacted, redact_text};
use crate::commands::time_text::time_text;
use crate::diagnostic_report::count_noun;
use crate::store_command_context;

/// Earliest plausible current time. If the clock shows an earlier time, it has never been set.
const MIN_PLAUSIBLE_TIME: &str = "2026-01-01T00:00:00Z";
/// Maximum number of call log rows to check for times in the future.
const MAX_CLOCK_CHECK_ROWS: usize = 10_000;
/// Time limit for connecting to the running gateway.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// Checks that the data directory is writable.
pub async fn check_data_directory(data: &Path, listen: Option<&GatewaySection>) -> DoctorCheckResult {
    let name = "data directory";
    let shown = data.display();
    if !data.exists() {
        let admin = listen.map(|listen| listen.admin_listen);
        if let Some(admin) = admin
            && store_command_context::is_gateway_up(admin).await.is_ok_and(|is| is)
        {
            let message = format!("`{shown}` is gone, but a gateway runs at {admin}: everything it writes is lost");
            return DoctorCheckResult::wrong(
                name,
                message,
                "stop the gateway, restore the directory, and start it again",
            );
        }
        return DoctorCheckResult::warning(name, format!("`{shown}` does not exist yet"), "the first start creates it");
    }
    let probe = data.join(format!("doctor.{}", std::process::id()));
    let written = std::fs::write(&probe, b"x").and_then(|()| std::fs::remove_file(&probe));
    match written {
        Ok(()) => DoctorCheckResult::fine(name, format!("`{shown}` is writable")),
        Err(error) => {
            // The file may have been created without its content.
            let _ = std::fs::remove_file(&probe);
            DoctorCheckResult::wrong(name, format!("cannot write to `{shown}`: {error}"), write_error_fix(error.kind()))
        }
    }
}

fn write_error_fix(kind: ErrorKind) -> String {
    match kind {
        ErrorKind::StorageFull => "free some disk space".to_owned(),
        ErrorKind::QuotaExceeded => "free some space, or raise the quota".to_owned(),
        ErrorKind::FileTooLarge => "raise the file size limit (`ulimit -f`)".to_owned(),
        ErrorKind::ReadOnlyFilesystem => "mount the file system as writable".to_owned(),
        _ => format!("give the user `{}` write permission", process_environment::current_user()),
    }
}

/// Checks that this version of the program can open the databases, and returns the opened stores.
pub async fn check_databases(
    store: &StoreSection,
    clock: &Arc<dyn Clock>,
    checks: &mut Vec<DoctorCheckResult>,
) -> Option<Store> {
    let name = "databases";
    let (check, stores) = match gatelodge_server::open_existing_store(store, clock).await {
        Ok(stores) => (DoctorCheckResult::fine(name, "the schema version matches this build"), Some(stores)),
        Err(error @ OpenStoreError::Lost { .. }) => {
            (DoctorCheckResult::wrong(name, error.to_string(), "restore it from a backup and start the gateway"), None)
        }
        Err(OpenStoreError::Missing { .. }) => {
            (DoctorCheckResult::warning(name, "there are none yet", "the first start creates them"), None)
        }
        Err(error @ OpenStoreError::TooNew { .. }) => {
            (DoctorCheckResult::wrong(name, error.to_string(), "run the newer build"), None)
        }
        Err(error @ OpenStoreError::TooOld { .. }) => {
            (DoctorCheckResult::warning(name, error.to_string(), "start the gateway once with this build"), None)
        }
        Err(error) => {
            let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
            let fix = "check that the files exist and are readable, and that the disk is not full";
            (DoctorCheckResult::wrong(name, format!("{error}{cause}"), fix), None)
        }
    };
    checks.push(check);
    stores
}

/// Checks that the system clock is plausible, because the time windows of rate limits depend on it.
pub async fn check_clock(stores: &Store, clock: &dyn Clock, json: bool) -> DoctorCheckResult {
    let name = "clock";
    let time = |at: Timestamp| time_text(at, json);
    let latest = stores.call_log.rows(CallLogFilter { limit: MAX_CLOCK_CHECK_ROWS, ..CallLogFilter::default() }).await;
    let latest = latest.ok().and_then(|rows| rows.iter().map(|row| row.record.at).max());
    // Read after the rows, because a running gateway may add some.
    let now = clock.now();
    if MIN_PLAUSIBLE_TIME.parse::<Timestamp>().is_ok_and(|earliest| now < earliest) {
        return DoctorCheckResult::wrong(
            name,
            format!("it is {}, before this program was built", time(now)),
            "set the clock",
        );
    }
    match latest {
        Some(latest) if latest > now => {
            let (now, latest) = (time(now), time(latest));
            let message = format!(
                "it is {now}, but calls were recorded up to {latest}: limits do not reset when the clock goes back"
            );
            let fix = format!(
                "set the clock if it is wrong now; if it was wrong then, the charges of those calls count until their \
                 windows end after {latest}: wait, or rename the counter in the policy"
            );
            DoctorCheckResult::wrong(name, message, fix)
        }
        _ => DoctorCheckResult::fine(name, format!("it is {}", time(now))),
    }
}

/// Checks that the environment variables used in the headers of stored servers are set in the environment of this
/// command.
pub async fn check_variables(stores: &Store) -> Vec<DoctorCheckResult> {
    let name = "environment";
    let Ok(servers) = stores.servers.list().await else { return Vec::new() };
    let mut checks = Vec::new();
    for server in servers {
        for variable in server.headers.values().flat_map(|value| header_template::referenced_variables(value)) {
            checks.push(match process_environment::find_variable(&variable) {
                Some(_) => DoctorCheckResult::fine(name, format!("`{variable}` is set")),
                None => {
                    let message = format!("server `{}` needs `{variable}`, which is not set", server.name);
                    DoctorCheckResult::wrong(name, message, format!("set `{variable}` where the gateway starts"))
                }
            });
        }
    }
    checks
}

/// Checks that each server responds. Returns the merged configuration from the configuration file and the store.
pub async fn check_servers(
    stores: Option<&Store>,
    entries: &ConfigFileEntries,
    status: Option<&GatewayStatusFile>,
    checks: &mut Vec<DoctorCheckResult>,
) -> EffectiveConfig {
    let name = "server";
    // Before the first start there is only the configuration file.
    let stored = match stores {
        Some(stores) => load_stored_config(stores).await.unwrap_or_default(),
        None => StoredConfig::default(),
    };
    let active_config =
        merge_config(entries, &stored, &process_environment::find_variable, &mut PolicyCache::default());
    let running = status.map(|status| status.servers.as_slice()).unwrap_or_default();
    let running_only: Vec<&String> = running
        .iter()
        .filter(|running| !active_config.servers.iter().any(|server| server.name.as_str() == **running))
        .collect();
    for server in &running_only {
        checks.push(DoctorCheckResult::fine(
            name,
            format!("`{server}` is only in the running gateway, which reports it as running"),
        ));
    }
    let is_running =
        |warning: &&String| running_only.iter().any(|server| warning.ends_with(&missing_server_text(server)));
    for warning in active_config.warnings.iter().filter(|warning| !is_running(warning)) {
        checks.push(DoctorCheckResult::warning("entries", warning, "`gatelodge status` shows servers and grants"));
    }
    for server in &active_config.servers {
        let is_aggregated = active_config
            .grants
            .iter()
            .any(|grant| grant.servers.len() > 1 && grant.servers.contains_key(&server.name));
        checks.push(check_server(server, is_aggregated).await);
    }
    active_config
}

/// Checks that a server responds. If the server is also available through the combined endpoint `/mcp`, checks that its
/// prefixed tool names are short enough for clients.
async fn check_server(server: &UpstreamConfig, is_aggregated: bool) -> DoctorCheckResult {
    let name = "server";
    if let UpstreamTransport::Process(child) = &server.transport
        && let Some(program) = find_missing_program(child)
    {
        let message = format!(
            "`{}` runs `{}`, which does not exist",
            server.name,
            crate::diagnostic_report::escape_for_terminal(&program)
        );
        return DoctorCheckResult::wrong(
            name,
            message,
            "install it where the gateway runs, or write its full path in `command`",
        );
    }
    let error = match probe_redacted(server).await {
        Ok(listed) => {
            let tools = count_noun(listed.tools.len(), "tool");
            let long = listed.tools.iter().find(|tool| is_aggregated && !fits_tool_name_limit(&server.name, tool));
            return match long {
                Some(tool) => {
                    let (server, tool) = (&server.name, crate::diagnostic_report::escape_for_terminal(tool));
                    let message = format!(
                        "`{server}` has {tools}; at `/mcp`, the name `{server}__{tool}` is too long for some clients"
                    );
                    let fix = format!("give the server a shorter name, or connect clients to `/mcp/{server}`");
                    DoctorCheckResult::warning(name, message, fix)
                }
                None => DoctorCheckResult::fine(name, format!("`{}` has {tools}", server.name)),
            };
        }
        Err(error) => redact_text(server, &error.to_string()),
    };
    unreachable_check(server, &error)
}

fn unreachable_check(server: &UpstreamConfig, error: &str) -> DoctorCheckResult {
    let is_tls = matches!(&server.transport, UpstreamTransport::Http(http) if http.url.scheme_str() == Some("https"));
    if is_tls && error.contains("certificate") {
        let message = format!("the certificate of `{}` is rejected: {error}", server.name);
        let fix = "check its name and dates, and add its certificate authority to those that this machine trusts";
        return DoctorCheckResult::wrong("TLS", message, fix);
    }
    let fix = match &server.transport {
        UpstreamTransport::Process(_) => {
            "run the command by hand where the gateway runs, with the same environment variables"
        }
        UpstreamTransport::Http(_) => "check that it runs, and that its URL and headers are right",
    };
    DoctorCheckResult::wrong("server", format!("`{}` does not respond: {error}", server.name), fix)
}

/// Returns the name of the program that a server runs if the gateway cannot find it, or `None` if it can.
fn find_missing_program(child: &UpstreamProcessConfig) -> Option<String> {
    let program = Path::new(&child.program);
    let is_there = if child.program.contains('/') {
        child.directory.as_deref().unwrap_or(Path::new("")).join(program).exists() || program.exists()
    } else {
        let path = child.env.iter().find(|(name, _)| name == "PATH").map(|(_, path)| path.as_str());
        std::env::split_paths(path.unwrap_or_default()).any(|folder| folder.join(program).is_file())
    };
    (!is_there).then(|| child.program.clone())
}

/// Checks that an address is free or, if the gateway is running, that the gateway responds there.
pub fn check_port(
    name: &'static str,
    configured: Option<SocketAddr>,
    default: SocketAddr,
    own: Option<SocketAddr>,
) -> DoctorCheckResult {
    let address = configured.unwrap_or(default);
    if let Some(own) = own {
        let is_same = configured.is_none_or(|configured| configured.port() == 0 || configured == own);
        let message = format!("the running gateway listens on {own}");
        return match TcpStream::connect_timeout(&own, CONNECT_TIMEOUT) {
            Ok(_) if is_same => DoctorCheckResult::fine(name, message),
            Ok(_) => DoctorCheckResult::warning(
                name,
                format!("{message}, but the configuration says {address}"),
                "restart the gateway",
            ),
            Err(error) => {
                let message = format!("the gateway process runs, but {own} does not respond: {error}");
                DoctorCheckResult::wrong(name, message, "read its log; restart it")
            }
        };
    }
    match TcpListener::bind(address) {
        Ok(_) => DoctorCheckResult::fine(name, format!("{address} is free")),
        Err(error) => {
            let fix = "stop the program that listens there, or set another address in the configuration";
            DoctorCheckResult::wrong(name, format!("cannot listen on {address}: {error}"), fix)
        }
    }
}

/// Checks that the limit on open files is high enough for the configured number of connections.
pub fn check_open_files(listen: &GatewaySection) -> DoctorCheckResult {
    let name = "open files";
    let connections = listen.settings.max_connections;
    match open_file_limit::maximum_limit() {
        Some(limit) if open_file_limit::is_too_low(Some(limit), connections) => {
            let message = format!("the limit is {limit}, too low for `max_connections` = {connections}");
            let fix = "raise the limit (`LimitNOFILE=` in a systemd unit, `ulimit -Hn` in a shell), or lower `max_connections`";
            DoctorCheckResult::warning(name, message, fix)
        }
        Some(limit) => {
            DoctorCheckResult::fine(name, format!("the limit is {limit}, enough for {connections} connections"))
        }
        None => DoctorCheckResult::fine(name, "no limit"),
    }
}

#[cfg(test)]
mod tests {
    use gatelodge_gateway::{PinningSettings, UpstreamHttpConfig};

    use super::*;
    use crate::commands::doctor::DoctorCheckStatus;

    #[test]
    fn rejected_certificate_is_reported_as_a_tls_problem() {
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
        let check = unreachable_check(&server("https://books.example.com/mcp"), error);
        assert_eq!((check.name, check.status), ("TLS", DoctorCheckStatus::Wrong));
        assert!(check.message.contains("the certificate of `books` is rejected"), "{}", check.message);
        assert_eq!(unreachable_check(&server("http://books.example.com/mcp"), error).name, "server");
        assert_eq!(unreachable_check(&server("https://books.example.com/mcp"), "connection refused").name, "server");
    }

    #[test]
    fn full_disk_is_not_reported_as_a_missing_permission() {
        assert_eq!(write_error_fix(ErrorKind::StorageFull), "free some disk space");
        assert!(write_error_fix(ErrorKind::PermissionDenied).starts_with("give the user"));
    }
}
