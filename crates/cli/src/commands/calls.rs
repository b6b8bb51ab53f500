//! `gatelodge calls`: prints logged calls, with the reason for each refusal.

mod call_query;
mod call_text;
mod follow_calls;

use anyhow::Result;
use gatelodge_store::CallLogRow;

use self::call_query::{CallQuery, LoggedCall};
use crate::cli::CallsArgs;
use crate::diagnostic_report::print_stderr;
use crate::exit_code::CommandExitCode;
use crate::stdout_output;
use crate::store_command_context::{self, StoreCreationMode};

pub fn run(args: CallsArgs) -> Result<CommandExitCode> {
    store_command_context::with_store(&args.store, StoreCreationMode::Existing, async |ctx| {
        let query = CallQuery::of(&args);
        let found = call_query::newest_calls(ctx.stores.call_log.as_ref(), &query).await?;
        if found.calls.is_empty() && !args.follow && !args.json {
            print_stderr("no matching calls");
        }
        found.calls.iter().try_for_each(|call| print_call(call, args.json))?;
        if args.follow {
            follow_calls::follow_calls(&ctx, &query, args.json, found).await?;
        }
        Ok(CommandExitCode::Success)
    })
}

/// Prints a call as a single record that combines its intent row and its outcome row.
fn print_call(call: &LoggedCall, json: bool) -> Result<()> {
    print_row(&CallLogRow { seq: call.row.seq, record: call.merged_record() }, json)
}

fn print_row(row: &CallLogRow, json: bool) -> Result<()> {
    if json {
        return stdout_output::print(&stdout_output::json_line(row)?);
    }
    stdout_output::print(&call_text::call_text(&row.record))
}
