//! Abstract page, before rendering to HTML or Markdown. Texts are plain; each renderer escapes them.

use crate::classify::RiskLevel;

/// A page.
#[derive(Debug)]
pub(super) struct PageDocument {
    /// Path in the site, without extension: `attacks/shadow-mcp`.
    pub path: String,
    pub title: String,
    /// One-line summary.
    pub summary: String,
    /// Breadcrumbs: names and paths.
    pub breadcrumbs: Vec<(String, String)>,
    pub blocks: Vec<PageBlock>,
}

/// A run of text.
#[derive(Debug, Clone)]
pub(super) enum InlineRun {
    Text(String),
    /// A name or foreign text, verbatim.
    Code(String),
    /// Text that links to a page of the site.
    Link(String, String),
    /// A name that links to a page of the site.
    CodeLink(String, String),
    Badge(RiskLevel),
}

/// Several runs.
pub(super) type InlineRuns = Vec<InlineRun>;

/// A block of a page.
#[derive(Debug)]
pub(super) enum PageBlock {
    Paragraph(InlineRuns),
    /// A second-level heading, with its anchor.
    Heading(&'static str, InlineRuns),
    /// A third-level heading.
    Subheading(InlineRuns),
    List(Vec<InlineRuns>),
    NumberedList(Vec<InlineRuns>),
    /// Text to copy, with its title.
    Code(String, String),
    /// Like `Code`, but collapsed.
    CollapsedCode(String, String),
    Table(Vec<&'static str>, Vec<Vec<InlineRuns>>),
    /// Names and values.
    Facts(Vec<(&'static str, InlineRuns)>),
    /// Number of tools by category.
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

/// Splits a sentence with names in backticks into runs.
pub(super) fn parse_backticks(sentence: &str) -> InlineRuns {
    let runs = sentence.split('`').enumerate().filter(|(_, run)| !run.is_empty());
    runs.map(|(at, run)| if at % 2 == 1 { InlineRun::Code(run.to_owned()) } else { text_run(run) }).collect()
}
