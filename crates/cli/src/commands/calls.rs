//! `gatelodge calls`: what agents did, each with its why.

use std::time::Duration;

use anyhow::Result;
use gatelodge_store::{Filter, Kind, Outcome, Record, Row};

use crate::cli::CallsArgs;
use crate::desk::{self, Desk, Need};
use crate::exit::Exit;
use crate::output;
use crate::report::{say, shown};

/// How often a followed log is looked at.
const LOOK: Duration = Duration::from_millis(250);
/// A call has up to two rows, and handshakes and lists stand between; so many more rows are looked at.
const ROWS_PER_CALL: usize = 16;
/// A call whose outcome is so long in coming is shown without.
const PATIENCE: u32 = 8;

pub fn run(args: CallsArgs) -> Result<Exit> {
    desk::at(&args.store, Need::There, async |desk| {
        let (rows, mut seen) = rows(&desk, &args, None).await?;
        let calls = merged(rows, &args);
        let skipped = if args.json { 0 } else { calls.len().saturating_sub(args.last) };
        if calls.is_empty() && !args.follow && !args.json {
            say("there are no such calls");
        }
        calls.iter().skip(skipped).try_for_each(|call| tell(call, args.json))?;
        if args.follow {
            follow(&desk, &args, &mut seen).await?;
        }
        Ok(Exit::Fine)
    })
}

/// Shows calls as they come, until interrupted.
async fn follow(desk: &Desk, args: &CallsArgs, seen: &mut u64) -> Result<()> {
    let mut looks = tokio::time::interval(LOOK);
    let mut waited = 0;
    loop {
        tokio::select! {
            _ = looks.tick() => {}
            interrupted = tokio::signal::ctrl_c() => return Ok(interrupted?),
        }
        let (rows, last) = rows(desk, args, Some(*seen)).await?;
        let is_open = |row: &Row| row.record.kind == Kind::Intent && !has_outcome(&rows, row);
        // The outcome is a moment behind; the two are shown together.
        if rows.iter().any(is_open) && waited < PATIENCE {
            waited += 1;
            continue;
        }
        (waited, *seen) = (0, last.max(*seen));
        merged(rows, args).iter().try_for_each(|call| tell(call, args.json))?;
    }
}

/// The rows that were asked for, and the number of the last that was looked at.
///
/// An outcome has only the call's id: where other facts are asked for, it is found by its intent.
async fn rows(desk: &Desk, args: &CallsArgs, after: Option<u64>) -> Result<(Vec<Row>, u64)> {
    let ledger = &desk.stores.ledger;
    let mut rows = ledger.rows(filter(args, after)).await?;
    let last = rows.last().map(|row| row.seq).unwrap_or_default();
    let asks_for_facts = args.grant.is_some() || args.server.is_some() || args.tool.is_some() || args.refused;
    if asks_for_facts {
        rows.retain(|row| row.record.kind != Kind::Outcome);
        let sent: Vec<_> =
            rows.iter().filter(|row| row.record.kind == Kind::Intent).map(|row| row.record.call).collect();
        for call in sent {
            let of_call = Filter { call: Some(call.to_string()), limit: usize::MAX, ..Filter::default() };
            let found = ledger.rows(of_call).await?;
            rows.extend(found.into_iter().filter(|row| row.record.kind == Kind::Outcome));
        }
        rows.sort_by_key(|row| row.seq);
    }
    Ok((rows, last))
}

fn has_outcome(rows: &[Row], intent: &Row) -> bool {
    rows.iter().any(|row| row.record.kind == Kind::Outcome && row.record.call == intent.record.call)
}

fn filter(args: &CallsArgs, after: Option<u64>) -> Filter {
    Filter {
        after,
        grant: args.grant.clone(),
        server: args.server.clone(),
        target: args.tool.clone(),
        call: args.call.clone(),
        refused: args.refused,
        limit: if after.is_some() { usize::MAX } else { args.last.saturating_mul(ROWS_PER_CALL) },
    }
}

/// One entry for each call: its intent together with its outcome. For programs the rows stay as they are.
fn merged(rows: Vec<Row>, args: &CallsArgs) -> Vec<Row> {
    let mut calls: Vec<Row> = Vec::new();
    for row in rows {
        let is_noise = row.record.kind == Kind::Passed && !args.all;
        if is_noise {
            continue;
        }
        let is_outcome = row.record.kind == Kind::Outcome && !args.json;
        let intent = calls.iter_mut().rev().find(|call| is_outcome && call.record.call == row.record.call);
        match intent {
            Some(call) => settle(&mut call.record, row.record),
            None => calls.push(row),
        }
    }
    calls
}

fn settle(call: &mut Record, outcome: Record) {
    call.outcome = outcome.outcome;
    call.timings = outcome.timings;
    if outcome.code.is_some() {
        (call.code, call.message) = (outcome.code, outcome.message);
    }
}

fn tell(row: &Row, json: bool) -> Result<()> {
    if json {
        return output::print(&format!("{}\n", serde_json::to_string(row)?));
    }
    output::print(&text(row))
}

/// A call on one line, and why on the next.
fn text(row: &Row) -> String {
    let record = &row.record;
    let word = |text: Option<&str>| shown(text.unwrap_or("-"));
    let at = record.at.strftime("%Y-%m-%d %H:%M:%S");
    let server = record.server.as_ref().map_or("-", |server| server.as_str());
    let target = record.target.as_deref().or(record.method.as_deref());
    let (who, what) = (word(record.label.as_deref()), word(target));
    let mut out = format!("{at}Z  {who}  {server}/{what}  {}  {}\n", verdict(record), record.call);
    if let Some(why) = why(record) {
        out.push_str(&format!("  {}\n", shown(&why)));
    }
    out
}

/// How the call went, in a few words.
fn verdict(record: &Record) -> String {
    let sent = || {
        let time = record.timings.map(|timings| format!(" in {:.1} ms", timings.upstream as f64 / 1_000.0));
        match record.outcome {
            Some(outcome) => format!("{}{}", outcome_words(outcome), time.unwrap_or_default()),
            None => "sent, no outcome".to_owned(),
        }
    };
    match record.kind {
        Kind::Refused => "REFUSED".to_owned(),
        Kind::Intent | Kind::Outcome if record.observed => format!("OBSERVED, {}", sent()),
        Kind::Intent | Kind::Outcome => sent(),
        Kind::Passed => "passed".to_owned(),
        Kind::Unauthenticated => format!("no valid token, {} requests", record.count.unwrap_or(1)),
        Kind::Pruned => format!("older rows removed through {}", record.through.as_deref().unwrap_or("-")),
    }
}

fn outcome_words(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Ok => "ok",
        Outcome::ToolError => "the tool failed",
        Outcome::Error => "the server gave an error",
        Outcome::NotSent => "not sent, charges given back",
        Outcome::Timeout => "no answer in time",
        Outcome::Gone => "the connection broke",
        Outcome::Cancelled => "cancelled",
    }
}

/// Why it was refused, would have been, or failed: code, rule, and what the caller was told.
fn why(record: &Record) -> Option<String> {
    let code = record.code.as_deref()?;
    let rule = record.rule.as_deref().map(|rule| format!(" by {rule}")).unwrap_or_default();
    let policy = record.policy.as_ref().map(|policy| {
        let version = record.policy_version.map(|version| format!(" version {version}")).unwrap_or_default();
        format!(" of `{policy}`{version}")
    });
    let message = record.message.as_deref().map(|message| format!(": {message}")).unwrap_or_default();
    Some(format!("{code}{rule}{}{message}", policy.unwrap_or_default()))
}
