//! `policy explain`: one call against one policy.

use std::fmt::Write;
use std::path::Path;

use anyhow::Result;
use gatelodge_json::{Limits, read};
use gatelodge_policy::{CallFile, Explanation, Fault, explain};

use super::{load, print, print_json};
use crate::cli::ExplainArgs;
use crate::exit::{Exit, Usage};
use crate::file::{self, Source};
use crate::report::{self, shown};

pub fn run(args: &ExplainArgs) -> Result<Exit> {
    if args.policy == Path::new("-") && args.call == "-" {
        return Err(Usage("standard input can be the policy or the call, not both".into()).into());
    }
    let policy_source = file::read(&args.policy)?;
    let call_source = call_source(&args.call)?;
    let policy = load(&policy_source);
    let document = match read(&call_source.text, &Limits::REQUEST) {
        Ok(document) => document,
        Err(fault) => {
            report::faults(&call_source, &[Fault::of_reader(&fault)]);
            return Ok(Exit::Findings);
        }
    };
    let call = match CallFile::new(document.root()) {
        Ok(call) => call,
        Err(faults) => {
            report::faults(&call_source, &faults);
            return Ok(Exit::Findings);
        }
    };
    let Some(policy) = policy else { return Ok(Exit::Findings) };
    let explanation = explain(&policy, &call.call(), call.at().unwrap_or_else(|| crate::wire::system_clock().now()));
    if args.json {
        print_json(&explanation)?
    } else {
        print(&told(&explanation))?
    }
    Ok(Exit::Fine)
}

/// A call is named by a file, or written where its name would stand.
fn call_source(call: &str) -> Result<Source> {
    if call.trim_start().starts_with('{') {
        return Ok(Source { name: "<call>".into(), text: call.as_bytes().to_vec() });
    }
    file::read(Path::new(call))
}

fn told(explanation: &Explanation) -> String {
    let mut out = String::new();
    let code = explanation.code.map(|code| format!(" ({code})")).unwrap_or_default();
    let rule = explanation.rule.as_ref().map(|rule| format!(" by {}", shown(rule))).unwrap_or_default();
    let _ = writeln!(out, "{}{code}{rule}", explanation.decision);
    if let Some(message) = &explanation.message {
        let _ = writeln!(out, "  {}", shown(message));
    }
    for charge in &explanation.charges {
        let (window, counter, rule) =
            (charge.window.get().trim_matches('"'), shown(&charge.counter), shown(&charge.rule));
        let unit = if charge.window.get().starts_with('"') { "" } else { " s" };
        let _ = writeln!(
            out,
            "  takes {} from `{counter}`: {} in a {window}{unit}, for each {} ({rule})",
            charge.amount, charge.max, charge.scope
        );
    }
    let _ = writeln!(out, "\nlooked at, in this order; the first that refuses decides:");
    for step in &explanation.trace {
        let code = step.code.map(|code| format!(" ({code})")).unwrap_or_default();
        let rule = shown(step.rule.as_deref().unwrap_or(""));
        let _ = writeln!(out, "  {:7} {:18} {rule}{code}: {}", step.outcome, step.step, shown(&step.note));
        for line in &step.conditions {
            let found = if line.found.is_empty() { "nothing".into() } else { shown(&line.found.join(", ")) };
            let _ = writeln!(
                out,
                "            {} {} {}: {}, found {found}",
                shown(&line.path),
                line.op,
                shown(line.value.get()),
                line.answer
            );
        }
    }
    out
}
