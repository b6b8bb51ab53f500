//! The tools: what each is called, what it takes, which endpoint of the image it asks, and what it may do there.

mod tool_table;

pub(crate) use tool_table::TOOLS;

/// A tool.
#[derive(Debug)]
pub(crate) struct PharoTool {
    pub name: &'static str,
    pub title: &'static str,
    pub description: &'static str,
    pub parameters: &'static [PharoParameter],
    /// The path that is asked, and no other.
    pub endpoint: &'static str,
    pub verb: HttpVerb,
    pub effect: ToolEffect,
    pub result_kind: ToolResultKind,
    /// Whether it may take minutes.
    pub is_long_running: bool,
}

/// A parameter, in the order in which it is sent.
#[derive(Debug)]
pub(crate) struct PharoParameter {
    pub name: &'static str,
    /// What the image calls it.
    pub sent_as: &'static str,
    pub kind: PharoParameterType,
    pub description: &'static str,
}

/// What a parameter may be, and what it is when it is absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PharoParameterType {
    /// A text that must be there.
    Text,
    /// A text with a default.
    TextWithDefault(&'static str),
    /// A text that is not sent when it is absent, null or empty.
    OptionalText,
    /// A truth value with a default.
    Flag(bool),
    /// An object that must be there.
    Object,
}

/// How the image is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HttpVerb {
    /// GET with a query.
    Get,
    /// POST with a JSON body.
    Post,
}

/// What a call may do, for the annotations. In doubt the worse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ToolEffect {
    /// Looks, and changes nothing.
    ReadsOnly,
    /// Looks, and leaves a picture behind.
    CapturesScreen,
    /// Changes settings; what was set before is gone.
    ChangesSettings,
    /// Writes files, over those of the same name.
    WritesFiles,
    /// Runs code, which may do anything.
    RunsCode,
}

/// What the image gives for a success.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ToolResultKind {
    /// Whatever the code answers.
    Anything,
    /// A text.
    Text,
    /// A list of names.
    Names,
    /// A list of methods, each with class, method and package.
    Methods,
    /// An object.
    Object,
}

impl PharoTool {
    /// The tool of this exact name.
    pub fn find(name: &str) -> Option<&'static Self> {
        TOOLS.iter().find(|tool| tool.name == name)
    }
}
