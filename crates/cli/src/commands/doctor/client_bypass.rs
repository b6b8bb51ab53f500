//! Checks whether any of the user's clients connect to servers directly, bypassing the gateway.

use anyhow::Result;
use gatelodge_clients::{CLIENT_PROFILES, ClientProfile, ClientServerEntry, shorten_home};
use gatelodge_gateway::{UpstreamConfig, UpstreamTransport};
use gatelodge_server::EffectiveConfig;

use super::DoctorCheckResult;
use crate::cli::DoctorArgs;
use crate::commands::connect::gateway_target::GatewayTarget;
use crate::commands::connect::{home_directory, user_directories};
use crate::commands::init::client_scan::{ClientScanEntry, scan_all_projects};
use crate::diagnostic_report::escape_for_terminal;

const CHECK_NAME: &str = "clients";

/// Returns one check result for each server to which a client connects directly.
pub fn check_bypasses(args: &DoctorArgs, active_config: &EffectiveConfig) -> Result<Vec<DoctorCheckResult>> {
    let (Ok(home), Ok(target)) = (home_directory(args.home.as_deref()), GatewayTarget::load(&args.store)) else {
        return Ok(Vec::new());
    };
    let clients: Vec<&'static ClientProfile> = CLIENT_PROFILES.iter().collect();
    let scan = scan_all_projects(&user_directories(home.clone(), None)?, &clients);
    let gateway = target.server_url("");
    let direct: Vec<&ClientScanEntry> =
        scan.servers.iter().filter(|seen| !seen.named_entry.is_disabled && !seen.is_gateway_entry(&gateway)).collect();
    if direct.is_empty() {
        let message = if scan.servers.is_empty() { "no client has a server" } else { "no client bypasses the gateway" };
        return Ok(vec![DoctorCheckResult::fine(CHECK_NAME, message)]);
    }
    Ok(direct
        .into_iter()
        .map(|seen| bypass_check(seen, active_config, &shorten_home(&seen.location.file, &home.0)))
        .collect())
}

fn bypass_check(seen: &ClientScanEntry, active_config: &EffectiveConfig, file: &str) -> DoctorCheckResult {
    let (client, name) = (seen.location.client, escape_for_terminal(&seen.named_entry.name));
    let what =
        format!("{} reaches `{name}` directly, bypassing the gateway, in {}", client.name, escape_for_terminal(file));
    match active_config.servers.iter().find(|server| is_same_server(seen, server)) {
        Some(server) => {
            let fix = format!(
                "`gatelodge connect {} --server {} --write`, then remove `{name}` from the file",
                client.id, server.name
            );
            DoctorCheckResult::wrong(CHECK_NAME, format!("{what}; the gateway has it as `{}`", server.name), fix)
        }
        None => {
            let project =
                seen.location.project_directory().map(|folder| format!(" --project {}", escape_for_terminal(folder)));
            let project = project.unwrap_or_default();
            let fix = format!(
                "`gatelodge init --clients {} --servers {name}{project} --rewrite` moves it behind the gateway",
                client.id
            );
            DoctorCheckResult::warning(CHECK_NAME, what, fix)
        }
    }
}

/// Returns whether a client's entry has the same command or the same URL as one of the gateway's servers.
fn is_same_server(seen: &ClientScanEntry, server: &UpstreamConfig) -> bool {
    match (&seen.named_entry.entry, &server.transport) {
        (Some(ClientServerEntry::Remote { url, .. }), UpstreamTransport::Http(http)) => {
            url.trim_end_matches('/') == http.url.to_string().trim_end_matches('/')
        }
        (Some(ClientServerEntry::Command { argv: words, .. }), UpstreamTransport::Process(child)) => {
            words.split_first().is_some_and(|(program, rest)| *program == child.program && rest == child.arguments)
        }
        _ => false,
    }
}
