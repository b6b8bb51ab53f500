//! `catalogue attacks`: the patterns, and what bounds them.

use anyhow::Result;
use gatelodge_catalogue::{AttackPattern, Incident, attack_patterns, incidents};
use serde_json::json;

use crate::cli::AttacksArgs;
use crate::exit::{Exit, Usage};
use crate::output;
use crate::report::shown;

pub fn run(args: &AttacksArgs) -> Result<Exit> {
    match &args.slug {
        None if args.json => output::json(&json!({"attacks": attack_patterns(), "incidents": incidents()}))?,
        None => {
            let rows: Vec<_> =
                attack_patterns().iter().map(|own| vec![own.slug.clone(), own.summary.clone()]).collect();
            output::print(&output::table(&rows))?;
        }
        Some(slug) => {
            let pattern = attack_patterns().iter().find(|own| own.slug == *slug);
            let pattern = pattern.ok_or_else(|| {
                Usage(format!("there is no pattern `{}`; `gatelodge catalogue attacks` lists them", shown(slug)))
            })?;
            let cases: Vec<&Incident> = incidents().iter().filter(|own| own.attacks.contains(slug)).collect();
            match args.json {
                true => output::json(&json!({"attack": pattern, "incidents": cases}))?,
                false => output::print(&text(pattern, &cases))?,
            }
        }
    }
    Ok(Exit::Fine)
}

fn text(pattern: &AttackPattern, cases: &[&Incident]) -> String {
    let mut out = format!("{}\n\n{}\n\n{}\n\n", pattern.name, pattern.summary, pattern.mechanism);
    out.push_str(&format!("Signs: {}\n\nWhat bounds it:\n", pattern.signs));
    pattern.mitigations.iter().for_each(|bound| out.push_str(&format!("  - {bound}\n")));
    out.push_str(&format!("\nFor example:\n{}\n\nOWASP: {}\n", pattern.policy.trim(), pattern.owasp.join(", ")));
    for case in cases {
        out.push_str(&format!("\n{} {} ({})\n  {}\n", case.date, case.title, case.source, case.summary));
    }
    out
}
