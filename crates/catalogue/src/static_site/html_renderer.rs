//! Renders pages as HTML. All text passes through a single escaping function.

use std::fmt::Write;

use super::page_document::{InlineTextRun, InlineTextRuns, PageBlock, PageDocument};
use crate::classify::RiskLevel;

/// The style sheet for all pages.
pub(super) const STYLE_CSS: &str = include_str!("style.css");

/// Maximum length in bytes of a fact that is displayed in a column. Longer facts take the full width.
const MAX_INLINE_FACT_BYTES: usize = 120;

/// Renders a page as HTML.
pub(super) fn render_html(doc: &PageDocument, footer: &str) -> String {
    let root = "../".repeat(doc.path.matches('/').count());
    let mut out = String::with_capacity(8 << 10);
    let (title, summary) = (escape_html(&doc.title), escape_html(&doc.summary));
    let markdown = format!("{}.md", doc.path.rsplit('/').next().unwrap_or_default());
    let _ = write!(
        out,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"script-src 'none'; object-src 'none'; base-uri 'none'\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}</title>\n\
         <meta name=\"description\" content=\"{summary}\">\n<link rel=\"icon\" href=\"data:,\">\n\
         <link rel=\"stylesheet\" href=\"{root}style.css\">\n\
         <link rel=\"alternate\" type=\"text/markdown\" href=\"{}\">\n</head>\n<body>\n\
         <a class=\"skip\" href=\"#main\">Skip to the content</a>\n",
        escape_html(&markdown)
    );
    head(&root, doc, &mut out);
    let _ = write!(out, "<main id=\"main\">\n<h1>{title}</h1>\n");
    for block in &doc.blocks {
        write_block(block, &root, &mut out);
    }
    let _ = write!(out, "</main>\n<footer><p>{}</p></footer>\n</body>\n</html>\n", escape_html(footer));
    out
}

fn head(root: &str, doc: &PageDocument, out: &mut String) {
    let places = [
        ("servers/index", "Servers"),
        ("risk/index", "Risk"),
        ("attacks/index", "Attacks"),
        ("incidents/index", "Incidents"),
        ("stack", "Stack"),
    ];
    let _ =
        write!(out, "<header><nav aria-label=\"Site\"><a class=\"home\" href=\"{root}index.html\">Catalogue</a><ul>");
    for (path, name) in places {
        let first = path.split('/').next().unwrap_or_default();
        let here = if doc.path.split('/').next() == Some(first) { " aria-current=\"true\"" } else { "" };
        let _ = write!(out, "<li><a href=\"{root}{path}.html\"{here}>{name}</a></li>");
    }
    out.push_str("</ul></nav></header>\n");
    if !doc.breadcrumbs.is_empty() {
        out.push_str("<nav class=\"trail\" aria-label=\"Breadcrumbs\"><ol>");
        for (name, path) in &doc.breadcrumbs {
            let _ = write!(out, "<li><a href=\"{root}{}.html\">{}</a></li>", escape_html(path), escape_html(name));
        }
        out.push_str("</ol></nav>\n");
    }
}

fn write_block(block: &PageBlock, root: &str, out: &mut String) {
    let line = |line: &InlineTextRuns| inline_html(line, root);
    let _ = match block {
        PageBlock::Paragraph(own) => writeln!(out, "<p>{}</p>", line(own)),
        PageBlock::Heading("", own) => writeln!(out, "<h2>{}</h2>", line(own)),
        PageBlock::Heading(id, own) => writeln!(out, "<h2 id=\"{id}\">{}</h2>", line(own)),
        PageBlock::Subheading(own) => writeln!(out, "<h3>{}</h3>", line(own)),
        PageBlock::List(own) => write_list("ul", own, root, out),
        PageBlock::NumberedList(own) => write_list("ol", own, root, out),
        PageBlock::Code(name, own) => {
            let (name, own) = (escape_html(name), escape_html(own.trim_end()));
            // Scrollable elements must be reachable by keyboard.
            writeln!(
                out,
                "<figure><figcaption>{name}</figcaption><pre tabindex=\"0\" aria-label=\"{name}\" role=\"group\"><code>{own}</code></pre></figure>"
            )
        }
        PageBlock::CollapsedCode(name, own) => {
            let (name, own) = (escape_html(name), escape_html(own.trim_end()));
            writeln!(
                out,
                "<details><summary>{}</summary><pre tabindex=\"0\" aria-label=\"{name}\" role=\"group\"><code>{own}</code></pre></details>",
                emphasize_label(&name)
            )
        }
        PageBlock::Table(head, rows) => write_table(head, rows, root, out),
        PageBlock::Facts(facts) => {
            out.push_str("<dl>");
            for (name, value) in facts {
                let value = line(value);
                // A column is too narrow for sentences.
                let wide = if value.len() > MAX_INLINE_FACT_BYTES { " class=\"wide\"" } else { "" };
                let _ = write!(out, "<div{wide}><dt>{name}</dt><dd>{value}</dd></div>");
            }
            writeln!(out, "</dl>")
        }
        PageBlock::CategoryBar(counts) => write_bar(counts, out),
        PageBlock::Grade(letter, reasons) => {
            let reasons: Vec<String> =
                reasons.iter().map(|reason| format!("<li>{}</li>", escape_html(reason))).collect();
            writeln!(
                out,
                "<div class=\"grade\"><p class=\"letter grade-{letter}\"><span>Grade</span> {letter}</p><ul>{}</ul></div>",
                reasons.concat()
            )
        }
        PageBlock::Questions(all) => {
            for (question, answer) in all {
                let _ = writeln!(
                    out,
                    "<details><summary><b>{}</b></summary><p>{}</p></details>",
                    escape_html(question),
                    line(answer)
                );
            }
            Ok(())
        }
    };
}

/// Emphasizes the part of a title before its colon.
fn emphasize_label(title: &str) -> String {
    match title.split_once(": ") {
        Some((first, rest)) => format!("<b>{first}</b>: {rest}"),
        None => format!("<b>{title}</b>"),
    }
}

fn write_list(tag: &str, items: &[InlineTextRuns], root: &str, out: &mut String) -> std::fmt::Result {
    let _ = write!(out, "<{tag}>");
    for item in items {
        let _ = write!(out, "<li>{}</li>", inline_html(item, root));
    }
    writeln!(out, "</{tag}>")
}

fn write_table(head: &[&str], rows: &[Vec<InlineTextRuns>], root: &str, out: &mut String) -> std::fmt::Result {
    out.push_str("<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"Table\"><table><thead><tr>");
    for name in head {
        let _ = write!(out, "<th scope=\"col\">{name}</th>");
    }
    out.push_str("</tr></thead><tbody>\n");
    for row in rows {
        out.push_str("<tr>");
        for cell in row {
            let _ = write!(out, "<td>{}</td>", inline_html(cell, root));
        }
        out.push_str("</tr>\n");
    }
    writeln!(out, "</tbody></table></div>")
}

/// Writes a bar that shows the share of each category, and describes the shares in words.
fn write_bar(counts: &[(&'static str, usize)], out: &mut String) -> std::fmt::Result {
    let all: usize = counts.iter().map(|(_, count)| count).sum();
    let mut at = 0.0;
    out.push_str("<svg class=\"bar\" viewBox=\"0 0 100 3\" preserveAspectRatio=\"none\" aria-hidden=\"true\">");
    for (name, count) in counts.iter().filter(|(_, count)| *count > 0) {
        let width = 100.0 * *count as f64 / all.max(1) as f64;
        let _ =
            write!(out, "<rect class=\"{}\" x=\"{at:.2}\" width=\"{width:.2}\" height=\"3\"/>", name.to_lowercase());
        at += width;
    }
    out.push_str("</svg>\n<ul class=\"key\">");
    for (name, count) in counts {
        let _ =
            write!(out, "<li class=\"{}\"><b>{}</b> {name}</li>", name.to_lowercase(), super::grouped_number(*count));
    }
    writeln!(out, "</ul>")
}

fn inline_html(line: &InlineTextRuns, root: &str) -> String {
    let mut out = String::new();
    for run in line {
        let _ = match run {
            InlineTextRun::Text(own) => write!(out, "{}", escape_html(own)),
            InlineTextRun::Code(own) => write!(out, "<code>{}</code>", escape_html(own)),
            InlineTextRun::Link(own, path) => write!(out, "<a href=\"{}\">{}</a>", href(root, path), escape_html(own)),
            InlineTextRun::CodeLink(own, path) => {
                write!(out, "<a href=\"{}\"><code>{}</code></a>", href(root, path), escape_html(own))
            }
            InlineTextRun::Badge(level) => {
                let word = RiskLevel::as_str(*level);
                write!(out, "<span class=\"badge {}\">{word}</span>", word.to_lowercase())
            }
        };
    }
    out
}

/// Returns the link target for a page on the site. `#name` refers to an anchor on the same page.
fn href(root: &str, path: &str) -> String {
    if path.starts_with('#') {
        return escape_html(path);
    }
    // Paths consist of characters that are valid in URLs.
    format!("{root}{}.html", escape_html(path))
}

/// Escapes text for HTML elements and attributes.
pub(super) fn escape_html(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            letter => out.push(letter),
        }
    }
    out
}
