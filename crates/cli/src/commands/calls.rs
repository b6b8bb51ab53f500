//! `gatelodge calls`: what agents did, each with its why.

mod follow;
mod gather;
mod text;

use anyhow::Result;
use gatelodge_store::CallLogRow;

use self::gather::{Call, Wanted};
use crate::admin_context::{self, StoreMode};
use crate::cli::CallsArgs;
use crate::exit::Exit;
use crate::output;
use crate::report::say;

pub fn run(args: CallsArgs) -> Result<Exit> {
    admin_context::with_store(&args.store, StoreMode::Existing, async |desk| {
        let wanted = Wanted::of(&args);
        let found = gather::newest(desk.stores.ledger.as_ref(), &wanted).await?;
        if found.calls.is_empty() && !args.follow && !args.json {
            say("there are no such calls");
        }
        found.calls.iter().try_for_each(|call| tell(call, args.json))?;
        if args.follow {
            follow::follow(&desk, &wanted, args.json, found).await?;
        }
        Ok(Exit::Fine)
    })
}

/// Tells a call whole: its first row, and how it ended.
fn tell(call: &Call, json: bool) -> Result<()> {
    tell_row(&CallLogRow { seq: call.row.seq, record: call.merged() }, json)
}

fn tell_row(row: &CallLogRow, json: bool) -> Result<()> {
    if json {
        return output::print(&output::json_line(row)?);
    }
    output::print(&text::text(&row.record))
}
