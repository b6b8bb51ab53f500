//! The report for a pull request.

use gatelodge_catalogue::{RiskLevel, escape_for_display, escaped_html_code as code};

use super::{StackReport, server_policy, summary_text, version_note};

/// More tools of one server are counted.
const MAX_LISTED_TOOLS: usize = 8;

pub fn markdown_report(told: &StackReport) -> String {
    let mut out = format!("## MCP servers of this configuration\n\n{}\n\n", summary_text(told));
    out.push_str("| server | level | grade | known as | to do | tools to look at |\n|---|---|---|---|---|---|\n");
    for (entry, member) in told.servers.iter().zip(&told.members) {
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
    if !told.unread.is_empty() {
        out.push_str("\n### Not read\n\nWhat these files have is not counted:\n\n");
        told.unread.iter().for_each(|unread| out.push_str(&format!("- {}\n", code(unread))));
    }
    if !told.leaks.is_empty() {
        out.push_str("\n### Together they leak\n\nPrivate data, text of strangers and a way out:\n\n");
        for leak in &told.leaks {
            let names: Vec<String> = told.leak_names(leak).into_iter().map(code).collect();
            out.push_str(&format!("- {} ({})\n", names.join(" + "), leak.client));
        }
    }
    let cases: Vec<String> = told.public_cases().map(|(name, says)| format!("- {}: {says}\n", code(name))).collect();
    if !cases.is_empty() {
        out.push_str(&format!("\n### Public cases\n\n{}", cases.concat()));
    }
    for entry in &told.servers {
        if let Some(policy) = server_policy(entry) {
            let name = code(&entry.name);
            out.push_str(&format!(
                "\n<details><summary>Policy for {name}</summary>\n\n````json\n{policy}````\n\n</details>\n"
            ));
        }
    }
    out.push_str(&format!("\n<sub>Index of {}. It judges what tools could do, not who wrote them.</sub>\n", told.date));
    out
}
