//! The content of a page before it is rendered as HTML or Markdown. Its strings are not escaped; each renderer escapes
//! them for its format.

use crate::classify::RiskLevel;

/// A page.
#[derive(Debug)]
pub(super) struct PageDocument {
    /// Path within the site, without the extension: `attacks/shadow-mcp`.
    pub path: String,
    pub title: String,
    /// One-line summary.
    pub summary: String,
    /// Breadcrumbs, as pairs of name and path.
    pub breadcrumbs: Vec<(String, String)>,
    pub blocks: Vec<PageBlock>,
}

/// A run of inline text.
#[derive(Debug, Clone)]
pub(super) enum InlineTextRun {
    Text(String),
    /// A name or other untrusted text, shown as code.
    Code(String),
    /// Text that links to a page on the site.
    Link(String, String),
    /// A name that links to a page on the site.
    CodeLink(String, String),
    Badge(RiskLevel),
}

/// A sequence of inline text runs.
pub(super) type InlineTextRuns = Vec<InlineTextRun>;

/// A block on a page.
#[derive(Debug)]
pub(super) enum PageBlock {
    Paragraph(InlineTextRuns),
    /// A second-level heading with an anchor.
    Heading(&'static str, InlineTextRuns),
    /// A third-level heading.
    Subheading(InlineTextRuns),
    List(Vec<InlineTextRuns>),
    NumberedList(Vec<InlineTextRuns>),
    /// A title, and a block of text for the reader to copy.
    Code(String, String),
    /// Like `Code`, but collapsed.
    CollapsedCode(String, String),
    Table(Vec<&'static str>, Vec<Vec<InlineTextRuns>>),
    /// A list of names and values.
    Facts(Vec<(&'static str, InlineTextRuns)>),
    /// A bar that shows the number of tools in each category.
    CategoryBar(Vec<(&'static str, usize)>),
    Grade(char, Vec<String>),
    Questions(Vec<(String, InlineTextRuns)>),
}

pub(super) fn text_run(text: impl Into<String>) -> InlineTextRun {
    InlineTextRun::Text(text.into())
}

pub(super) fn code_run(text: &str) -> InlineTextRun {
    InlineTextRun::Code(crate::escape_for_display(text))
}

pub(super) fn link_run(text: impl Into<String>, path: impl Into<String>) -> InlineTextRun {
    InlineTextRun::Link(text.into(), path.into())
}

pub(super) fn paragraph(line: impl Into<String>) -> PageBlock {
    PageBlock::Paragraph(vec![text_run(line)])
}

/// Splits a sentence into runs, in which names in backticks become code.
pub(super) fn parse_backticks(sentence: &str) -> InlineTextRuns {
    let runs = sentence.split('`').enumerate().filter(|(_, run)| !run.is_empty());
    runs.map(|(at, run)| if at % 2 == 1 { InlineTextRun::Code(run.to_owned()) } else { text_run(run) }).collect()
}
