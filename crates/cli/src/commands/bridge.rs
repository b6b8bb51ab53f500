//! `gatelodge bridge`: connects a stdio client to a remote gateway.
//!
//! The bridge is a local gateway that allows everything and stores nothing on disk. The remote gateway enforces the
//! policies.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use gatelodge_admin::server_url;
use gatelodge_gateway::{
    ActivePolicy, GrantServerAccess, PinningSettings, UpstreamConfig, UpstreamHttpConfig, UpstreamTransport,
};
use gatelodge_policy::{DocumentFormat, parse};
use gatelodge_server::{StdioGateway, header_expansion, process_environment};
use gatelodge_store::{EnforcementMode, PolicyVersionNumber, Store};

use crate::cli::BridgeArgs;
use crate::exit_code::{CommandExitCode, UsageError};
use crate::logging;

const UPSTREAM_NAME: &str = "gateway";
const ALLOW_ALL_POLICY: &str =
    r#"{"version":"1","default":"allow","client_requests":{"sampling":"allow","roots":"allow","elicitation":"allow"}}"#;
/// How long call records stay in memory. The permanent call log is kept by the remote gateway.
const RECORD_RETENTION: Duration = Duration::from_secs(60);

/// Maximum size of a token file, far above the length of a token. A larger file is assumed not to be a token file.
const MAX_TOKEN_FILE_BYTES: u64 = 4_096;
/// File mode bits that give access to the group or to other users.
const GROUP_AND_OTHER_MODE_BITS: u32 = 0o077;

pub fn run(args: BridgeArgs) -> Result<CommandExitCode> {
    logging::start_logging(&args.log)?;
    let url = server_url::parse_server_url(&args.url)
        .map_err(|error| UsageError(format!("{}; {}", error.message(), error.help())))?;
    let token = read_token(&args)?;
    let token = header_expansion::expand_header("authorization", "Bearer ${TOKEN}", &|_| Some(token.clone()))
        .map_err(|_| UsageError("cannot send the token in a header: it must be one line of plain text".to_owned()))?;
    let policy = parse(ALLOW_ALL_POLICY.as_bytes(), DocumentFormat::Json)
        .map_err(|_| anyhow::anyhow!("cannot read the built-in policy"))?;
    let policy = ActivePolicy { name: UPSTREAM_NAME.parse()?, version: PolicyVersionNumber(0), policy };
    let access = GrantServerAccess { policy: Some(Arc::new(policy)), mode: EnforcementMode::Observe };
    // The remote gateway checks pinned definitions; observe mode refuses nothing here.
    let pinning = PinningSettings::default();
    let transport = UpstreamTransport::Http(UpstreamHttpConfig { url, headers: vec![token] });
    let server = UpstreamConfig { name: UPSTREAM_NAME.parse()?, transport, log_arguments: false, pinning };
    let clock = gatelodge_server::system_clock();
    let store = Store::memory(Arc::clone(&clock));
    let call_log = Arc::clone(&store.call_log);
    let local = StdioGateway {
        store,
        clock: Arc::clone(&clock),
        server,
        server_access: access,
        client_label: UPSTREAM_NAME.to_owned(),
    };
    gatelodge_server::run_stdio_gateway(std::future::ready(anyhow::Ok(local)), async {
        loop {
            tokio::time::sleep(RECORD_RETENTION).await;
            if let Ok(before) = clock.now().checked_sub(RECORD_RETENTION) {
                let _ = call_log.prune(before).await;
            }
        }
    })?;
    Ok(CommandExitCode::Success)
}

/// Reads the token from `--token-file`, or from the environment variable named by `--token-env`.
fn read_token(args: &BridgeArgs) -> Result<String, UsageError> {
    if let Some(path) = &args.token_file {
        let token =
            token_from_file(path).map_err(|why| UsageError(format!("token file `{}`: {why}", path.display())))?;
        return Ok(token);
    }
    let variable = crate::diagnostic_report::escape_for_terminal(&args.token_env);
    process_environment::find_variable(&args.token_env).filter(|token| !token.is_empty()).ok_or_else(|| {
        let help = "if the client does not pass variables on, name a file with `--token-file`";
        UsageError(format!("the variable `{variable}` is not set; it must hold the token of a grant; {help}"))
    })
}

/// Reads a token file. Checks the permissions of the opened file, because the file at the path could be replaced
/// between the check and the read.
fn token_from_file(path: &Path) -> Result<String, String> {
    let file = File::open(path).map_err(|error| format!("it cannot be read: {error}"))?;
    let metadata = file.metadata().map_err(|error| format!("its metadata cannot be read: {error}"))?;
    if !metadata.is_file() {
        return Err("it is not a file".to_owned());
    }
    let mode = metadata.mode() & 0o777;
    if mode & GROUP_AND_OTHER_MODE_BITS != 0 {
        let name = gatelodge_clients::quote_for_shell(&path.display().to_string());
        return Err(format!("other users can access it (mode {mode:03o}); restrict it: chmod 600 {name}"));
    }
    let mut text = String::new();
    let read = file.take(MAX_TOKEN_FILE_BYTES + 1).read_to_string(&mut text);
    let length = read.map_err(|error| format!("it cannot be read: {error}"))?;
    match text.trim() {
        "" => Err("it is empty; it must hold the token of a grant".to_owned()),
        token if length as u64 <= MAX_TOKEN_FILE_BYTES && !token.contains(char::is_whitespace) => Ok(token.to_owned()),
        _ => Err("it must hold the token of a grant and nothing else".to_owned()),
    }
}
