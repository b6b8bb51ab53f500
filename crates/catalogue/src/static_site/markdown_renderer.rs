//! Renders pages as Markdown. Untrusted text is formatted as code and cannot contain markup.

use std::fmt::Write;

use super::page_document::{InlineTextRun, InlineTextRuns, PageBlock, PageDocument};
use crate::classify::RiskLevel;

/// Renders a page as Markdown.
pub(super) fn render_markdown(doc: &PageDocument, footer: &str) -> String {
    let root = "../".repeat(doc.path.matches('/').count());
    let mut out = format!("# {}\n\n", escape_markdown(&doc.title));
    for block in &doc.blocks {
        write_block(block, &root, &mut out);
    }
    let _ = write!(out, "---\n\n{}\n", escape_markdown(footer));
    out
}

fn write_block(block: &PageBlock, root: &str, out: &mut String) {
    let line = |line: &InlineTextRuns| inline_markdown(line, root);
    let _ = match block {
        PageBlock::Paragraph(own) => write!(out, "{}\n\n", line(own)),
        PageBlock::Heading(_, own) => write!(out, "## {}\n\n", line(own)),
        PageBlock::Subheading(own) => write!(out, "### {}\n\n", line(own)),
        PageBlock::List(own) => write_list(own.iter().map(|item| format!("- {}", line(item))), out),
        PageBlock::NumberedList(own) => {
            write_list(own.iter().enumerate().map(|(at, item)| format!("{}. {}", at + 1, line(item))), out)
        }
        PageBlock::Code(name, own) | PageBlock::CollapsedCode(name, own) => {
            write!(out, "{}:\n\n````json\n{}\n````\n\n", escape_markdown(name), own.trim_end())
        }
        PageBlock::Table(head, rows) => {
            let _ = write!(out, "| {} |\n|{}\n", head.join(" | "), "---|".repeat(head.len()));
            for row in rows {
                let cells: Vec<String> = row.iter().map(line).collect();
                let _ = writeln!(out, "| {} |", cells.join(" | "));
            }
            writeln!(out)
        }
        PageBlock::Facts(facts) => {
            write_list(facts.iter().map(|(name, value)| format!("- {name}: {}", line(value))), out)
        }
        PageBlock::CategoryBar(counts) => {
            let counts: Vec<String> = counts.iter().map(|(name, count)| format!("{count} {name}")).collect();
            write!(out, "{}\n\n", counts.join(", "))
        }
        PageBlock::Grade(letter, reasons) => {
            let _ = write!(out, "Grade **{letter}**:\n\n");
            write_list(reasons.iter().map(|reason| format!("- {}", escape_markdown(reason))), out)
        }
        PageBlock::Questions(all) => {
            for (question, answer) in all {
                let _ = write!(out, "**{}**\n\n{}\n\n", escape_markdown(question), line(answer));
            }
            Ok(())
        }
    };
}

fn write_list(items: impl Iterator<Item = String>, out: &mut String) -> std::fmt::Result {
    for item in items {
        let _ = writeln!(out, "{item}");
    }
    writeln!(out)
}

fn inline_markdown(line: &InlineTextRuns, root: &str) -> String {
    let mut out = String::new();
    for run in line {
        let _ = match run {
            InlineTextRun::Text(own) => write!(out, "{}", escape_markdown(own)),
            InlineTextRun::Code(own) => write!(out, "{}", code_markdown(own)),
            InlineTextRun::Link(own, path) if path.starts_with('#') => write!(out, "{}", escape_markdown(own)),
            InlineTextRun::Link(own, path) => write!(out, "[{}]({root}{path}.md)", escape_markdown(own)),
            InlineTextRun::CodeLink(own, path) => write!(out, "[{}]({root}{path}.md)", code_markdown(own)),
            InlineTextRun::Badge(level) => write!(out, "**{}**", RiskLevel::as_str(*level)),
        };
    }
    out
}

/// Escapes text so that it contains no markup.
pub(super) fn escape_markdown(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '|' | '#' | '!' | '~' => {
                out.push('\\');
                out.push(letter);
            }
            '&' => out.push_str("&amp;"),
            letter => out.push(letter),
        }
    }
    out
}

/// Formats a name as code. Characters that could end the code or a table cell become numeric character references.
fn code_markdown(text: &str) -> String {
    let is_plain = |letter: char| letter.is_alphanumeric() || " _-./@:,=(){}\"'+*…".contains(letter);
    if text.chars().all(is_plain) && !text.starts_with(' ') && !text.ends_with(' ') {
        return format!("`{text}`");
    }
    escaped_html_code(text)
}

/// Formats untrusted text as code for Markdown and HTML, so that it cannot contain markup or end a table cell.
pub fn escaped_html_code(text: &str) -> String {
    let mut out = String::from("<code>");
    for letter in text.chars() {
        match letter {
            letter if letter.is_alphanumeric() || " -.,/".contains(letter) => out.push(letter),
            letter => {
                let _ = write!(out, "&#{};", u32::from(letter));
            }
        }
    }
    out.push_str("</code>");
    out
}
