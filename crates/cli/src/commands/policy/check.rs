//! `policy check`: all faults of policies at once.

use anyhow::Result;
use gatelodge_policy::{Fault, Severity, Tools, check};

use super::print_json;
use crate::cli::CheckArgs;
use crate::exit::Exit;
use crate::file::{self, Source};
use crate::report::{self, Finding};

/// From so many findings on there may be more than are told.
const MANY: usize = 200;

pub fn run(args: &CheckArgs) -> Result<Exit> {
    let tools = match &args.tools {
        None => None,
        Some(path) => {
            let source = file::read_reply(path)?;
            match Tools::read(&source.text) {
                Ok(tools) => Some(tools),
                Err(faults) => {
                    tell(&[(source, faults)], args.json)?;
                    return Ok(Exit::Findings);
                }
            }
        }
    };
    let mut checked = Vec::new();
    for path in &args.files {
        let source = file::read(path)?;
        let faults = check(&source.text, source.format(args.format), tools.as_ref());
        checked.push((source, faults));
    }
    tell(&checked, args.json)?;
    let fails = |fault: &Fault| args.strict || fault.severity == Severity::Error;
    let has_findings = checked.iter().flat_map(|(_, faults)| faults).any(fails);
    Ok(if has_findings { Exit::Findings } else { Exit::Fine })
}

fn tell(checked: &[(Source, Vec<Fault>)], json: bool) -> Result<()> {
    if json {
        let findings =
            checked.iter().flat_map(|(source, faults)| faults.iter().map(|fault| Finding::new(source, fault)));
        return print_json(&findings.collect::<Vec<_>>());
    }
    for (source, faults) in checked {
        report::faults(source, faults);
        let errors = faults.iter().filter(|fault| fault.severity == Severity::Error).count();
        let warnings = faults.len() - errors;
        report::say(&format!("{}: {}", report::shown(&source.name), summary(errors, warnings)));
    }
    Ok(())
}

fn summary(errors: usize, warnings: usize) -> String {
    // The engine stops collecting at a bound, so a round number may stand for more.
    let more = |number: usize| if number >= MANY { " or more" } else { "" };
    let count =
        |number: usize, word: &str| format!("{number} {word}{}{}", if number == 1 { "" } else { "s" }, more(number));
    match (errors, warnings) {
        (0, 0) => "no faults".into(),
        (0, warnings) => format!("{}; it loads", count(warnings, "warning")),
        (errors, 0) => format!("{}; it does not load", count(errors, "error")),
        (errors, warnings) => format!("{}, {}; it does not load", count(errors, "error"), count(warnings, "warning")),
    }
}
