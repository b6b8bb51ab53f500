//! The report for code scanning, as SARIF 2.1.0.

use gatelodge_catalogue::{RiskLevel, category_name};
use gatelodge_policy::Category;
use serde_json::{Value, json};

use super::StackReport;
use super::collect_servers::StackServer;
use crate::diagnostic_report::escape_for_terminal;

pub fn sarif_report(told: &StackReport) -> Value {
    let mut results = Vec::new();
    for entry in told.servers.iter().filter(|entry| !entry.is_disabled) {
        let name = escape_markdown(&entry.name);
        for concern in entry.concerns.iter().filter(|concern| concern.is_affected) {
            let text = format!("Of the server `{name}`: {}.", escape_markdown(&concern.message));
            results.push(sarif_result("public-case", "error", &text, entry, ""));
        }
        let Some(tools) = &entry.tools else {
            let text = format!("The server `{name}` is not in the index: ask first. `gatelodge scan` looks at it.");
            results.push(sarif_result("unknown-server", "warning", &text, entry, ""));
            continue;
        };
        if entry.is_guess {
            let text =
                format!("What the server `{name}` starts is only a guess: ask first. `gatelodge scan` looks at it.");
            results.push(sarif_result("unknown-server", "warning", &text, entry, ""));
        }
        if let Some(why) = entry.version_concern() {
            let text = format!("The server `{name}` may have other tools than are known: {}.", escape_markdown(&why));
            results.push(sarif_result("unread-version", "note", &text, entry, ""));
        }
        for tool in tools.iter().filter(|tool| RiskLevel::of(tool.category) >= RiskLevel::High) {
            let level = RiskLevel::of(tool.category);
            let text = format!(
                "The tool `{}` of the server `{}` is {} ({} risk).",
                escape_markdown(&escape_for_terminal(&tool.name)),
                name,
                category_name(tool.category),
                level.as_str()
            );
            let kind = if level == RiskLevel::Critical { "error" } else { "warning" };
            results.push(sarif_result(rule_id(tool.category), kind, &text, entry, &escape_for_terminal(&tool.name)));
        }
    }
    for leak in &told.leaks {
        let names = told.leak_names(leak).join(", ");
        let text = format!(
            "Together these servers of {} read private data, take in text of strangers, and can send: {}.",
            leak.client,
            escape_markdown(&names)
        );
        let first = leak.servers.first().and_then(|at| told.servers.get(*at));
        results.extend(first.map(|entry| sarif_result("lethal-trifecta", "error", &text, entry, &names)));
    }
    let unread =
        told.unread.iter().map(|unread| json!({"level": "error", "message": {"text": escape_markdown(unread)}}));
    let unread: Vec<Value> = unread.collect();
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {"name": "gatelodge stack", "version": env!("CARGO_PKG_VERSION"), "rules": rule_definitions()}},
            "results": results,
            "invocations": [{"executionSuccessful": told.unread.is_empty(), "toolExecutionNotifications": unread}],
        }],
    })
}

/// A foreign name as text: brackets would make a link of it.
fn escape_markdown(name: &str) -> String {
    name.replace('\\', "\\\\").replace('[', "\\[").replace(']', "\\]")
}

fn rule_id(category: Category) -> &'static str {
    match category {
        Category::Destructive => "destructive-tool",
        Category::Financial => "financial-tool",
        Category::Execute => "execute-tool",
        Category::Read | Category::Write | Category::Unknown => "unknown-tool",
    }
}

fn rule_definitions() -> Value {
    let rule = |id: &str, says: &str| json!({"id": id, "shortDescription": {"text": says}});
    json!([
        rule("destructive-tool", "A tool takes something away for good."),
        rule("financial-tool", "A tool commits money."),
        rule("execute-tool", "A tool runs something by what a call says."),
        rule("unknown-tool", "What a tool does cannot be told."),
        rule("unknown-server", "Nothing is known of a server for certain."),
        rule("unread-version", "The index has read another version than the one that starts."),
        rule(
            "public-case",
            "The package was part of a public case, in the version that starts or one that nobody can tell."
        ),
        rule("lethal-trifecta", "Servers together have private data, text of strangers, and a way out."),
    ])
}

/// A finding about a server, and about what of it: a tool, or the servers beside it.
fn sarif_result(rule: &str, level: &str, text: &str, entry: &StackServer, of: &str) -> Value {
    // One finding stays the same finding, whatever else is told of it and however the list around it changes.
    let print = format!("{rule}/{}/{of}", entry.name);
    let mut result = json!({
        "ruleId": rule, "level": level, "message": {"text": text}, "partialFingerprints": {"gatelodge/v1": print},
    });
    if let (Value::Object(result), Some(file)) = (&mut result, &entry.file) {
        let place = json!({"artifactLocation": {"uri": file}, "region": {"startLine": entry.line}});
        result.insert("locations".to_owned(), json!([{"physicalLocation": place}]));
    }
    result
}
