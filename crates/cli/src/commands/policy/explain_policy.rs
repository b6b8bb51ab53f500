//! `policy explain`: evaluates one call against one policy and prints every step.

use std::fmt::Write;
use std::path::Path;

use anyhow::Result;
use gatelodge_json::{JsonLimits, read};
use gatelodge_policy::{CallFile, Diagnostic, Explanation, LimitWindow, Policy, explain};
use gatelodge_server::input_file::InputFileText;

use super::file_diagnostics::{FileDiagnostics, refuse_repeated_stdin};
use super::{print, print_json};
use crate::cli::ExplainPolicyArgs;
use crate::diagnostic_report::escape_for_terminal;
use crate::exit_code::CommandExitCode;

pub fn run(args: &ExplainPolicyArgs) -> Result<CommandExitCode> {
    refuse_repeated_stdin([args.policy.as_path(), Path::new(&args.call)])?;
    let mut diagnostics = FileDiagnostics::default();
    let policy = diagnostics.read(&args.policy).and_then(|source| diagnostics.load(&source, args.format));
    let explanation = read_call(&args.call, &mut diagnostics).and_then(|source| {
        // Diagnostics of the call are printed together with those of the policy.
        explain_source(policy.as_ref(), &source).map_err(|errors| diagnostics.add(&source, errors)).ok().flatten()
    });
    let Some(explanation) = explanation else {
        diagnostics.print(args.json)?;
        return Ok(diagnostics.exit_code());
    };
    if args.json {
        print_json(&explanation)?
    } else {
        print(&explanation_text(&explanation))?
    }
    Ok(CommandExitCode::Success)
}

/// Reads the call to evaluate. `call` is a file name or, if it begins with `{`, the call as JSON.
fn read_call(call: &str, diagnostics: &mut FileDiagnostics) -> Option<InputFileText> {
    if call.trim_start().starts_with('{') {
        return Some(InputFileText { name: "<call>".into(), text: call.as_bytes().to_vec() });
    }
    diagnostics.read(Path::new(call))
}

/// Parses the call and, if the policy could be loaded, evaluates it.
fn explain_source(policy: Option<&Policy>, source: &InputFileText) -> Result<Option<Explanation>, Vec<Diagnostic>> {
    let document =
        read(&source.text, &JsonLimits::REQUEST).map_err(|error| vec![Diagnostic::from_call_error(&error)])?;
    let call = CallFile::new(document.root())?;
    let at = call.at().unwrap_or_else(|| gatelodge_server::system_clock().now());
    Ok(policy.map(|policy| explain(policy, &call.call(), at)))
}

fn explanation_text(explanation: &Explanation) -> String {
    let mut out = String::new();
    let code = explanation.code.map(|code| format!(" ({code})")).unwrap_or_default();
    let rule = explanation.rule.as_ref().map(|rule| format!(" by {}", escape_for_terminal(rule))).unwrap_or_default();
    let _ = writeln!(out, "{}{code}{rule}", explanation.decision);
    if let Some(message) = &explanation.message {
        let _ = writeln!(out, "  {}", escape_for_terminal(message));
    }
    // A denied call takes nothing.
    let takes = if explanation.decision == "deny" { "would take" } else { "takes" };
    for charge in &explanation.charges {
        let window = charge.window.get().trim_matches('"');
        let (window, counter, rule) = (
            window.parse().map_or_else(|_| window.to_owned(), |seconds| LimitWindow::Seconds(seconds).to_string()),
            escape_for_terminal(&charge.counter),
            escape_for_terminal(&charge.rule),
        );
        let _ = writeln!(
            out,
            "  {takes} {} from `{counter}`: {} per {window}, for each {} ({rule})",
            charge.amount, charge.max, charge.scope
        );
    }
    let _ = writeln!(out, "\nevaluated in this order; the first refusal decides:");
    for step in &explanation.trace {
        let code = step.code.map(|code| format!(" ({code})")).unwrap_or_default();
        let rule = escape_for_terminal(step.rule.as_deref().unwrap_or(""));
        let _ =
            writeln!(out, "  {:7} {:18} {rule}{code}: {}", step.outcome, step.step, escape_for_terminal(&step.note));
        for line in &step.conditions {
            let found =
                if line.found.is_empty() { "nothing".into() } else { escape_for_terminal(&line.found.join(", ")) };
            let _ = writeln!(
                out,
                "            {} {} {}: {}, found {found}",
                escape_for_terminal(&line.path),
                line.op,
                escape_for_terminal(line.value.get()),
                line.answer
            );
        }
    }
    out
}
