//! Prints diagnostics and errors as text.

use std::io::Write;
use std::ops::Range;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use gatelodge_json::LineColumn;
use gatelodge_policy::{DiagnosticCode, Severity};
use gatelodge_server::DiagnosticRef;
use gatelodge_server::config::ConfigDiagnostics;
use gatelodge_server::input_file::InputFileText;

pub use gatelodge_json::escape_for_terminal;
pub use gatelodge_server::count_noun;

/// Maximum length of a line that is shown in full. Of a longer line, only the part around the error is shown.
const MAX_SNIPPET_LINE_BYTES: usize = 400;
/// Number of characters shown on either side of the error.
const EXCERPT_CHARS: usize = 40;
/// Maximum number of diagnostics printed for a document; any others are only counted. It leaves room for the 200 errors
/// that the policy parser reports at most, and for its message that there are more.
const MAX_PRINTED_DIAGNOSTICS: usize = 201;

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

/// Prints the diagnostics of a configuration file and its policies.
pub fn print_config_diagnostics(diagnostics: &ConfigDiagnostics) {
    for (source, diagnostics) in diagnostics.documents() {
        print_diagnostics(source, diagnostics);
    }
}

/// Prints to standard error. Write errors are ignored: the exit code still reports the result.
pub fn print_stderr(text: &str) {
    let _ = writeln!(anstream::stderr().lock(), "{text}");
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
    let severity = diagnostic.severity_name();
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
