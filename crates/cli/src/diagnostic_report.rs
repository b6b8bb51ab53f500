//! Prints diagnostics and errors, as text or JSON.

use std::io::Write;
use std::ops::Range;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use gatelodge_json::{LineColumn, is_unprintable};
use gatelodge_policy::{Diagnostic, DiagnosticCode, Severity};
use serde::Serialize;

use crate::input_file::InputFileText;

/// Maximum length of a line that is shown in full. Of a longer line, only the part around the error is shown.
const MAX_SNIPPET_LINE_BYTES: usize = 400;
/// Number of characters shown on either side of the error.
const EXCERPT_CHARS: usize = 40;
/// Maximum number of diagnostics printed for a document; any others are only counted. It leaves room for the 200 errors
/// that the policy parser reports at most, and for its message that there are more.
const MAX_PRINTED_DIAGNOSTICS: usize = 201;

/// A diagnostic for any kind of document.
#[derive(Debug, Clone)]
pub struct DiagnosticRef<'a> {
    /// The code, which does not change between versions.
    pub code: &'static str,
    /// Severity, which says whether the document can be used despite the diagnostic.
    pub severity: Severity,
    /// Byte range of the offending text.
    pub span: Range<usize>,
    /// The problem in one line.
    pub message: &'a str,
    /// How to fix the problem.
    pub help: Option<&'a str>,
    /// A related location, with a label.
    pub related: Option<(Range<usize>, &'a str)>,
}

impl<'a> From<&'a Diagnostic> for DiagnosticRef<'a> {
    fn from(diagnostic: &'a Diagnostic) -> Self {
        Self {
            code: diagnostic.code.as_str(),
            severity: diagnostic.severity,
            span: diagnostic.span.clone(),
            message: &diagnostic.message,
            help: diagnostic.help.as_deref(),
            related: diagnostic.related.as_ref().map(|(span, label)| (span.clone(), label.as_str())),
        }
    }
}

/// A diagnostic for JSON output.
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
    /// Builds the JSON form of a diagnostic for `source`.
    pub fn new(source: &'a InputFileText, diagnostic: impl Into<DiagnosticRef<'a>>) -> Self {
        let diagnostic = diagnostic.into();
        let (start, end) =
            (LineColumn::of(&source.text, diagnostic.span.start), LineColumn::of(&source.text, diagnostic.span.end));
        Self {
            file: &source.name,
            line: start.line,
            column: start.column,
            end_line: end.line,
            end_column: end.column,
            severity: severity_name(diagnostic.severity),
            code: diagnostic.code,
            message: diagnostic.message,
            help: diagnostic.help,
        }
    }
}

impl DiagnosticJson<'_> {
    /// Formats the diagnostic as one line, for logs.
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

/// Prints diagnostics with the lines they refer to, underlining the offending text.
pub fn print_diagnostics<'f>(
    source: &InputFileText,
    diagnostics: impl IntoIterator<Item = impl Into<DiagnosticRef<'f>>>,
) {
    let mut rest = 0;
    for (number, diagnostic) in diagnostics.into_iter().enumerate() {
        if number < MAX_PRINTED_DIAGNOSTICS {
            print_stderr(&format!("{}\n", render_diagnostic(source, &diagnostic.into())));
        } else {
            rest += 1;
        }
    }
    if rest > 0 {
        print_stderr(&format!("and {rest} more\n"));
    }
}

/// Prints to standard error. Write errors are ignored: the exit code still reports the result.
pub fn print_stderr(text: &str) {
    let _ = writeln!(anstream::stderr().lock(), "{text}");
}

/// Formats a number with its noun: `1 policy`, `2 policies`.
pub fn count_noun(count: usize, noun: &str) -> String {
    match (count, noun.strip_suffix('y')) {
        (1, _) => format!("1 {noun}"),
        (_, Some(stem)) => format!("{count} {stem}ies"),
        (_, None) => format!("{count} {noun}s"),
    }
}

/// Escapes control and invisible characters, so that untrusted text stays on one line and cannot control the terminal.
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

/// Renders a diagnostic as text.
pub fn render_diagnostic(source: &InputFileText, diagnostic: &DiagnosticRef<'_>) -> String {
    let Some((line_start, text, span)) = find_snippet_line(&source.text, &diagnostic.span) else {
        return render_without_snippet(source, diagnostic);
    };
    let level = match diagnostic.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let snippet =
        Snippet::source(text).path(&source.name).line_start(line_start).annotation(AnnotationKind::Primary.span(span));
    let mut group: Group<'_> = level.primary_title(diagnostic.message).id(diagnostic.code).element(snippet);
    if let Some((other, label)) = &diagnostic.related
        && let Some((line_start, text, span)) = find_snippet_line(&source.text, other)
    {
        let annotation = AnnotationKind::Context.span(span).label(*label);
        group = group.element(Snippet::source(text).path(&source.name).line_start(line_start).annotation(annotation));
    }
    if let Some(help) = diagnostic.help {
        group = group.element(Level::HELP.message(help));
    }
    Renderer::styled().render(&[group])
}

/// Renders a diagnostic whose line is too long or not valid UTF-8, with an excerpt if possible.
fn render_without_snippet(source: &InputFileText, diagnostic: &DiagnosticRef<'_>) -> String {
    let location = LineColumn::of(&source.text, diagnostic.span.start);
    let help = diagnostic.help.map(|help| format!("\n  help: {}", escape_for_terminal(help))).unwrap_or_default();
    let (code, name, message) =
        (diagnostic.code, escape_for_terminal(&source.name), escape_for_terminal(diagnostic.message));
    let excerpt = source_excerpt(&source.text, &diagnostic.span).unwrap_or_default();
    let severity = severity_name(diagnostic.severity);
    if code == DiagnosticCode::UnreadableFile.as_str() && source.text.is_empty() {
        // The file itself cannot be read: its name is in the message, and there is no location.
        return format!("{severity}[{code}]: {message}{help}");
    }
    format!("{severity}[{code}]: {message}\n  --> {name}:{}:{}{excerpt}{help}", location.line, location.column)
}

/// Returns an excerpt around a span, with the span underlined.
fn source_excerpt(text: &[u8], span: &Range<usize>) -> Option<String> {
    let text = str::from_utf8(text).ok()?;
    let first_line = |part: &str| part.lines().next().unwrap_or_default().to_owned();
    let before: String = text.get(..span.start)?.rsplit('\n').next()?.chars().rev().take(EXCERPT_CHARS).collect();
    let before: String = escape_for_terminal(&before.chars().rev().collect::<String>());
    let inside: String =
        escape_for_terminal(&first_line(text.get(span.clone())?)).chars().take(EXCERPT_CHARS).collect();
    let after: String = escape_for_terminal(&first_line(text.get(span.end..)?)).chars().take(EXCERPT_CHARS).collect();
    if before.is_empty() && inside.is_empty() && after.is_empty() {
        return None;
    }
    let carets = "^".repeat(inside.chars().count().max(1));
    Some(format!("\n   | …{before}{inside}{after}…\n   |  {}{carets}", " ".repeat(before.chars().count())))
}

/// Returns the number and text of the line in which a span starts, and the span relative to that line. Returns `None`
/// if the line is too long, empty or not UTF-8.
fn find_snippet_line<'a>(text: &'a [u8], span: &Range<usize>) -> Option<(usize, &'a str, Range<usize>)> {
    let text = str::from_utf8(text).ok()?;
    let begin = text.get(..span.start)?.rfind('\n').map_or(0, |at| at + 1);
    let rest = text.get(span.start..)?;
    let first_end = rest.find('\n').map_or(text.len(), |at| span.start + at);
    // Of a span over several lines, only the first is shown.
    let end = if span.end <= first_end { span.end } else { first_end };
    let shown = text.get(begin..first_end)?;
    if shown.len() > MAX_SNIPPET_LINE_BYTES || shown.trim().is_empty() {
        return None;
    }
    let line = LineColumn::of(text.as_bytes(), begin).line;
    Some((line, shown, span.start - begin..end.max(span.start) - begin))
}
