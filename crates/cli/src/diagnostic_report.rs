//! Findings and errors for people and for programs.

use std::io::Write;
use std::ops::Range;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use gatelodge_json::{LineColumn, is_unprintable};
use gatelodge_policy::{Diagnostic, DiagnosticCode, Severity};
use serde::Serialize;

use crate::source_file::NamedSource;

/// Of longer lines only the part around the fault is shown.
const MAX_SNIPPET_LINE_BYTES: usize = 400;
/// So many characters on either side.
const EXCERPT_CHARS: usize = 40;
/// More findings of one document are counted, not shown. The engine tells 200 errors, and that there are more.
const MAX_PRINTED_DIAGNOSTICS: usize = 201;

/// A finding of any kind of document, as it is shown.
#[derive(Debug, Clone)]
pub struct DiagnosticRef<'a> {
    /// What kind; stable over versions.
    pub code: &'static str,
    /// Whether the document can be used all the same.
    pub severity: Severity,
    /// The offending text, in bytes.
    pub span: Range<usize>,
    /// What is wrong, in one line.
    pub message: &'a str,
    /// What to do about it.
    pub help: Option<&'a str>,
    /// A second place that has to do with it, with a word on it.
    pub related: Option<(Range<usize>, &'a str)>,
}

impl<'a> From<&'a Diagnostic> for DiagnosticRef<'a> {
    fn from(fault: &'a Diagnostic) -> Self {
        Self {
            code: fault.code.as_str(),
            severity: fault.severity,
            span: fault.span.clone(),
            message: &fault.message,
            help: fault.help.as_deref(),
            related: fault.related.as_ref().map(|(span, label)| (span.clone(), label.as_str())),
        }
    }
}

/// One finding, for programs.
#[derive(Debug, Serialize)]
pub struct DiagnosticJson<'a> {
    file: &'a str,
    line: usize,
    column: usize,
    end_line: usize,
    end_column: usize,
    severity: &'static str,
    code: &'static str,
    message: &'a str,
    help: Option<&'a str>,
}

impl<'a> DiagnosticJson<'a> {
    /// Tells a finding of a source.
    pub fn new(source: &'a NamedSource, remark: impl Into<DiagnosticRef<'a>>) -> Self {
        let remark = remark.into();
        let (start, end) =
            (LineColumn::of(&source.text, remark.span.start), LineColumn::of(&source.text, remark.span.end));
        Self {
            file: &source.name,
            line: start.line,
            column: start.column,
            end_line: end.line,
            end_column: end.column,
            severity: severity_name(remark.severity),
            code: remark.code,
            message: remark.message,
            help: remark.help,
        }
    }
}

impl DiagnosticJson<'_> {
    /// The finding on one line, for logs.
    pub fn log_line(&self) -> String {
        let (file, message) = (escape_for_terminal(self.file), escape_for_terminal(self.message));
        format!("{file}:{}:{}: {}[{}]: {message}", self.line, self.column, self.severity, self.code)
    }
}

fn severity_name(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    }
}

/// Prints an error that ended a command.
pub fn print_error(error: &anyhow::Error) {
    print_stderr(&format!("error: {}", escape_for_terminal(&format!("{error:#}"))));
}

/// Prints findings with the text they are about, the offending part underlined.
pub fn print_diagnostics<'f>(source: &NamedSource, faults: impl IntoIterator<Item = impl Into<DiagnosticRef<'f>>>) {
    let mut rest = 0;
    for (number, fault) in faults.into_iter().enumerate() {
        if number < MAX_PRINTED_DIAGNOSTICS {
            print_stderr(&format!("{}\n", render_diagnostic(source, &fault.into())));
        } else {
            rest += 1;
        }
    }
    if rest > 0 {
        print_stderr(&format!("and {rest} more\n"));
    }
}

/// Says something on standard error. If nobody can hear it, the exit code still tells.
pub fn print_stderr(text: &str) {
    let _ = writeln!(anstream::stderr().lock(), "{text}");
}

/// A number and what it counts: `1 policy`, `2 policies`.
pub fn count_noun(count: usize, noun: &str) -> String {
    match (count, noun.strip_suffix('y')) {
        (1, _) => format!("1 {noun}"),
        (_, Some(stem)) => format!("{count} {stem}ies"),
        (_, None) => format!("{count} {noun}s"),
    }
}

/// Foreign text on one line, with everything that a terminal would act on or not show written out.
pub fn escape_for_terminal(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        if is_unprintable(character) {
            out.extend(character.escape_unicode());
        } else {
            out.push(character);
        }
    }
    out
}

/// A finding as people see it.
pub fn render_diagnostic(source: &NamedSource, remark: &DiagnosticRef<'_>) -> String {
    let Some((line_start, text, span)) = find_snippet_line(&source.text, &remark.span) else {
        return render_without_snippet(source, remark);
    };
    let level = match remark.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let snippet =
        Snippet::source(text).path(&source.name).line_start(line_start).annotation(AnnotationKind::Primary.span(span));
    let mut group: Group<'_> = level.primary_title(remark.message).id(remark.code).element(snippet);
    if let Some((other, label)) = &remark.related
        && let Some((line_start, text, span)) = find_snippet_line(&source.text, other)
    {
        let annotation = AnnotationKind::Context.span(span).label(*label);
        group = group.element(Snippet::source(text).path(&source.name).line_start(line_start).annotation(annotation));
    }
    if let Some(help) = remark.help {
        group = group.element(Level::HELP.message(help));
    }
    Renderer::styled().render(&[group])
}

/// The finding where its line is too long to be shown, or is no text: the part around it, if there is one.
fn render_without_snippet(source: &NamedSource, remark: &DiagnosticRef<'_>) -> String {
    let place = LineColumn::of(&source.text, remark.span.start);
    let help = remark.help.map(|help| format!("\n  help: {}", escape_for_terminal(help))).unwrap_or_default();
    let (code, name, message) = (remark.code, escape_for_terminal(&source.name), escape_for_terminal(remark.message));
    let excerpt = source_excerpt(&source.text, &remark.span).unwrap_or_default();
    let severity = severity_name(remark.severity);
    if code == DiagnosticCode::UnreadableFile.as_str() && source.text.is_empty() {
        // The file itself; its name is in the message, and there is no place in it.
        return format!("{severity}[{code}]: {message}{help}");
    }
    format!("{severity}[{code}]: {message}\n  --> {name}:{}:{}{excerpt}{help}", place.line, place.column)
}

/// What stands around a span, with the span underlined.
fn source_excerpt(text: &[u8], span: &Range<usize>) -> Option<String> {
    let text = str::from_utf8(text).ok()?;
    let of_line = |part: &str| part.lines().next().unwrap_or_default().to_owned();
    let before: String = text.get(..span.start)?.rsplit('\n').next()?.chars().rev().take(EXCERPT_CHARS).collect();
    let before: String = escape_for_terminal(&before.chars().rev().collect::<String>());
    let inside: String = escape_for_terminal(&of_line(text.get(span.clone())?)).chars().take(EXCERPT_CHARS).collect();
    let behind: String = escape_for_terminal(&of_line(text.get(span.end..)?)).chars().take(EXCERPT_CHARS).collect();
    if before.is_empty() && inside.is_empty() && behind.is_empty() {
        return None;
    }
    let carets = "^".repeat(inside.chars().count().max(1));
    Some(format!("\n   | …{before}{inside}{behind}…\n   |  {}{carets}", " ".repeat(before.chars().count())))
}

/// The line that a span begins in, its number, and the span within it; none if it is long, empty or no text.
fn find_snippet_line<'a>(text: &'a [u8], span: &Range<usize>) -> Option<(usize, &'a str, Range<usize>)> {
    let text = str::from_utf8(text).ok()?;
    let begin = text.get(..span.start)?.rfind('\n').map_or(0, |at| at + 1);
    let rest = text.get(span.start..)?;
    let first_end = rest.find('\n').map_or(text.len(), |at| span.start + at);
    // A span over many lines is shown by its first.
    let end = if span.end <= first_end { span.end } else { first_end };
    let shown = text.get(begin..first_end)?;
    if shown.len() > MAX_SNIPPET_LINE_BYTES || shown.trim().is_empty() {
        return None;
    }
    let line = LineColumn::of(text.as_bytes(), begin).line;
    Some((line, shown, span.start - begin..end.max(span.start) - begin))
}
