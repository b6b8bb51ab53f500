//! Findings and errors for people and for programs.

use std::io::Write;
use std::ops::Range;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use gatelodge_json::{LineColumn, is_unprintable};
use gatelodge_policy::{Diagnostic, DiagnosticCode, Severity};
use serde::Serialize;

use crate::file::Source;

/// Of longer lines only the part around the fault is shown.
const LONGEST_LINE: usize = 400;
/// So many characters on either side.
const EXCERPT: usize = 40;
/// More findings of one document are counted, not shown. The engine tells 200 errors, and that there are more.
const MOST_FAULTS: usize = 201;

/// A finding of any kind of document, as it is shown.
#[derive(Debug, Clone)]
pub struct Remark<'a> {
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
    pub other: Option<(Range<usize>, &'a str)>,
}

impl<'a> From<&'a Diagnostic> for Remark<'a> {
    fn from(fault: &'a Diagnostic) -> Self {
        Self {
            code: fault.code.as_str(),
            severity: fault.severity,
            span: fault.span.clone(),
            message: &fault.message,
            help: fault.help.as_deref(),
            other: fault.related.as_ref().map(|(span, label)| (span.clone(), label.as_str())),
        }
    }
}

/// One finding, for programs.
#[derive(Debug, Serialize)]
pub struct Finding<'a> {
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

impl<'a> Finding<'a> {
    /// Tells a finding of a source.
    pub fn new(source: &'a Source, remark: impl Into<Remark<'a>>) -> Self {
        let remark = remark.into();
        let (start, end) =
            (LineColumn::of(&source.text, remark.span.start), LineColumn::of(&source.text, remark.span.end));
        Self {
            file: &source.name,
            line: start.line,
            column: start.column,
            end_line: end.line,
            end_column: end.column,
            severity: severity(remark.severity),
            code: remark.code,
            message: remark.message,
            help: remark.help,
        }
    }
}

impl Finding<'_> {
    /// The finding on one line, for logs.
    pub fn line(&self) -> String {
        let (file, message) = (shown(self.file), shown(self.message));
        format!("{file}:{}:{}: {}[{}]: {message}", self.line, self.column, self.severity, self.code)
    }
}

fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    }
}

/// Prints an error that ended a command.
pub fn error(error: &anyhow::Error) {
    say(&format!("error: {}", shown(&format!("{error:#}"))));
}

/// Prints findings with the text they are about, the offending part underlined.
pub fn faults<'f>(source: &Source, faults: impl IntoIterator<Item = impl Into<Remark<'f>>>) {
    let mut rest = 0;
    for (number, fault) in faults.into_iter().enumerate() {
        if number < MOST_FAULTS {
            say(&format!("{}\n", render(source, &fault.into())));
        } else {
            rest += 1;
        }
    }
    if rest > 0 {
        say(&format!("and {rest} more\n"));
    }
}

/// Says something on standard error. If nobody can hear it, the exit code still tells.
pub fn say(text: &str) {
    let _ = writeln!(anstream::stderr().lock(), "{text}");
}

/// A number and what it counts: `1 policy`, `2 policies`.
pub fn counted(count: usize, noun: &str) -> String {
    match (count, noun.strip_suffix('y')) {
        (1, _) => format!("1 {noun}"),
        (_, Some(stem)) => format!("{count} {stem}ies"),
        (_, None) => format!("{count} {noun}s"),
    }
}

/// Foreign text on one line, with everything that a terminal would act on or not show written out.
pub fn shown(text: &str) -> String {
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
pub fn render(source: &Source, remark: &Remark<'_>) -> String {
    let Some((line_start, text, span)) = lines(&source.text, &remark.span) else { return plain(source, remark) };
    let level = match remark.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let snippet =
        Snippet::source(text).path(&source.name).line_start(line_start).annotation(AnnotationKind::Primary.span(span));
    let mut group: Group<'_> = level.primary_title(remark.message).id(remark.code).element(snippet);
    if let Some((other, label)) = &remark.other
        && let Some((line_start, text, span)) = lines(&source.text, other)
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
fn plain(source: &Source, remark: &Remark<'_>) -> String {
    let place = LineColumn::of(&source.text, remark.span.start);
    let help = remark.help.map(|help| format!("\n  help: {}", shown(help))).unwrap_or_default();
    let (code, name, message) = (remark.code, shown(&source.name), shown(remark.message));
    let excerpt = excerpt(&source.text, &remark.span).unwrap_or_default();
    let severity = severity(remark.severity);
    if code == DiagnosticCode::UnreadableFile.as_str() && source.text.is_empty() {
        // The file itself; its name is in the message, and there is no place in it.
        return format!("{severity}[{code}]: {message}{help}");
    }
    format!("{severity}[{code}]: {message}\n  --> {name}:{}:{}{excerpt}{help}", place.line, place.column)
}

/// What stands around a span, with the span underlined.
fn excerpt(text: &[u8], span: &Range<usize>) -> Option<String> {
    let text = str::from_utf8(text).ok()?;
    let of_line = |part: &str| part.lines().next().unwrap_or_default().to_owned();
    let before: String = text.get(..span.start)?.rsplit('\n').next()?.chars().rev().take(EXCERPT).collect();
    let before: String = shown(&before.chars().rev().collect::<String>());
    let inside: String = shown(&of_line(text.get(span.clone())?)).chars().take(EXCERPT).collect();
    let behind: String = shown(&of_line(text.get(span.end..)?)).chars().take(EXCERPT).collect();
    if before.is_empty() && inside.is_empty() && behind.is_empty() {
        return None;
    }
    let carets = "^".repeat(inside.chars().count().max(1));
    Some(format!("\n   | …{before}{inside}{behind}…\n   |  {}{carets}", " ".repeat(before.chars().count())))
}

/// The line that a span begins in, its number, and the span within it; none if it is long, empty or no text.
fn lines<'a>(text: &'a [u8], span: &Range<usize>) -> Option<(usize, &'a str, Range<usize>)> {
    let text = str::from_utf8(text).ok()?;
    let begin = text.get(..span.start)?.rfind('\n').map_or(0, |at| at + 1);
    let rest = text.get(span.start..)?;
    let first_end = rest.find('\n').map_or(text.len(), |at| span.start + at);
    // A span over many lines is shown by its first.
    let end = if span.end <= first_end { span.end } else { first_end };
    let shown = text.get(begin..first_end)?;
    if shown.len() > LONGEST_LINE || shown.trim().is_empty() {
        return None;
    }
    let line = LineColumn::of(text.as_bytes(), begin).line;
    Some((line, shown, span.start - begin..end.max(span.start) - begin))
}
