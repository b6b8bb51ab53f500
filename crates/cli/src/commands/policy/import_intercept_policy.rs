//! `policy import`: converts a policy in Intercept's YAML format.

use anyhow::Result;
use gatelodge_json::LineColumn;
use serde_json::json;

use super::file_diagnostics::FileDiagnostics;
use super::{print, print_json};
use crate::cli::ImportInterceptPolicyArgs;
use crate::diagnostic_report;
use crate::exit_code::CommandExitCode;

pub fn run(args: &ImportInterceptPolicyArgs) -> Result<CommandExitCode> {
    let mut diagnostics = FileDiagnostics::default();
    let imported = diagnostics.read(&args.file).and_then(|source| {
        let imported =
            gatelodge_policy::import_intercept(&source.text).map_err(|errors| diagnostics.add(&source, errors)).ok()?;
        Some((source, imported))
    });
    let Some((source, imported)) = imported else {
        diagnostics.print(args.json)?;
        return Ok(diagnostics.exit_code());
    };
    if args.json {
        let notes: Vec<_> = imported
            .notes
            .iter()
            .map(|note| {
                let place = LineColumn::of(&source.text, note.span.start);
                json!({"kind": note.kind.as_str(), "line": place.line, "column": place.column, "message": note.message})
            })
            .collect();
        print_json(&json!({"policy": imported.policy, "notes": notes}))?;
        return Ok(CommandExitCode::Success);
    }
    for note in &imported.notes {
        let place = LineColumn::of(&source.text, note.span.start);
        let (name, message) = (
            diagnostic_report::escape_for_terminal(&source.name),
            diagnostic_report::escape_for_terminal(&note.message),
        );
        diagnostic_report::print_stderr(&format!("{name}:{}:{}: {}: {message}", place.line, place.column, note.kind));
    }
    print(&imported.policy)?;
    Ok(CommandExitCode::Success)
}
