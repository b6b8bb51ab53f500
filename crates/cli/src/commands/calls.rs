//! `gatelodge calls`: what agents did, each with its why.

mod follow;
mod gather;
mod text;

use anyhow::Result;
use gatelodge_store::Row;

use self::gather::{Call, Wanted};
use crate::cli::CallsArgs;
use crate::desk::{self, Need};
use crate::exit::Exit;
use crate::output;
use crate::report::say;

pub fn run(args: CallsArgs) -> Result<Exit> {
    desk::at(&args.store, Need::There, async |desk| {
        let wanted = Wanted::of(&args);
        let found = gather::newest(desk.stores.ledger.as_ref(), &wanted).await?;
        if found.calls.is_empty() && !args.follow && !args.json {
            say("there are no such calls");
        }
        show(&found.calls, args.json)?;
        if args.follow {
            follow::follow(&desk, &wanted, args.json, found).await?;
        }
        Ok(Exit::Fine)
    })
}

/// Shows calls. Programs get their rows as they are kept, in the order of the log.
fn show(calls: &[Call], json: bool) -> Result<()> {
    if !json {
        return calls.iter().try_for_each(tell);
    }
    let mut rows: Vec<&Row> =
        calls.iter().flat_map(|call| [Some(&call.row), call.outcome.as_ref()]).flatten().collect();
    rows.sort_by_key(|row| row.seq);
    rows.into_iter().try_for_each(|row| tell_row(row, json))
}

fn tell(call: &Call) -> Result<()> {
    output::print(&text::text(&call.merged()))
}

fn tell_row(row: &Row, json: bool) -> Result<()> {
    if json {
        return output::print(&format!("{}\n", serde_json::to_string(row)?));
    }
    output::print(&text::text(&row.record))
}
