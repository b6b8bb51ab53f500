//! Pages as Markdown, for those who read without a browser. Foreign text is code, and nothing in it is markup.

use std::fmt::Write;

use super::doc::{Block, Doc, Inline, Line};
use crate::classify::RiskLevel;

/// Writes a page.
pub(super) fn page(doc: &Doc, footer: &str) -> String {
    let root = "../".repeat(doc.path.matches('/').count());
    let mut out = format!("# {}\n\n", plain(&doc.title));
    for block in &doc.blocks {
        put(block, &root, &mut out);
    }
    let _ = write!(out, "---\n\n{}\n", plain(footer));
    out
}

fn put(block: &Block, root: &str, out: &mut String) {
    let line = |line: &Line| runs(line, root);
    let _ = match block {
        Block::Paragraph(own) => write!(out, "{}\n\n", line(own)),
        Block::Heading(_, own) => write!(out, "## {}\n\n", line(own)),
        Block::Small(own) => write!(out, "### {}\n\n", line(own)),
        Block::List(own) => list(own.iter().map(|item| format!("- {}", line(item))), out),
        Block::Steps(own) => list(own.iter().enumerate().map(|(at, item)| format!("{}. {}", at + 1, line(item))), out),
        Block::Code(name, own) | Block::Folded(name, own) => {
            write!(out, "{}:\n\n````json\n{}\n````\n\n", plain(name), own.trim_end())
        }
        Block::Table(head, rows) => {
            let _ = write!(out, "| {} |\n|{}\n", head.join(" | "), "---|".repeat(head.len()));
            for row in rows {
                let cells: Vec<String> = row.iter().map(line).collect();
                let _ = writeln!(out, "| {} |", cells.join(" | "));
            }
            writeln!(out)
        }
        Block::Facts(facts) => list(facts.iter().map(|(name, value)| format!("- {name}: {}", line(value))), out),
        Block::Bar(counts) => {
            let counts: Vec<String> = counts.iter().map(|(name, count)| format!("{count} {name}")).collect();
            write!(out, "{}\n\n", counts.join(", "))
        }
        Block::Grade(letter, reasons) => {
            let _ = write!(out, "Grade **{letter}**:\n\n");
            list(reasons.iter().map(|reason| format!("- {}", plain(reason))), out)
        }
        Block::Questions(all) => {
            for (question, answer) in all {
                let _ = write!(out, "**{}**\n\n{}\n\n", plain(question), line(answer));
            }
            Ok(())
        }
    };
}

fn list(items: impl Iterator<Item = String>, out: &mut String) -> std::fmt::Result {
    for item in items {
        let _ = writeln!(out, "{item}");
    }
    writeln!(out)
}

fn runs(line: &Line, root: &str) -> String {
    let mut out = String::new();
    for run in line {
        let _ = match run {
            Inline::Text(own) => write!(out, "{}", plain(own)),
            Inline::Code(own) => write!(out, "{}", code(own)),
            Inline::Link(own, path) if path.starts_with('#') => write!(out, "{}", plain(own)),
            Inline::Link(own, path) => write!(out, "[{}]({root}{path}.md)", plain(own)),
            Inline::CodeLink(own, path) => write!(out, "[{}]({root}{path}.md)", code(own)),
            Inline::Badge(level) => write!(out, "**{}**", RiskLevel::as_str(*level)),
        };
    }
    out
}

/// Text in which nothing is markup.
pub(super) fn plain(text: &str) -> String {
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

/// A name as code. What could end the code, or a cell of a table, is written as numbers of letters.
fn code(text: &str) -> String {
    let is_plain = |letter: char| letter.is_alphanumeric() || " _-./@:,=(){}\"'+*…".contains(letter);
    if text.chars().all(is_plain) && !text.starts_with(' ') && !text.ends_with(' ') {
        return format!("`{text}`");
    }
    html_code(text)
}

/// Foreign text as code in Markdown and in HTML: nothing in it is markup, and no cell of a table ends early.
pub fn html_code(text: &str) -> String {
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
