//! Generates the SARIF 2.1.0 report, for code scanning.

use gatelodge_catalogue::{RiskLevel, category_name};
use gatelodge_policy::Category;
use serde_json::{Value, json};

use super::ServerStackReport;
use super::collect_servers::ServerInventoryEntry;
use crate::diagnostic_report::escape_for_terminal;

pub fn sarif_report(report: &ServerStackReport) -> Value {
    let mut results = Vec::new();
    for entry in report.servers.iter().filter(|entry| !entry.is_disabled) {
        let name = escape_markdown(&entry.name);
        for concern in entry.concerns.iter().filter(|concern| concern.is_affected) {
            let text = format!("The server `{name}`: {}.", escape_markdown(&concern.message));
            results.push(sarif_result("public-case", "error", &text, entry, ""));
        }
        let Some(tools) = &entry.tools else {
            let text = format!("The server `{name}` is not in the index: ask first. Check it with `gatelodge scan`.");
            results.push(sarif_result("unknown-server", "warning", &text, entry, ""));
            continue;
        };
        if entry.is_guess {
            let text = format!(
                "The package of the server `{name}` is only guessed: ask first. Check it with `gatelodge scan`."
            );
            results.push(sarif_result("unknown-server", "warning", &text, entry, ""));
        }
        if let Some(why) = entry.version_concern() {
            let text =
                format!("The server `{name}` may have different tools than the index: {}.", escape_markdown(&why));
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
    for leak in &report.leaks {
        let names = report.leak_names(leak).join(", ");
        let text = format!(
            "Together these servers of {} read private data, take in untrusted text, and can send data out: {}.",
            leak.client,
            escape_markdown(&names)
        );
        let first = leak.servers.first().and_then(|at| report.servers.get(*at));
        results.extend(first.map(|entry| sarif_result("lethal-trifecta", "error", &text, entry, &names)));
    }
    let unread =
        report.unread.iter().map(|unread| json!({"level": "error", "message": {"text": escape_markdown(unread)}}));
    let unread: Vec<Value> = unread.collect();
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {"name": "gatelodge stack", "version": env!("CARGO_PKG_VERSION"), "rules": rule_definitions()}},
            "results": results,
            "invocations": [{"executionSuccessful": report.unread.is_empty(), "toolExecutionNotifications": unread}],
        }],
    })
}

/// Escapes Markdown in an untrusted name, because SARIF viewers would turn brackets into a link.
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
    let rule = |id: &str, description: &str| json!({"id": id, "shortDescription": {"text": description}});
    json!([
        rule("destructive-tool", "A tool deletes or destroys something irreversibly."),
        rule("financial-tool", "A tool commits money."),
        rule("execute-tool", "A tool runs code or commands from its arguments."),
        rule("unknown-tool", "What a tool does is not known."),
        rule("unknown-server", "The tools of a server are not known for certain."),
        rule("unread-version", "The indexed version differs from the one that starts."),
        rule(
            "public-case",
            "A public incident affects the package, in the version that starts or in an unknown version."
        ),
        rule("lethal-trifecta", "Servers together have private data, untrusted text and a channel to send data out."),
    ])
}

/// Creates a SARIF result for a server. `of` is the name of the tool or the names of the combined servers that the
/// result is about; it is empty if the result is about the server as a whole.
fn sarif_result(rule: &str, level: &str, text: &str, entry: &ServerInventoryEntry, of: &str) -> Value {
    // The fingerprint must not change with the message text or with other results.
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
