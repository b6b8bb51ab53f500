//! Chooses the clients to scan and the servers to import.

use anyhow::Result;
use gatelodge_admin::suggest_name;
use gatelodge_clients::ClientProfile;

use super::client_scan::ClientScanEntry;
use crate::cli::InitArgs;
use crate::diagnostic_report::{escape_for_terminal, print_stderr};
use crate::exit_code::UsageError;
use crate::terminal_prompt;

/// Returns the named clients, or all clients if none are named.
pub fn choose_clients(named: &[String]) -> Result<Vec<&'static ClientProfile>, UsageError> {
    if named.is_empty() {
        return Ok(gatelodge_clients::CLIENT_PROFILES.iter().collect());
    }
    let known: Vec<&str> = gatelodge_clients::CLIENT_PROFILES.iter().map(|client| client.id).collect();
    let find = |id: &String| {
        gatelodge_clients::find_client(id).ok_or_else(|| {
            UsageError(format!("there is no client `{}`: {}", escape_for_terminal(id), suggest_name(id, &known)))
        })
    };
    named.iter().map(find).collect()
}

/// Returns the indices of the servers to import, or `None` if none were chosen.
pub fn choose_servers(
    args: &InitArgs,
    scanned: &[ClientScanEntry],
    gateway: &str,
) -> Result<Option<Vec<usize>>, UsageError> {
    let is_importable = |one: &ClientScanEntry| one.named_entry.entry.is_some() && !one.is_gateway_entry(gateway);
    let all = || matching_indices(scanned, |one| is_importable(one) && !one.named_entry.is_disabled);
    if args.all {
        return Ok(Some(all()));
    }
    let mut names = args.servers.clone();
    if names.is_empty() && !scanned.iter().any(is_importable) {
        return Ok(None);
    }
    if names.is_empty() && !terminal_prompt::is_interactive() {
        print_stderr("nothing was changed; choose servers with `--all` or `--servers a,b`");
        print_stderr(
            "`gatelodge init --all --rewrite` moves all of them and changes the clients' files; it asks first, unless you \
             add `--yes`",
        );
        return Ok(None);
    }
    if names.is_empty() {
        let answer = terminal_prompt::read_answer(
            "Which servers should go behind the gateway? (all, none, or names separated by commas) ",
        );
        match answer.as_str() {
            "all" => return Ok(Some(all())),
            "" | "none" => return Ok(None),
            _ => names.extend(answer.split(',').map(|name| name.trim().to_owned())),
        }
    }
    let known: Vec<&str> =
        scanned.iter().filter(|one| is_importable(one)).map(|one| one.named_entry.name.as_str()).collect();
    if let Some(unknown) = names.iter().find(|name| !known.contains(&name.as_str())) {
        return Err(UsageError(format!(
            "no client has a server `{}`: {}",
            escape_for_terminal(unknown),
            suggest_name(unknown, &known)
        )));
    }
    Ok(Some(matching_indices(scanned, |one| is_importable(one) && names.contains(&one.named_entry.name))))
}

fn matching_indices(scanned: &[ClientScanEntry], is_chosen: impl Fn(&ClientScanEntry) -> bool) -> Vec<usize> {
    scanned.iter().enumerate().filter(|(_, one)| is_chosen(one)).map(|(at, _)| at).collect()
}
