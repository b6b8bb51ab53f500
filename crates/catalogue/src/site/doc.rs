//! A page before it is HTML or Markdown. Texts in it are plain; each form escapes them in its own way.

use crate::classify::RiskLevel;

/// A page.
#[derive(Debug)]
pub(super) struct Doc {
    /// Its place in the site, without an ending: `attacks/shadow-mcp`.
    pub path: String,
    pub title: String,
    /// What it says, in a line.
    pub summary: String,
    /// The way to it: names and places.
    pub trail: Vec<(String, String)>,
    pub blocks: Vec<Block>,
}

/// A run of text.
#[derive(Debug, Clone)]
pub(super) enum Inline {
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
pub(super) type Line = Vec<Inline>;

/// A part of a page.
#[derive(Debug)]
pub(super) enum Block {
    Paragraph(Line),
    /// A heading below the title's, with a name to jump to.
    Heading(&'static str, Line),
    /// One below that.
    Small(Line),
    List(Vec<Line>),
    Steps(Vec<Line>),
    /// A text to copy, and what it is called.
    Code(String, String),
    /// The same, folded away.
    Folded(String, String),
    Table(Vec<&'static str>, Vec<Vec<Line>>),
    /// Names and values.
    Facts(Vec<(&'static str, Line)>),
    /// How many tools of which category.
    Bar(Vec<(&'static str, usize)>),
    Grade(char, Vec<String>),
    Questions(Vec<(String, Line)>),
}

pub(super) fn text(text: impl Into<String>) -> Inline {
    Inline::Text(text.into())
}

pub(super) fn code(text: &str) -> Inline {
    Inline::Code(crate::escape_for_display(text))
}

pub(super) fn link(text: impl Into<String>, path: impl Into<String>) -> Inline {
    Inline::Link(text.into(), path.into())
}

pub(super) fn paragraph(line: impl Into<String>) -> Block {
    Block::Paragraph(vec![text(line)])
}

/// A sentence of ours with names in backticks, as runs.
pub(super) fn marked(sentence: &str) -> Line {
    let runs = sentence.split('`').enumerate().filter(|(_, run)| !run.is_empty());
    runs.map(|(at, run)| if at % 2 == 1 { Inline::Code(run.to_owned()) } else { text(run) }).collect()
}
