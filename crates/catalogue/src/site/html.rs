//! Pages as HTML. Whatever is text stays text: one function escapes, and everything goes through it.

use std::fmt::Write;

use super::doc::{Block, Doc, Inline, Line};
use crate::classify::RiskLevel;

/// The style of all pages.
pub(super) const STYLE: &str = include_str!("style.css");

/// The longest fact that has its place beside others, in bytes.
const LONGEST_FACT: usize = 120;

/// Writes a page.
pub(super) fn page(doc: &Doc, footer: &str) -> String {
    let root = "../".repeat(doc.path.matches('/').count());
    let mut out = String::with_capacity(8 << 10);
    let (title, summary) = (escaped(&doc.title), escaped(&doc.summary));
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
         <a class=\"skip\" href=\"#main\">Skip to the text</a>\n",
        escaped(&markdown)
    );
    head(&root, doc, &mut out);
    let _ = write!(out, "<main id=\"main\">\n<h1>{title}</h1>\n");
    for block in &doc.blocks {
        put(block, &root, &mut out);
    }
    let _ = write!(out, "</main>\n<footer><p>{}</p></footer>\n</body>\n</html>\n", escaped(footer));
    out
}

fn head(root: &str, doc: &Doc, out: &mut String) {
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
    if !doc.trail.is_empty() {
        out.push_str("<nav class=\"trail\" aria-label=\"Way to this page\"><ol>");
        for (name, path) in &doc.trail {
            let _ = write!(out, "<li><a href=\"{root}{}.html\">{}</a></li>", escaped(path), escaped(name));
        }
        out.push_str("</ol></nav>\n");
    }
}

fn put(block: &Block, root: &str, out: &mut String) {
    let line = |line: &Line| runs(line, root);
    let _ = match block {
        Block::Paragraph(own) => writeln!(out, "<p>{}</p>", line(own)),
        Block::Heading("", own) => writeln!(out, "<h2>{}</h2>", line(own)),
        Block::Heading(id, own) => writeln!(out, "<h2 id=\"{id}\">{}</h2>", line(own)),
        Block::Small(own) => writeln!(out, "<h3>{}</h3>", line(own)),
        Block::List(own) => list("ul", own, root, out),
        Block::Steps(own) => list("ol", own, root, out),
        Block::Code(name, own) => {
            let (name, own) = (escaped(name), escaped(own.trim_end()));
            // What can be scrolled can be reached by the keyboard.
            writeln!(
                out,
                "<figure><figcaption>{name}</figcaption><pre tabindex=\"0\" aria-label=\"{name}\" role=\"group\"><code>{own}</code></pre></figure>"
            )
        }
        Block::Folded(name, own) => {
            let (name, own) = (escaped(name), escaped(own.trim_end()));
            writeln!(
                out,
                "<details><summary>{}</summary><pre tabindex=\"0\" aria-label=\"{name}\" role=\"group\"><code>{own}</code></pre></details>",
                led(&name)
            )
        }
        Block::Table(head, rows) => table(head, rows, root, out),
        Block::Facts(facts) => {
            out.push_str("<dl>");
            for (name, value) in facts {
                let value = line(value);
                // A column is no place for sentences.
                let wide = if value.len() > LONGEST_FACT { " class=\"wide\"" } else { "" };
                let _ = write!(out, "<div{wide}><dt>{name}</dt><dd>{value}</dd></div>");
            }
            writeln!(out, "</dl>")
        }
        Block::Bar(counts) => bar(counts, out),
        Block::Grade(letter, reasons) => {
            let reasons: Vec<String> = reasons.iter().map(|reason| format!("<li>{}</li>", escaped(reason))).collect();
            writeln!(
                out,
                "<div class=\"grade\"><p class=\"letter grade-{letter}\"><span>Grade</span> {letter}</p><ul>{}</ul></div>",
                reasons.concat()
            )
        }
        Block::Questions(all) => {
            for (question, answer) in all {
                let _ = writeln!(
                    out,
                    "<details><summary><b>{}</b></summary><p>{}</p></details>",
                    escaped(question),
                    line(answer)
                );
            }
            Ok(())
        }
    };
}

/// A title with what stands before its colon in front.
fn led(title: &str) -> String {
    match title.split_once(": ") {
        Some((first, rest)) => format!("<b>{first}</b>: {rest}"),
        None => format!("<b>{title}</b>"),
    }
}

fn list(tag: &str, items: &[Line], root: &str, out: &mut String) -> std::fmt::Result {
    let _ = write!(out, "<{tag}>");
    for item in items {
        let _ = write!(out, "<li>{}</li>", runs(item, root));
    }
    writeln!(out, "</{tag}>")
}

fn table(head: &[&str], rows: &[Vec<Line>], root: &str, out: &mut String) -> std::fmt::Result {
    out.push_str("<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"Table\"><table><thead><tr>");
    for name in head {
        let _ = write!(out, "<th scope=\"col\">{name}</th>");
    }
    out.push_str("</tr></thead><tbody>\n");
    for row in rows {
        out.push_str("<tr>");
        for cell in row {
            let _ = write!(out, "<td>{}</td>", runs(cell, root));
        }
        out.push_str("</tr>\n");
    }
    writeln!(out, "</tbody></table></div>")
}

/// A bar in which each category has its share, and the same as words.
fn bar(counts: &[(&'static str, usize)], out: &mut String) -> std::fmt::Result {
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
        let _ = write!(out, "<li class=\"{}\"><b>{}</b> {name}</li>", name.to_lowercase(), super::grouped(*count));
    }
    writeln!(out, "</ul>")
}

fn runs(line: &Line, root: &str) -> String {
    let mut out = String::new();
    for run in line {
        let _ = match run {
            Inline::Text(own) => write!(out, "{}", escaped(own)),
            Inline::Code(own) => write!(out, "<code>{}</code>", escaped(own)),
            Inline::Link(own, path) => write!(out, "<a href=\"{}\">{}</a>", href(root, path), escaped(own)),
            Inline::CodeLink(own, path) => {
                write!(out, "<a href=\"{}\"><code>{}</code></a>", href(root, path), escaped(own))
            }
            Inline::Badge(level) => {
                let word = RiskLevel::as_str(*level);
                write!(out, "<span class=\"badge {}\">{word}</span>", word.to_lowercase())
            }
        };
    }
    out
}

/// Where a place in the site is from here; `#name` is on this page.
fn href(root: &str, path: &str) -> String {
    if path.starts_with('#') {
        return escaped(path);
    }
    // Places are made of letters, digits and signs that an address may have.
    format!("{root}{}.html", escaped(path))
}

/// Text as HTML, in elements and in attributes.
pub(super) fn escaped(text: &str) -> String {
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
