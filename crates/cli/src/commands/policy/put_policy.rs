//! `policy put` and `policy rollback`: store a new version of a policy and list the counters that it resets.

use anyhow::Result;
use gatelodge_policy::{CounterIdentity, DocumentFormat, Policy, Severity, lint, parse};
use gatelodge_server::{input_file, process_environment};
use gatelodge_store::{PolicyName, PolicyVersionNumber, StoreError, StoredPolicy};
use serde_json::json;

use super::parse_policy_name;
use crate::cli::{PutPolicyArgs, RollbackPolicyArgs};
use crate::diagnostic_report::{self, escape_for_terminal, print_stderr};
use crate::exit_code::{CommandExitCode, ExitError, UsageError};
use crate::stdout_output;
use crate::store_command_context::{self, StoreCommandContext, StoreCreationMode};

pub fn run(args: PutPolicyArgs) -> Result<CommandExitCode> {
    let name = parse_policy_name(&args.name)?;
    let source = input_file::read_source(&args.file)?;
    let format = source.policy_format(args.format.map(Into::into));
    let found = lint(&source.text, format, None);
    diagnostic_report::print_diagnostics(&source, &found);
    if found.iter().any(|error| error.severity == Severity::Error) {
        return Err(ExitError(CommandExitCode::Findings, "the policy has errors; nothing was stored".to_owned()).into());
    }
    let Ok(text) = String::from_utf8(source.text) else {
        return Err(UsageError("the policy is not UTF-8".into()).into());
    };
    store_command_context::with_store(&args.store, StoreCreationMode::CreateIfMissing, async |ctx| {
        let new_version = NewPolicyVersion { name, text, format, restores: None };
        store_version(&ctx, new_version, "policy.put", args.json).await
    })
}

pub fn rollback(args: RollbackPolicyArgs) -> Result<CommandExitCode> {
    let name = parse_policy_name(&args.name)?;
    store_command_context::with_store(&args.store, StoreCreationMode::Existing, async |ctx| {
        let old = ctx.stores.policies.get(&name, Some(PolicyVersionNumber(args.version))).await?;
        let format = if old.is_yaml { DocumentFormat::Yaml } else { DocumentFormat::Json };
        let new_version = NewPolicyVersion { name, text: old.text, format, restores: Some(old.version) };
        store_version(&ctx, new_version, "policy.rollback", args.json).await
    })
}

/// A policy version that is about to be stored.
struct NewPolicyVersion {
    name: PolicyName,
    text: String,
    format: DocumentFormat,
    restores: Option<PolicyVersionNumber>,
}

async fn store_version(
    ctx: &StoreCommandContext,
    new_version: NewPolicyVersion,
    action: &str,
    json: bool,
) -> Result<CommandExitCode> {
    let NewPolicyVersion { name, text, format, restores } = new_version;
    if ctx.config_entries().policies.iter().any(|policy| policy.name == name) {
        return Err(store_command_context::defined_in_file_error("policy", name.as_str()));
    }
    let new = parse(text.as_bytes(), format)
        .map_err(|_| UsageError(format!("policy `{name}` does not load with this build; nothing was stored")))?;
    let old = match ctx.stores.policies.get(&name, None).await {
        Ok(old) => Some(old),
        Err(StoreError::NotFound(_)) => None,
        Err(error) => return Err(error.into()),
    };
    if let Some(same) = old.as_ref().filter(|old| old.text == text && old.is_yaml == (format == DocumentFormat::Yaml)) {
        if json {
            let version = same.version;
            stdout_output::print_json(&json!({"name": name, "version": version, "unchanged": true, "counters": []}))?;
        } else {
            print_stderr(&format!("policy `{name}` stays at version {}: the text is the same", same.version));
        }
        return Ok(CommandExitCode::Success);
    }
    let changes = old.as_ref().map(|old| counter_changes(old, &new)).unwrap_or_default();
    let policy = StoredPolicy {
        name: name.clone(),
        version: PolicyVersionNumber(0),
        text,
        is_yaml: format == DocumentFormat::Yaml,
        restores,
        created_at: ctx.clock.now(),
        created_by: process_environment::current_user(),
    };
    let entry = ctx.admin_log_entry(action, name.as_str(), json!({"restores": restores}));
    let version = ctx.stores.policies.put(policy, entry).await?;
    if json {
        stdout_output::print_json(&json!({
            "name": name, "version": version, "restores": restores, "unchanged": false, "counters": changes
        }))?;
        return Ok(CommandExitCode::Success);
    }
    let restored = restores.map(|old| format!(", which restores version {old}")).unwrap_or_default();
    print_stderr(&format!("policy `{name}` is now at version {version}{restored}"));
    changes.iter().for_each(|change| print_stderr(&format!("  {change}")));
    Ok(CommandExitCode::Success)
}

/// Lists the counters that the new version resets, adds or no longer uses.
fn counter_changes(old: &StoredPolicy, new: &Policy) -> Vec<String> {
    let format = if old.is_yaml { DocumentFormat::Yaml } else { DocumentFormat::Json };
    let Ok(old) = parse(old.text.as_bytes(), format) else { return Vec::new() };
    let (old, new) = (old.counters(), new.counters());
    let mut changes = Vec::new();
    for shape in new.iter().filter(|shape| !old.contains(shape)) {
        let name = escape_for_terminal(&shape.name);
        match old.iter().find(|old| old.name == shape.name) {
            Some(before) => {
                changes.push(format!("counter `{name}` starts at zero: {}", counter_difference(before, shape)))
            }
            None => changes.push(format!("counter `{name}` is new and starts at zero")),
        }
    }
    for shape in old.iter().filter(|shape| !new.iter().any(|new| new.name == shape.name)) {
        changes.push(format!("counter `{}` is no longer used", escape_for_terminal(&shape.name)));
    }
    changes
}

fn counter_difference(before: &CounterIdentity, after: &CounterIdentity) -> String {
    let parts = [
        ("window", before.window.to_string(), after.window.to_string()),
        ("scope", before.scope.as_str().to_owned(), after.scope.as_str().to_owned()),
        ("align", before.align.as_str().to_owned(), after.align.as_str().to_owned()),
    ];
    let changed = parts.iter().filter(|(_, before, after)| before != after);
    changed
        .map(|(what, before, after)| format!("its {what} was {before} and is {after}"))
        .collect::<Vec<_>>()
        .join(", ")
}
