//! Compatibility mode: results have the format of the interop project's own MCP server. An error in the image is an
//! ordinary result with `success: false`.

mod python_json;

use std::str::Utf8Error;

use gatelodge_json::quote_into;
use python_json::{JsonFloatStyle, PythonJsonError, PythonValue};

use crate::arguments::{PharoArgument, PharoArguments};
use crate::pharo_image::{ImageResponse, PharoImageError};
use crate::pharo_tools::PharoTool;
use crate::tool_result::ToolResult;

/// Rewrites JSON objects in the arguments as Python would, which may change how floats are written.
pub(crate) fn rewrite_arguments(arguments: PharoArguments) -> PharoArguments {
    let rewrite = |argument| match argument {
        PharoArgument::Object(raw) => PharoArgument::Object(
            python_json::read(&raw).map_or(raw, |object| object.write(JsonFloatStyle::RequestBody)),
        ),
        other => other,
    };
    arguments.into_iter().map(|(name, argument)| (name, rewrite(argument))).collect()
}

/// Returns the result for an unknown tool.
pub(crate) fn unknown_tool_result(name: &str) -> ToolResult {
    ToolResult::failed(&format!("Unknown tool: {name}"))
}

/// Converts the image's response to a tool result.
pub(crate) fn to_tool_result(tool: &PharoTool, answer: Result<ImageResponse, PharoImageError>) -> ToolResult {
    let answer = match answer {
        Ok(answer) => answer,
        Err(error) => return error_result(&format!("Connection error: {}", connection_error_text(&error))),
    };
    if !answer.status.is_success() {
        let body = String::from_utf8_lossy(&answer.body);
        return error_result(&format!("HTTP error {}: {body}", answer.status.as_u16()));
    }
    let raised = |what: &str| ToolResult::failed(&format!("Error calling tool '{}': {what}", tool.name));
    let text = match str::from_utf8(&answer.body) {
        Ok(text) => text,
        Err(error) => return raised(&decode_error_text(&answer.body, error)),
    };
    match python_json::read(text) {
        Err(PythonJsonError::NotJson(what)) => error_result(&format!("Invalid JSON response: {what}")),
        Err(PythonJsonError::PythonException(what)) => raised(&what),
        Ok(object @ PythonValue::Dict(_)) => object_result(&object),
        Ok(_) => raised("the image answered something other than an object"),
    }
}

/// Returns a tool result that reports an error but is not marked as one.
fn error_result(error: &str) -> ToolResult {
    let mut object = String::from(r#"{"success":false,"error":"#);
    quote_into(error, &mut object);
    object.push('}');
    // INVARIANT: the object built above is valid JSON.
    python_json::read(&object).map_or_else(|_| ToolResult::failed(error), |object| object_result(&object))
}

/// Returns a tool result that contains the object both as text and as structured content.
fn object_result(object: &PythonValue) -> ToolResult {
    let mut result = ToolResult::of_object(object.write(JsonFloatStyle::StructuredContent))
        .with_text(&object.write(JsonFloatStyle::TextContent));
    result.is_error = Some(false);
    result
}

/// Returns the message that Python's HTTP client gives for a connection error.
fn connection_error_text(error: &PharoImageError) -> String {
    match error {
        PharoImageError::Unreachable(error) => match error.raw_os_error() {
            Some(number) => {
                let words = error.to_string();
                format!("[Errno {number}] {}", words.split(" (os error").next().unwrap_or_default())
            }
            None => error.to_string(),
        },
        PharoImageError::ConnectionDropped(None) => "Server disconnected without sending a response.".to_owned(),
        PharoImageError::ConnectionDropped(Some(cut)) => {
            let how = match cut.expected {
                Some(expected) => format!("received {} bytes, expected {expected}", cut.received),
                None => "incomplete chunked read".to_owned(),
            };
            format!("peer closed connection without sending complete message body ({how})")
        }
        PharoImageError::Timeout(_) => "timed out".to_owned(),
        PharoImageError::UnknownHost(_)
        | PharoImageError::RemoteHost(_)
        | PharoImageError::NotHttp(_)
        | PharoImageError::RequestTooLong(_)
        | PharoImageError::ResponseTooLarge(_) => error.to_string(),
    }
}

/// Returns the message that Python gives for bytes that are not UTF-8.
fn decode_error_text(bytes: &[u8], error: Utf8Error) -> String {
    let at = error.valid_up_to();
    let byte = bytes.get(at).copied().unwrap_or_default();
    let why = match (error.error_len(), byte) {
        (None, _) => "unexpected end of data",
        (Some(_), 0xc2..=0xf4) => "invalid continuation byte",
        (Some(_), _) => "invalid start byte",
    };
    format!("'utf-8' codec can't decode byte 0x{byte:02x} in position {at}: {why}")
}
