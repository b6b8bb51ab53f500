//! `catalogue attacks`: prints attack patterns with their mitigations and known incidents.

use anyhow::Result;
use gatelodge_catalogue::{AttackPattern, Incident, attack_patterns, incidents};
use serde_json::json;

use crate::cli::AttackPatternsArgs;
use crate::diagnostic_report::escape_for_terminal;
use crate::exit_code::{CommandExitCode, UsageError};
use crate::stdout_output;

pub fn run(args: &AttackPatternsArgs) -> Result<CommandExitCode> {
    match &args.slug {
        None if args.json => {
            stdout_output::print_json(&json!({"attacks": attack_patterns(), "incidents": incidents()}))?
        }
        None => {
            let rows: Vec<_> =
                attack_patterns().iter().map(|own| vec![own.slug.clone(), own.summary.clone()]).collect();
            stdout_output::print(&stdout_output::format_table(&rows))?;
        }
        Some(slug) => {
            let pattern = attack_patterns().iter().find(|own| own.slug == *slug);
            let pattern = pattern.ok_or_else(|| {
                UsageError(format!(
                    "there is no pattern `{}`; `gatelodge catalogue attacks` lists them",
                    escape_for_terminal(slug)
                ))
            })?;
            let cases: Vec<&Incident> = incidents().iter().filter(|own| own.attacks.contains(slug)).collect();
            match args.json {
                true => stdout_output::print_json(&json!({"attack": pattern, "incidents": cases}))?,
                false => stdout_output::print(&pattern_text(pattern, &cases))?,
            }
        }
    }
    Ok(CommandExitCode::Success)
}

fn pattern_text(pattern: &AttackPattern, cases: &[&Incident]) -> String {
    let mut out = format!("{}\n\n{}\n\n{}\n\n", pattern.name, pattern.summary, pattern.mechanism);
    out.push_str(&format!("Signs: {}\n\nMitigations:\n", pattern.signs));
    pattern.mitigations.iter().for_each(|mitigation| out.push_str(&format!("  - {mitigation}\n")));
    out.push_str(&format!("\nFor example:\n{}\n\nOWASP: {}\n", pattern.policy.trim(), pattern.owasp.join(", ")));
    for case in cases {
        out.push_str(&format!("\n{} {} ({})\n  {}\n", case.date, case.title, case.source, case.summary));
    }
    out
}
