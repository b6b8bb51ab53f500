//! Validates the arguments of a call: required arguments are present, types match, and there are no unknown arguments.

use gatelodge_json::{JsonKind as Json, JsonValue};
use gatelodge_mcp::quote_excerpt;

use crate::pharo_tools::{PharoParameter, PharoParameterType, PharoTool};

/// An argument to send to the image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PharoArgument {
    Text(String),
    Flag(bool),
    /// A JSON object, exactly as the client sent it.
    Object(String),
}

/// Names and values of the arguments to send to the image, in the order of the tool table.
pub(crate) type PharoArguments = Vec<(&'static str, PharoArgument)>;

/// Reads the arguments of a call.
///
/// If `is_lenient`, a boolean may also be a string or number, such as `yes` or 1, as in the interop project's own MCP
/// server.
///
/// # Errors
/// Returns a message that lists all problems.
pub(crate) fn read(tool: &PharoTool, given: Option<JsonValue<'_>>, is_lenient: bool) -> Result<PharoArguments, String> {
    let mut problems = Vec::new();
    let mut arguments = Vec::new();
    for parameter in tool.parameters {
        match read_argument(parameter, given.and_then(|given| given.get(parameter.name)), is_lenient) {
            Ok(Some(argument)) => arguments.push((parameter.sent_as, argument)),
            Ok(None) => {}
            Err(problem) => problems.push(problem),
        }
    }
    for (key, _) in given.iter().flat_map(|given| given.members()) {
        let key = key.as_str().unwrap_or_default();
        if !tool.parameters.iter().any(|parameter| parameter.name == key) {
            problems.push(format!("{} is not a parameter of this tool", quote_excerpt(&key)));
        }
    }
    if problems.is_empty() { Ok(arguments) } else { Err(error_message(tool, &problems)) }
}

fn read_argument(
    parameter: &PharoParameter,
    given: Option<JsonValue<'_>>,
    is_lenient: bool,
) -> Result<Option<PharoArgument>, String> {
    let name = parameter.name;
    let Some(value) = given else {
        return match parameter.kind {
            PharoParameterType::Text | PharoParameterType::Object => Err(format!("`{name}` is missing")),
            PharoParameterType::TextWithDefault(text) => Ok(Some(PharoArgument::Text(text.to_owned()))),
            PharoParameterType::OptionalText => Ok(None),
            PharoParameterType::Flag(flag) => Ok(Some(PharoArgument::Flag(flag))),
        };
    };
    let wrong = |wanted: &str| Err(format!("`{name}` must be {wanted}, not {}", value.kind().with_article()));
    match parameter.kind {
        PharoParameterType::Text | PharoParameterType::TextWithDefault(_) => match value.as_str() {
            Some(text) => Ok(Some(PharoArgument::Text(text.into_owned()))),
            None => wrong("a string"),
        },
        PharoParameterType::OptionalText => match value.as_str() {
            Some(text) if text.is_empty() => Ok(None),
            Some(text) => Ok(Some(PharoArgument::Text(text.into_owned()))),
            None if value.kind() == Json::Null => Ok(None),
            None => wrong("a string or null"),
        },
        PharoParameterType::Flag(_) => match parse_flag(value, is_lenient) {
            Some(flag) => Ok(Some(PharoArgument::Flag(flag))),
            None => wrong("true or false"),
        },
        PharoParameterType::Object if value.kind() == Json::Object => {
            Ok(Some(PharoArgument::Object(value.raw().to_owned())))
        }
        PharoParameterType::Object => wrong("an object"),
    }
}

fn parse_flag(value: JsonValue<'_>, is_lenient: bool) -> Option<bool> {
    let word = match value.kind() {
        Json::Bool => return Some(value.raw() == "true"),
        Json::String if is_lenient => value.as_str()?.to_ascii_lowercase(),
        Json::Number if is_lenient => value.raw().trim_end_matches(".0").to_owned(),
        _ => return None,
    };
    match word.as_str() {
        "1" | "on" | "t" | "true" | "y" | "yes" => Some(true),
        "0" | "off" | "f" | "false" | "n" | "no" => Some(false),
        _ => None,
    }
}

fn error_message(tool: &PharoTool, problems: &[String]) -> String {
    let known: Vec<String> = tool.parameters.iter().map(describe_parameter).collect();
    let known =
        if known.is_empty() { "It takes no arguments.".to_owned() } else { format!("It takes {}.", known.join(", ")) };
    format!(
        "The arguments of `{}` are not valid: {}. {known} Nothing was sent to the image.",
        tool.name,
        problems.join("; ")
    )
}

fn describe_parameter(parameter: &PharoParameter) -> String {
    let what = match parameter.kind {
        PharoParameterType::Text => "a string",
        PharoParameterType::TextWithDefault(_) | PharoParameterType::OptionalText => "a string, optional",
        PharoParameterType::Flag(_) => "true or false, optional",
        PharoParameterType::Object => "an object",
    };
    format!("`{}` ({what})", parameter.name)
}
