//! `gatelodge pharo`: the MCP server for a Pharo image.

mod screenshot;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use gatelodge_pharo::{Pharo, PharoImage, Settings, serve_http, serve_stdio};
use tokio::net::TcpListener;

use crate::cli::PharoArgs;
use crate::exit_code::{CommandExitCode, UsageError};
use crate::{diagnostic_report, process_environment};

/// The most bytes of an image's answer. A result carries it twice, and a gateway takes 64 MiB. At worst both are three
/// times as long, where two bytes (U+0085) are escaped by six, and a picture of 8 MiB comes on top, in Base64: 59 MiB.
/// With `--compat` there is no picture, and `1e15` is written out: 61 MiB.
const MAX_IMAGE_RESPONSE_BYTES: usize = 8 << 20;
/// The interop server in the image reads the same one.
const PORT_VARIABLE: &str = "PHARO_SIS_PORT";
const DEFAULT_PORT: u16 = 8086;
/// How often a caller who wants it hears that a call is under way; clients give up after a minute of silence.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(2);
/// Time for calls under way when the client has closed its end: some close it right after their last request.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);
/// Time for the client to read the last answers after that.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

pub fn run(args: PharoArgs) -> Result<CommandExitCode> {
    check_loopback(&args)?;
    // A host that is called this machine must be this machine, whoever may reach the server itself.
    let may_be_remote = args.beyond_loopback && !is_local_name(&args.host);
    let port = resolve_port(args.port)?;
    let image =
        PharoImage { host: args.host, port, allow_remote: may_be_remote, max_response_bytes: MAX_IMAGE_RESPONSE_BYTES };
    let settings = Settings {
        time: args.timeout,
        long_time: args.long_timeout,
        beat: PROGRESS_INTERVAL,
        last_calls: DRAIN_TIMEOUT,
        last_words: FLUSH_TIMEOUT,
        read_picture: (!may_be_remote).then_some(screenshot::read_png),
        is_compat: args.compat,
    };
    let pharo = Arc::new(Pharo::new(image, settings));
    // One thread: it waits for one image, and starts sooner.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start")?;
    let served = runtime.block_on(async {
        match args.http {
            None => serve_stdio(pharo, tokio::io::stdin(), tokio::io::stdout()).await.context("a stream failed"),
            Some(address) => {
                let listener = TcpListener::bind(address).await;
                let listener = listener.with_context(|| format!("cannot listen at {address}"))?;
                diagnostic_report::print_stderr(&format!(
                    "listening at http://{}/mcp; stop it with Ctrl-C",
                    listener.local_addr()?
                ));
                tokio::select! {
                    served = serve_http(pharo, listener, &args.known_as) => served.context("the listener failed"),
                    stopped = crate::app::wait_for_stop_signal() => stopped,
                }
            }
        }
    });
    // Standard input is read on a thread that nobody can wake; what is under way has had its time.
    runtime.shutdown_background();
    served.map(|()| CommandExitCode::Success)
}

/// The port: what was asked for, what the image's own variable says, or the usual one.
fn resolve_port(asked: Option<u16>) -> Result<u16, UsageError> {
    // Clients' configurations often set a variable to nothing.
    let named = || process_environment::find_variable(PORT_VARIABLE).filter(|port| !port.is_empty());
    let Some(text) = asked.is_none().then(named).flatten() else { return Ok(asked.unwrap_or(DEFAULT_PORT)) };
    text.parse().ok().filter(|port| *port > 0).ok_or_else(|| {
        let text = diagnostic_report::escape_for_terminal(&text);
        UsageError(format!("the variable `{PORT_VARIABLE}` is `{text}`, which is no port; correct it, or say --port"))
    })
}

/// What lies beyond this machine must be asked for.
fn check_loopback(args: &PharoArgs) -> Result<(), UsageError> {
    if parse_ip(&args.host).is_none() && args.host.contains(|letter: char| !is_host_char(letter)) {
        let host = diagnostic_report::escape_for_terminal(&args.host);
        return Err(UsageError(format!("`{host}` is no host; --host takes a name or an address, and --port the port")));
    }
    if args.beyond_loopback {
        return Ok(());
    }
    if let Some(address) = args.http.filter(|address| !address.ip().is_loopback()) {
        return Err(UsageError(format!(
            "anybody who reaches {address} could run code in the image; listen at 127.0.0.1, or say --beyond-loopback"
        )));
    }
    match parse_ip(&args.host) {
        Some(address) if !address.is_loopback() => Err(UsageError(format!(
            "{address} is not this machine, and what is sent there can be read on the way; say --beyond-loopback if it is meant"
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

/// Whether a host is this machine by what it is called. Where another name leads is seen when it is asked.
fn is_local_name(host: &str) -> bool {
    let name = host.trim_end_matches('.').to_ascii_lowercase();
    parse_ip(host).map_or(name == "localhost" || name.ends_with(".localhost"), |address| address.is_loopback())
}
