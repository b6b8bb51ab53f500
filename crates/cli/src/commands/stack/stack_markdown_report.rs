//! Generates the Markdown report, for pull requests.

use gatelodge_catalogue::{RiskLevel, escape_for_display, escaped_html_code as code};

use super::{ServerStackReport, server_policy, summary_text, version_note};

/// Maximum number of tools to list for one server; the others are only counted.
const MAX_LISTED_TOOLS: usize = 8;

pub fn markdown_report(report: &ServerStackReport) -> String {
    let mut out = format!("## MCP servers of this configuration\n\n{}\n\n", summary_text(report));
    out.push_str("| server | level | grade | package | verdict | risky tools |\n|---|---|---|---|---|---|\n");
    for (entry, member) in report.servers.iter().zip(&report.members) {
        let grade = member.grade().map_or("?".to_owned(), |grade| grade.letter.to_string());
        let package = entry.package.as_deref().unwrap_or("not in the index");
        let likely = if entry.is_guess { "perhaps " } else { "" };
        let mut risky: Vec<_> =
            entry.tools.iter().flatten().filter(|tool| RiskLevel::of(tool.category) >= RiskLevel::High).collect();
        risky.sort_by_key(|tool| std::cmp::Reverse(RiskLevel::of(tool.category)));
        let mut names: Vec<String> =
            risky.iter().take(MAX_LISTED_TOOLS).map(|tool| code(&escape_for_display(&tool.name))).collect();
        if risky.len() > MAX_LISTED_TOOLS {
            names.push(format!("and {} more", risky.len() - MAX_LISTED_TOOLS));
        }
        out.push_str(&format!(
            "| {}{} | {} | {grade} | {} | {} | {} |\n",
            code(&entry.name),
            if entry.is_disabled { " (off)" } else { "" },
            member.level().as_str(),
            format_args!("{likely}{}{}", code(package), version_note(entry, code)),
            entry.advice().verdict.as_str(),
            names.join(", ")
        ));
    }
    if !report.unread.is_empty() {
        out.push_str("\n### Not read\n\nThese files could not be read and are not counted:\n\n");
        report.unread.iter().for_each(|unread| out.push_str(&format!("- {}\n", code(unread))));
    }
    if !report.leaks.is_empty() {
        out.push_str(
            "\n### Combinations that can leak data\n\nPrivate data, untrusted text and a channel to send data out:\n\n",
        );
        for leak in &report.leaks {
            let names: Vec<String> = report.leak_names(leak).into_iter().map(code).collect();
            out.push_str(&format!("- {} ({})\n", names.join(" + "), leak.client));
        }
    }
    let incidents: Vec<String> =
        report.public_incidents().map(|(name, message)| format!("- {}: {message}\n", code(name))).collect();
    if !incidents.is_empty() {
        out.push_str(&format!("\n### Public incidents\n\n{}", incidents.concat()));
    }
    for entry in &report.servers {
        if let Some(policy) = server_policy(entry) {
            let name = code(&entry.name);
            out.push_str(&format!(
                "\n<details><summary>Policy for {name}</summary>\n\n````json\n{policy}````\n\n</details>\n"
            ));
        }
    }
    out.push_str(&format!(
        "\n<sub>Index from {}. It rates what tools could do, not who wrote them.</sub>\n",
        report.date
    ));
    out
}
