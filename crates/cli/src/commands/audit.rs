//! `gatelodge audit …`: verifies, exports and prunes the call log and the admin log.

use anyhow::Result;
use gatelodge_admin::{PruneCallsError, PrunedCalls};
use gatelodge_server::config::{DURATION_SYNTAX, parse_duration};
use gatelodge_store::ChainReport;
use serde_json::json;

use crate::cli::{AuditChainHeadArgs, AuditLogChoice, AuditSubcommand, ExportLogArgs, PruneLogArgs, VerifyLogArgs};
use crate::commands::time_text::local_time;
use crate::diagnostic_report::{count_noun, escape_for_terminal, print_stderr};
use crate::exit_code::{CommandExitCode, UsageError};
use crate::stdout_output;
use crate::store_command_context::{self, StoreCreationMode};

/// Runs one `audit` subcommand.
pub fn run(command: AuditSubcommand) -> Result<CommandExitCode> {
    match command {
        AuditSubcommand::Verify(args) => verify(args),
        AuditSubcommand::Export(args) => export(args),
        AuditSubcommand::Head(args) => head(args),
        AuditSubcommand::Prune(args) => prune(args),
    }
}

fn verify(args: VerifyLogArgs) -> Result<CommandExitCode> {
    store_command_context::with_store(&args.store, StoreCreationMode::Existing, async |ctx| {
        let calls = ctx.stores.call_log.verify(args.heads.clone()).await?;
        let admin = ctx.stores.admin_log.verify(args.admin_head).await?;
        let holds = calls.chain_break.is_none() && admin.chain_break.is_none();
        let is_intact = holds && calls.missing_head_marker.is_none() && admin.missing_head_marker.is_none();
        if args.json {
            stdout_output::print_json(
                &json!({"holds": holds, "calls": verification_json(&calls), "admin": verification_json(&admin)}),
            )?;
        } else {
            stdout_output::print(&format!(
                "call log   {}\nadmin log  {}\n",
                verification_text(&calls),
                verification_text(&admin)
            ))?;
        }
        Ok(if is_intact { CommandExitCode::Success } else { CommandExitCode::Findings })
    })
}

fn verification_json(verified: &ChainReport) -> serde_json::Value {
    let chain_break = verified.chain_break.map(|chain_break| chain_break.to_string());
    json!({"rows": verified.rows, "head": verified.head, "broken": chain_break, "missed_head": verified.missing_head_marker})
}

fn verification_text(verified: &ChainReport) -> String {
    let chain = match &verified.chain_break {
        None => format!("intact: {}, head {}", count_noun(verified.rows as usize, "row"), verified.head),
        Some(chain_break) => format!("BROKEN after {} good rows: {chain_break}", verified.rows),
    };
    let missing = verified.missing_head_marker.as_ref().map(|marker| {
        let marker = escape_for_terminal(&marker.display().to_string());
        let help = format!("verify it against a head stored elsewhere, then remove `{marker}`");
        format!("\n           its head file was MISSING, so rows may have been cut off at its end; {help}")
    });
    chain + &missing.unwrap_or_default()
}

fn export(args: ExportLogArgs) -> Result<CommandExitCode> {
    store_command_context::with_store(&args.store, StoreCreationMode::Existing, async |ctx| {
        let mut after = args.after.unwrap_or_default();
        // One page at a time: a log may be larger than memory.
        loop {
            let page = match args.log {
                AuditLogChoice::Calls => ctx.stores.call_log.page_after(after).await?,
                AuditLogChoice::Admin => ctx.stores.admin_log.page_after(after).await?,
            };
            let Some(last) = page.last() else { return Ok(CommandExitCode::Success) };
            after = last.seq;
            let lines: Vec<String> = page.iter().map(|row| row.to_json_line() + "\n").collect();
            stdout_output::print_raw(&lines.concat())?;
        }
    })
}

fn head(args: AuditChainHeadArgs) -> Result<CommandExitCode> {
    store_command_context::with_store(&args.store, StoreCreationMode::Existing, async |ctx| {
        let (calls, admin) = (ctx.stores.call_log.head().await?, ctx.stores.admin_log.head().await?);
        match (args.json, args.log) {
            (true, _) => stdout_output::print_json(&json!({"calls": calls, "admin": admin}))?,
            (false, AuditLogChoice::Calls) => stdout_output::print(&format!("{calls}\n"))?,
            (false, AuditLogChoice::Admin) => stdout_output::print(&format!("{admin}\n"))?,
        }
        Ok(CommandExitCode::Success)
    })
}

fn prune(args: PruneLogArgs) -> Result<CommandExitCode> {
    let length = parse_duration(&args.older).ok_or_else(|| {
        UsageError(format!("`{}` is not a duration: write {DURATION_SYNTAX}", escape_for_terminal(&args.older)))
    })?;
    store_command_context::with_store(&args.store, StoreCreationMode::Existing, async |ctx| {
        let pruned = ctx.administration().prune_calls(length).await;
        let PrunedCalls { rows, before } = pruned.map_err(prune_calls_error)?;
        if args.json {
            stdout_output::print_json(&json!({"rows": rows, "before": before}))?;
        } else {
            print_stderr(&format!("removed {} from before {}", count_noun(rows as usize, "row"), local_time(before)));
        }
        Ok(CommandExitCode::Success)
    })
}

fn prune_calls_error(error: PruneCallsError) -> anyhow::Error {
    let text = error.to_string();
    match error {
        PruneCallsError::DateOutOfRange => UsageError(text).into(),
        PruneCallsError::NotLogged(cause) => anyhow::Error::new(cause).context(text),
        PruneCallsError::Store(error) => error.into(),
    }
}
