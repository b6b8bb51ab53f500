//! `gatelodge audit …`: the verbs.

use anyhow::{Context, Result};
use gatelodge_store::ChainReport;
use serde_json::json;

use crate::admin_context::{self, StoreMode};
use crate::cli::{AuditCommand, AuditLogArg, ExportLogArgs, LogHeadArgs, PruneLogArgs, VerifyLogArgs};
use crate::config::{DURATION_SYNTAX, parse_duration};
use crate::diagnostic_report::{escape_for_terminal, print_stderr};
use crate::exit_code::{CommandExitCode, UsageError};
use crate::stdout_output;

/// Runs a verb of `audit`.
pub fn run(command: AuditCommand) -> Result<CommandExitCode> {
    match command {
        AuditCommand::Verify(args) => verify(args),
        AuditCommand::Export(args) => export(args),
        AuditCommand::Head(args) => head(args),
        AuditCommand::Prune(args) => prune(args),
    }
}

fn verify(args: VerifyLogArgs) -> Result<CommandExitCode> {
    admin_context::with_store(&args.store, StoreMode::Existing, async |desk| {
        let calls = desk.stores.ledger.verify(args.heads.clone()).await?;
        let admin = desk.stores.admin_log.verify(args.admin_head).await?;
        let holds = calls.chain_break.is_none() && admin.chain_break.is_none();
        let is_fine = holds && calls.missing_head_marker.is_none() && admin.missing_head_marker.is_none();
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
        Ok(if is_fine { CommandExitCode::Success } else { CommandExitCode::Findings })
    })
}

fn verification_json(verified: &ChainReport) -> serde_json::Value {
    let chain_break = verified.chain_break.map(|chain_break| chain_break.to_string());
    json!({"rows": verified.rows, "head": verified.head, "broken": chain_break, "missed_head": verified.missing_head_marker})
}

fn verification_text(verified: &ChainReport) -> String {
    let walked = match &verified.chain_break {
        None => format!("holds: {} rows, head {}", verified.rows, verified.head),
        Some(chain_break) => format!("BROKEN after {} good rows: {chain_break}", verified.rows),
    };
    let missed = verified.missing_head_marker.as_ref().map(|note| {
        let note = escape_for_terminal(&note.display().to_string());
        let help = format!("hold it against a head that was kept elsewhere, then remove `{note}`");
        format!("\n           its head was MISSING: nothing tells whether rows at its end were cut off; {help}")
    });
    walked + &missed.unwrap_or_default()
}

fn export(args: ExportLogArgs) -> Result<CommandExitCode> {
    admin_context::with_store(&args.store, StoreMode::Existing, async |desk| {
        let mut after = args.after.unwrap_or_default();
        // A page at a time: a log may be larger than the memory.
        loop {
            let page = match args.log {
                AuditLogArg::Calls => desk.stores.ledger.page_after(after).await?,
                AuditLogArg::Admin => desk.stores.admin_log.page_after(after).await?,
            };
            let Some(last) = page.last() else { return Ok(CommandExitCode::Success) };
            after = last.seq;
            let lines: Vec<String> = page.iter().map(|row| row.to_json_line() + "\n").collect();
            stdout_output::print_raw(&lines.concat())?;
        }
    })
}

fn head(args: LogHeadArgs) -> Result<CommandExitCode> {
    admin_context::with_store(&args.store, StoreMode::Existing, async |desk| {
        let (calls, admin) = (desk.stores.ledger.head().await?, desk.stores.admin_log.head().await?);
        match (args.json, args.log) {
            (true, _) => stdout_output::print_json(&json!({"calls": calls, "admin": admin}))?,
            (false, AuditLogArg::Calls) => stdout_output::print(&format!("{calls}\n"))?,
            (false, AuditLogArg::Admin) => stdout_output::print(&format!("{admin}\n"))?,
        }
        Ok(CommandExitCode::Success)
    })
}

fn prune(args: PruneLogArgs) -> Result<CommandExitCode> {
    let length = parse_duration(&args.older).ok_or_else(|| {
        UsageError(format!("`{}` is not a length of time: write {DURATION_SYNTAX}", escape_for_terminal(&args.older)))
    })?;
    admin_context::with_store(&args.store, StoreMode::Existing, async |desk| {
        let before =
            desk.clock.now().checked_sub(length).map_err(|_| UsageError("that is before time began".to_owned()))?;
        let rows = desk.stores.ledger.prune(before).await?;
        if rows > 0 {
            // The rows are in another file: this entry is a second step. The call log has a row on it of its own.
            let entry = desk.admin_log_entry("audit.prune", "calls", json!({"before": before, "rows": rows}));
            let noted = desk.stores.admin_log.append(entry).await;
            noted.context("the rows are removed, but the admin log could not be written")?;
        }
        if args.json {
            stdout_output::print_json(&json!({"rows": rows, "before": before}))?;
        } else {
            print_stderr(&format!("{rows} rows from before {before} are removed"));
        }
        Ok(CommandExitCode::Success)
    })
}
