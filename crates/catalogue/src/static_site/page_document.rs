//! A page before it is HTML or Markdown. Texts in it are plain; each form escapes them in its own way.

use crate::classify::RiskLevel;

/// A page.
#[derive(Debug)]
pub(super) struct PageDocument {
    /// Its place in the site, without an ending: `attacks/shadow-mcp`.
    pub path: String,
    pub title: String,
    /// What it says, in a line.
    pub summary: String,
    /// The way to it: names and places.
    pub breadcrumbs: Vec<(String, String)>,
    pub blocks: Vec<PageBlock>,
}

/// A run of text.
#[derive(Debug, Clone)]
pub(super) enum InlineRun {
    Text(String),
    /// A name or a text of others, as it stands.
    Code(String),
    /// A text that leads to a place in the site.
    Link(String, String),
    /// The same for a name.
    CodeLink(String, String),
    Badge(RiskLevel),
}

/// Several runs.
pub(super) type InlineRuns = Vec<InlineRun>;

/// A part of a page.
#[derive(Debug)]
pub(super) enum PageBlock {
    Paragraph(InlineRuns),
    /// A heading below the title's, with a name to jump to.
    Heading(&'static str, InlineRuns),
    /// One below that.
    Subheading(InlineRuns),
    List(Vec<InlineRuns>),
    NumberedList(Vec<InlineRuns>),
    /// A text to copy, and what it is called.
    Code(String, String),
    /// The same, folded away.
    CollapsedCode(String, String),
    Table(Vec<&'static str>, Vec<Vec<InlineRuns>>),
    /// Names and values.
    Facts(Vec<(&'static str, InlineRuns)>),
    /// How many tools of which category.
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

/// A sentence of ours with names in backticks, as runs.
pub(super) fn parse_backticks(sentence: &str) -> InlineRuns {
    let runs = sentence.split('`').enumerate().filter(|(_, run)| !run.is_empty());
    runs.map(|(at, run)| if at % 2 == 1 { InlineRun::Code(run.to_owned()) } else { text_run(run) }).collect()
}
