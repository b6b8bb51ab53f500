//! `policy list`, `policy show` and `policy versions`: print stored policies.

use anyhow::Result;
use gatelodge_store::{PolicyVersionNumber, StoredPolicy};
use serde_json::{Value, json};

use super::parse_policy_name;
use crate::cli::{ListArgs, NamedItemArgs, ShowPolicyArgs};
use crate::commands::time_text::local_time;
use crate::diagnostic_report::{escape_for_terminal, print_stderr};
use crate::exit_code::CommandExitCode;
use crate::stdout_output;
use crate::store_command_context::{self, StoreCreationMode};

pub fn list_policies(args: ListArgs) -> Result<CommandExitCode> {
    store_command_context::with_store(&args.store, StoreCreationMode::Existing, async |ctx| {
        let stored = ctx.stores.policies.list().await?;
        let entries = ctx.config_entries();
        let mut configured: Vec<&str> = entries.policies.iter().map(|policy| policy.name.as_str()).collect();
        configured.sort_unstable();
        let stored_only = stored.iter().filter(|policy| !configured.contains(&policy.name.as_str()));
        if args.json {
            let file = configured.iter().map(|name| json!({"name": name, "from": "file"}));
            let store = stored_only.map(|policy| {
                json!({"name": policy.name, "version": policy.version, "from": "store",
                       "created_at": policy.created_at, "created_by": policy.created_by})
            });
            stdout_output::print_json(&file.chain(store).collect::<Vec<Value>>())?;
            return Ok(CommandExitCode::Success);
        }
        let file = configured.iter().map(|name| vec![(*name).to_owned(), "file".to_owned()]);
        let store = stored_only.map(|policy| {
            let by = format!("stored {} by {}", local_time(policy.created_at), escape_for_terminal(&policy.created_by));
            vec![policy.name.to_string(), format!("version {}", policy.version), by]
        });
        let rows: Vec<_> = file.chain(store).collect();
        if rows.is_empty() {
            print_stderr("there are no policies; store one with `gatelodge policy put NAME FILE`");
        }
        stdout_output::print(&stdout_output::format_table(&rows))?;
        Ok(CommandExitCode::Success)
    })
}

pub fn show_policy(args: ShowPolicyArgs) -> Result<CommandExitCode> {
    let name = parse_policy_name(&args.name)?;
    store_command_context::with_store(&args.store, StoreCreationMode::Existing, async |ctx| {
        if ctx.config_entries().policies.iter().any(|policy| policy.name == name) {
            return Err(store_command_context::defined_in_file_error("policy", name.as_str()));
        }
        let policy = ctx.stores.policies.get(&name, args.version.map(PolicyVersionNumber)).await?;
        if args.json {
            stdout_output::print_json(&policy)?
        } else {
            stdout_output::print(&policy.text)?
        }
        Ok(CommandExitCode::Success)
    })
}

pub fn list_versions(args: NamedItemArgs) -> Result<CommandExitCode> {
    let name = parse_policy_name(&args.name)?;
    store_command_context::with_store(&args.store, StoreCreationMode::Existing, async |ctx| {
        let versions = ctx.stores.policies.versions(&name).await?;
        if args.json {
            stdout_output::print_json(&versions.iter().map(version_json).collect::<Vec<_>>())?;
            return Ok(CommandExitCode::Success);
        }
        let row = |policy: &StoredPolicy| {
            let restores = policy.restores.map(|old| format!("restores version {old}")).unwrap_or_default();
            let by = escape_for_terminal(&policy.created_by);
            vec![format!("version {}", policy.version), local_time(policy.created_at), by, restores]
        };
        stdout_output::print(&stdout_output::format_table(&versions.iter().map(row).collect::<Vec<_>>()))?;
        Ok(CommandExitCode::Success)
    })
}

/// Describes a policy version for `--json`, without the policy itself.
fn version_json(policy: &StoredPolicy) -> Value {
    json!({"version": policy.version, "restores": policy.restores, "created_at": policy.created_at,
           "created_by": policy.created_by})
}
