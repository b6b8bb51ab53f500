//! `gatelodge pharo`: runs the MCP server for a Pharo image.

mod pharo_screenshot;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use gatelodge_pharo::{PharoImage, PharoServer, PharoSettings, serve_http, serve_stdio};
use gatelodge_server::process_environment;
use tokio::net::TcpListener;

use crate::cli::PharoArgs;
use crate::diagnostic_report;
use crate::exit_code::{CommandExitCode, UsageError};

/// Maximum size of a response from the Pharo image. A result contains the response twice and must stay below the
/// gateway's limit of 64 MiB.
///
/// In the worst case, escaping triples the size of both copies (the two bytes of U+0085 become six), which together
/// with an 8 MiB screenshot in Base64 gives 59 MiB. With `--compat` there is no screenshot, but numbers such as `1e15`
/// are written out in full, which gives at most 61 MiB.
const MAX_IMAGE_RESPONSE_BYTES: usize = 8 << 20;
/// Environment variable that holds the image's port. The interop server in the image reads the same variable.
const PORT_VARIABLE: &str = "PHARO_SIS_PORT";
const DEFAULT_PORT: u16 = 8086;
/// Interval between progress notifications for clients that request them. Clients give up after a minute without any
/// message.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(2);
/// How long running calls may continue after the client closes the connection, which some clients do right after their
/// last request.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the client has to read the last responses after the running calls have ended or timed out.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

pub fn run(args: PharoArgs) -> Result<CommandExitCode> {
    check_loopback(&args)?;
    // A host named `localhost` must resolve to this machine, even with `--beyond-loopback`.
    let may_be_remote = args.beyond_loopback && !is_local_name(&args.host);
    let port = resolve_port(args.port)?;
    let image =
        PharoImage { host: args.host, port, allow_remote: may_be_remote, max_response_bytes: MAX_IMAGE_RESPONSE_BYTES };
    let settings = PharoSettings {
        timeout: args.timeout,
        long_timeout: args.long_timeout,
        progress_interval: PROGRESS_INTERVAL,
        call_drain_timeout: DRAIN_TIMEOUT,
        output_drain_timeout: FLUSH_TIMEOUT,
        read_screenshot: (!may_be_remote).then_some(pharo_screenshot::read_png),
        compat: args.compat,
    };
    let pharo = Arc::new(PharoServer::new(image, settings));
    // One thread: it waits for one image, and starts sooner.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start")?;
    let served = runtime.block_on(async {
        match args.http {
            None => serve_stdio(pharo, tokio::io::stdin(), tokio::io::stdout())
                .await
                .context("cannot read standard input or write standard output"),
            Some(address) => {
                let listener = TcpListener::bind(address).await;
                let listener = listener.with_context(|| format!("cannot listen on {address}"))?;
                diagnostic_report::print_stderr(&format!(
                    "listening on http://{}/mcp; press Ctrl-C to stop",
                    listener.local_addr()?
                ));
                tokio::select! {
                    served = serve_http(pharo, listener, &args.known_as) => served.context("the listener failed"),
                    stopped = gatelodge_server::wait_for_stop_signal() => stopped.map_err(Into::into),
                }
            }
        }
    });
    // Standard input is read on a blocking thread that cannot be woken; running calls have had their time.
    runtime.shutdown_background();
    served.map(|()| CommandExitCode::Success)
}

/// Returns the image's port: `--port`, else the value of the environment variable, else the default.
fn resolve_port(requested: Option<u16>) -> Result<u16, UsageError> {
    // Clients' configurations often set a variable to an empty string.
    let named = || process_environment::find_variable(PORT_VARIABLE).filter(|port| !port.is_empty());
    let Some(text) = requested.is_none().then(named).flatten() else { return Ok(requested.unwrap_or(DEFAULT_PORT)) };
    text.parse().ok().filter(|port| *port > 0).ok_or_else(|| {
        let text = diagnostic_report::escape_for_terminal(&text);
        UsageError(format!(
            "the variable `{PORT_VARIABLE}` is `{text}`, which is not a port; correct it, or use --port"
        ))
    })
}

/// Returns an error if an address is not a loopback address, unless `--beyond-loopback` is given.
fn check_loopback(args: &PharoArgs) -> Result<(), UsageError> {
    if parse_ip(&args.host).is_none() && args.host.contains(|letter: char| !is_host_char(letter)) {
        let host = diagnostic_report::escape_for_terminal(&args.host);
        return Err(UsageError(format!(
            "`{host}` is not a host; --host takes a name or an address, and --port the port"
        )));
    }
    if args.beyond_loopback {
        return Ok(());
    }
    if let Some(address) = args.http.filter(|address| !address.ip().is_loopback()) {
        return Err(UsageError(format!(
            "anyone who can connect to {address} could run code in the image; listen on 127.0.0.1, or use --beyond-loopback"
        )));
    }
    match parse_ip(&args.host) {
        Some(address) if !address.is_loopback() => Err(UsageError(format!(
            "{address} is not this machine, and data sent there can be read on the network; use --beyond-loopback to allow it"
        ))),
        _ => Ok(()),
    }
}

fn is_host_char(letter: char) -> bool {
    letter.is_alphanumeric() || matches!(letter, '-' | '.' | '_')
}

fn parse_ip(host: &str) -> Option<IpAddr> {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host.parse().ok().map(|address: IpAddr| address.to_canonical())
}

/// Returns whether `host` is a loopback address or a `localhost` name. Other names are checked when they are resolved.
fn is_local_name(host: &str) -> bool {
    let name = host.trim_end_matches('.').to_ascii_lowercase();
    parse_ip(host).map_or(name == "localhost" || name.ends_with(".localhost"), |address| address.is_loopback())
}
