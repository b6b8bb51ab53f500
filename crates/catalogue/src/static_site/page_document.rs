//! The content of a page before it is rendered as HTML or Markdown. Texts are plain, and each renderer escapes them.

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
pub(super) enum InlineRun {
    Text(String),
    /// A name or other untrusted text, shown as code.
    Code(String),
    /// Text that links to a page on the site.
    Link(String, String),
    /// A name that links to a page on the site.
    CodeLink(String, String),
    Badge(RiskLevel),
}

/// A sequence of runs.
pub(super) type InlineRuns = Vec<InlineRun>;

/// A block on a page.
#[derive(Debug)]
pub(super) enum PageBlock {
    Paragraph(InlineRuns),
    /// A second-level heading with an anchor.
    Heading(&'static str, InlineRuns),
    /// A third-level heading.
    Subheading(InlineRuns),
    List(Vec<InlineRuns>),
    NumberedList(Vec<InlineRuns>),
    /// Text to copy, preceded by its title.
    Code(String, String),
    /// Like `Code`, but collapsed.
    CollapsedCode(String, String),
    Table(Vec<&'static str>, Vec<Vec<InlineRuns>>),
    /// A list of names and values.
    Facts(Vec<(&'static str, InlineRuns)>),
    /// A bar that shows the number of tools in each category.
    CategoryBar(Vec<(&'static str, usize)>),
    Grade(char, Vec<String>),
    Questions(Vec<(String, InlineRuns)>),
}

pub(super) fn text_run(text: impl Into<String>) -> InlineRun {
    InlineRun::Text(text.into())
}

pub(super) fn code_run(text: &str) -> InlineRun {
    InlineRun::Code(crate::escape_for_display(text))
}

pub(super) fn link_run(text: impl Into<String>, path: impl Into<String>) -> InlineRun {
    InlineRun::Link(text.into(), path.into())
}

pub(super) fn paragraph(line: impl Into<String>) -> PageBlock {
    PageBlock::Paragraph(vec![text_run(line)])
}

/// Splits a sentence into runs, in which names in backticks become code.
pub(super) fn parse_backticks(sentence: &str) -> InlineRuns {
    let runs = sentence.split('`').enumerate().filter(|(_, run)| !run.is_empty());
    runs.map(|(at, run)| if at % 2 == 1 { InlineRun::Code(run.to_owned()) } else { text_run(run) }).collect()
}
