//! Clients of this user that reach servers past the gateway.

use anyhow::Result;
use gatelodge_gateway::{UpstreamConfig, UpstreamTransport};

use super::Check;
use crate::app::EffectiveConfig;
use crate::cli::DoctorArgs;
use crate::client_config::{ALL, ClientProfile, ServerEntry, shorten_home};
use crate::commands::connect::target::Peek;
use crate::commands::connect::{home, places};
use crate::commands::init::scan::{Seen, scan_everywhere};
use crate::diagnostic_report::escape_for_terminal;

const NAME: &str = "clients";

/// A finding for each server that a client reaches directly.
pub fn bypassing(args: &DoctorArgs, picture: &EffectiveConfig) -> Result<Vec<Check>> {
    let (Ok(home), Ok(peek)) = (home(args.home.as_deref()), Peek::at(&args.store)) else { return Ok(Vec::new()) };
    let clients: Vec<&'static ClientProfile> = ALL.iter().collect();
    let scan = scan_everywhere(&places(home.clone(), None)?, &clients);
    let gateway = peek.url("");
    let direct: Vec<&Seen> =
        scan.seen.iter().filter(|seen| !seen.found.is_disabled && !seen.leads_here(&gateway)).collect();
    if direct.is_empty() {
        let says = if scan.seen.is_empty() { "none has a server" } else { "none reaches a server past the gateway" };
        return Ok(vec![Check::fine(NAME, says)]);
    }
    Ok(direct.into_iter().map(|seen| told(seen, picture, &shorten_home(&seen.spot.file, &home.0))).collect())
}

fn told(seen: &Seen, picture: &EffectiveConfig, file: &str) -> Check {
    let (client, name) = (seen.spot.client, escape_for_terminal(&seen.found.name));
    let what = format!("{} reaches `{name}` past the gateway, by {}", client.name, escape_for_terminal(file));
    match picture.servers.iter().find(|server| is_same(seen, server)) {
        Some(server) => {
            let fix = format!(
                "`gatelodge connect {} --server {} --write`, then take `{name}` out of the file",
                client.id, server.name
            );
            Check::wrong(NAME, format!("{what}, which has it as `{}`", server.name), fix)
        }
        None => {
            let project =
                seen.spot.project_folder().map(|folder| format!(" --project {}", escape_for_terminal(folder)));
            let project = project.unwrap_or_default();
            let fix =
                format!("`gatelodge init --clients {} --servers {name}{project} --rewrite` moves it behind", client.id);
            Check::warning(NAME, what, fix)
        }
    }
}

/// Whether an entry runs the same program, or asks the same address, as a server of the gateway.
fn is_same(seen: &Seen, server: &UpstreamConfig) -> bool {
    match (&seen.found.entry, &server.transport) {
        (Some(ServerEntry::Remote { url, .. }), UpstreamTransport::Http(http)) => {
            url.trim_end_matches('/') == http.url.to_string().trim_end_matches('/')
        }
        (Some(ServerEntry::Command { argv: words, .. }), UpstreamTransport::Process(child)) => {
            words.split_first().is_some_and(|(program, rest)| *program == child.program && rest == child.arguments)
        }
        _ => false,
    }
}
