//! `gatelodge pharo`: the MCP server for a Pharo image.

mod screen;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use gatelodge_pharo::{Image, Pharo, Settings, serve_http, serve_lines};
use tokio::net::TcpListener;

use crate::cli::PharoArgs;
use crate::exit::{Exit, Usage};
use crate::report;

/// The most bytes of an image's answer. A result carries it twice, and a gateway takes 64 MiB.
const MAX_ANSWER: usize = 16 << 20;
/// How often a caller who wants it hears that a call is under way; clients give up after a minute of silence.
const BEAT: Duration = Duration::from_secs(2);

pub fn run(args: PharoArgs) -> Result<Exit> {
    check(&args)?;
    let image = Image { host: args.host, port: args.port, may_be_remote: args.beyond_loopback, max_bytes: MAX_ANSWER };
    let settings = Settings {
        time: args.timeout,
        long_time: args.long_timeout,
        beat: BEAT,
        read_picture: (!args.beyond_loopback).then_some(screen::read),
        is_compat: args.compat,
    };
    let pharo = Arc::new(Pharo::new(image, settings));
    // One thread: it waits for one image, and starts sooner.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start")?;
    runtime.block_on(async {
        match args.http {
            None => serve_lines(pharo, tokio::io::stdin(), tokio::io::stdout()).await.context("a stream failed"),
            Some(address) => {
                let listener = TcpListener::bind(address).await;
                let listener = listener.with_context(|| format!("cannot listen at {address}"))?;
                report::say(&format!("listening at http://{}/mcp; stop it with Ctrl-C", listener.local_addr()?));
                tokio::select! {
                    served = serve_http(pharo, listener, &args.known_as) => served.context("the listener failed"),
                    stopped = crate::wire::told_to_stop() => stopped,
                }
            }
        }
    })?;
    // Standard input is read on a thread that nobody can wake; what is under way has had its time.
    runtime.shutdown_background();
    Ok(Exit::Fine)
}

/// What lies beyond this machine must be asked for.
fn check(args: &PharoArgs) -> Result<(), Usage> {
    if args.beyond_loopback {
        return Ok(());
    }
    if let Some(address) = args.http.filter(|address| !address.ip().is_loopback()) {
        return Err(Usage(format!(
            "anybody who reaches {address} could run code in the image; listen at 127.0.0.1, or say --beyond-loopback"
        )));
    }
    let host = args.host.trim_start_matches('[').trim_end_matches(']');
    match host.parse::<IpAddr>() {
        Ok(address) if !address.to_canonical().is_loopback() => Err(Usage(format!(
            "{address} is not this machine, and what is sent there can be read on the way; say --beyond-loopback if it is meant"
        ))),
        _ => Ok(()),
    }
}
