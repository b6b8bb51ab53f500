//! `gatelodge calls`: what agents did, each with its why.

mod follow;
mod gather;
mod text;

use anyhow::Result;
use gatelodge_store::CallLogRow;

use self::gather::{Call, Wanted};
use crate::admin_context::{self, StoreMode};
use crate::cli::CallsArgs;
use crate::diagnostic_report::print_stderr;
use crate::exit_code::CommandExitCode;
use crate::stdout_output;

pub fn run(args: CallsArgs) -> Result<CommandExitCode> {
    admin_context::with_store(&args.store, StoreMode::Existing, async |desk| {
        let wanted = Wanted::of(&args);
        let found = gather::newest(desk.stores.ledger.as_ref(), &wanted).await?;
        if found.calls.is_empty() && !args.follow && !args.json {
            print_stderr("there are no such calls");
        }
        found.calls.iter().try_for_each(|call| tell(call, args.json))?;
        if args.follow {
            follow::follow(&desk, &wanted, args.json, found).await?;
        }
        Ok(CommandExitCode::Success)
    })
}

/// Tells a call whole: its first row, and how it ended.
fn tell(call: &Call, json: bool) -> Result<()> {
    tell_row(&CallLogRow { seq: call.row.seq, record: call.merged() }, json)
}

fn tell_row(row: &CallLogRow, json: bool) -> Result<()> {
    if json {
        return stdout_output::print(&stdout_output::json_line(row)?);
    }
    stdout_output::print(&text::text(&row.record))
}
