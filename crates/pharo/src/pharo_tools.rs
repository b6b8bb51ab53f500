//! Tool definitions: name, parameters, endpoint in the image, and effect.

mod tool_table;

pub(crate) use tool_table::TOOLS;

/// A tool that this server offers.
#[derive(Debug)]
pub(crate) struct PharoTool {
    pub name: &'static str,
    pub title: &'static str,
    pub description: &'static str,
    pub parameters: &'static [PharoParameter],
    /// The only path on the image's interop server that the tool requests.
    pub endpoint: &'static str,
    pub verb: HttpVerb,
    pub effect: ToolEffect,
    pub result_kind: ReturnedValueKind,
    /// Whether a call may take minutes.
    pub is_long_running: bool,
}

/// A tool parameter. Parameters are sent in the order of the table.
#[derive(Debug)]
pub(crate) struct PharoParameter {
    pub name: &'static str,
    /// The parameter's name in requests to the image.
    pub sent_as: &'static str,
    pub kind: PharoParameterType,
    pub description: &'static str,
}

/// A parameter's type and default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PharoParameterType {
    /// A required string.
    Text,
    /// A string with a default.
    TextWithDefault(&'static str),
    /// A string that is left out of the request if it is absent, null or empty.
    OptionalText,
    /// A boolean with a default.
    Flag(bool),
    /// A required object.
    Object,
}

/// HTTP method of a request to the image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HttpVerb {
    /// GET with a query.
    Get,
    /// POST with a JSON body.
    Post,
}

/// A call's effect, for the tool annotations. If in doubt, the more harmful one is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ToolEffect {
    /// Only reads, and changes nothing.
    ReadsOnly,
    /// Reads, but leaves a screenshot file behind.
    CapturesScreen,
    /// Overwrites settings.
    ChangesSettings,
    /// Writes files, overwriting those with the same name.
    WritesFiles,
    /// Runs code, which may do anything.
    RunsCode,
}

/// The kind of value that a successful call returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReturnedValueKind {
    /// The value of the evaluated code, of any type.
    Anything,
    /// A string.
    Text,
    /// A list of names.
    Names,
    /// A list of methods, each with class, method and package.
    Methods,
    /// An object.
    Object,
}

impl PharoTool {
    /// Returns the tool with exactly this name.
    pub fn find(name: &str) -> Option<&'static Self> {
        TOOLS.iter().find(|tool| tool.name == name)
    }
}
