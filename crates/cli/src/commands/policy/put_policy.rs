//! `policy put` and `policy rollback`: store a new version of a policy and list the counters that it resets.

use anyhow::Result;
use gatelodge_admin::{CounterChange, NewPolicyVersion, PutPolicyError, PutPolicyOutcome};
use gatelodge_policy::{DocumentFormat, Severity, lint};
use gatelodge_server::input_file;
use gatelodge_store::PolicyVersionNumber;
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
        // Without a version, so that an unknown policy is not reported as an unknown version.
        ctx.stores.policies.get(&name, None).await?;
        let old = ctx.stores.policies.get(&name, Some(PolicyVersionNumber(args.version))).await?;
        let format = if old.is_yaml { DocumentFormat::Yaml } else { DocumentFormat::Json };
        let new_version = NewPolicyVersion { name, text: old.text, format, restores: Some(old.version) };
        store_version(&ctx, new_version, "policy.rollback", args.json).await
    })
}

async fn store_version(
    ctx: &StoreCommandContext,
    new_version: NewPolicyVersion,
    action: &str,
    json: bool,
) -> Result<CommandExitCode> {
    let (name, restores) = (new_version.name.clone(), new_version.restores);
    let outcome = ctx.administration().put_policy(new_version, action).await;
    let (version, counters) = match outcome.map_err(put_policy_error)? {
        PutPolicyOutcome::Unchanged(version) => {
            if json {
                let result = json!({"name": name, "version": version, "unchanged": true, "counters": []});
                stdout_output::print_json(&result)?;
            } else {
                print_stderr(&format!("policy `{name}` stays at version {version}: the text is the same"));
            }
            return Ok(CommandExitCode::Success);
        }
        PutPolicyOutcome::Stored { version, counters } => (version, counters),
    };
    let changes: Vec<String> = counters.iter().map(counter_change_text).collect();
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

/// Builds the error for a policy version that was not stored.
pub fn put_policy_error(error: PutPolicyError) -> anyhow::Error {
    match error {
        PutPolicyError::DefinedInFile(_) | PutPolicyError::Invalid(_) => UsageError(error.to_string()).into(),
        PutPolicyError::Store(error) => error.into(),
    }
}

fn counter_change_text(change: &CounterChange) -> String {
    match change {
        CounterChange::Reset { counter, differences } => {
            let parts: Vec<String> = differences
                .iter()
                .map(|difference| format!("its {} was {} and is {}", difference.part, difference.old, difference.new))
                .collect();
            format!("counter `{}` starts at zero: {}", escape_for_terminal(counter), parts.join(", "))
        }
        CounterChange::New(counter) => {
            format!("counter `{}` is new and starts at zero", escape_for_terminal(counter))
        }
        CounterChange::Unused(counter) => format!("counter `{}` is no longer used", escape_for_terminal(counter)),
    }
}
