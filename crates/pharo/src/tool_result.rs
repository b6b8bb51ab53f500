//! Converts the image's response to a tool result: the value, or what went wrong and how to fix it.

use gatelodge_json::{JsonLimits, RawMember, quote_into, split_object};
use gatelodge_mcp::ProtocolGeneration;
use gatelodge_mutants::mutant;
use serde::de::IgnoredAny;

use crate::pharo_image::{ImageResponse, PharoImage, PharoImageError};
use crate::pharo_tools::{PharoTool, ReturnedValueKind};

/// Maximum nesting depth of a response. A gateway accepts 64 levels, and the tool result that contains the response
/// adds a few.
const MAX_RESPONSE_NESTING_LEVELS: usize = 60;
/// Maximum length of the excerpt from an unexpected response in an error message.
const MAX_EXCERPT_CHARS: usize = 2_000;

/// Result of a tool call.
#[derive(Debug, Default)]
pub(crate) struct ToolResult {
    /// Content blocks as JSON.
    blocks: Vec<String>,
    /// The image's response object, unchanged.
    structured: Option<String>,
    /// Value of `isError`. `None` omits the member, as most servers do for a successful call.
    pub is_error: Option<bool>,
}

impl ToolResult {
    /// Creates an error result.
    pub fn failed(text: &str) -> Self {
        Self { is_error: Some(true), ..Self::default() }.with_text(text)
    }

    /// Creates a result with the image's response object as structured content.
    pub fn of_object(object: impl Into<String>) -> Self {
        Self { structured: Some(object.into()), ..Self::default() }
    }

    pub fn with_text(mut self, text: &str) -> Self {
        let mut block = String::from(r#"{"type":"text","text":"#);
        quote_into(text, &mut block);
        block.push('}');
        self.blocks.push(block);
        self
    }

    /// Adds a PNG image, encoded in Base64.
    pub fn with_png(mut self, data: &str) -> Self {
        self.blocks.push(format!(r#"{{"type":"image","mimeType":"image/png","data":"{data}"}}"#));
        self
    }

    /// Writes the result as JSON.
    pub fn write(&self, generation: ProtocolGeneration) -> String {
        let mut out = format!(r#"{{"content":[{}]"#, self.blocks.join(","));
        if let Some(structured) = &self.structured {
            out.push_str(r#","structuredContent":"#);
            out.push_str(structured);
        }
        if let Some(is_error) = self.is_error {
            out.push_str(if is_error { r#","isError":true"# } else { r#","isError":false"# });
        }
        if generation == ProtocolGeneration::Stateless {
            out.push_str(r#","resultType":"complete""#);
        }
        out.push('}');
        out
    }
}

/// A successful response from the image.
pub(crate) struct ImageSuccess<'a> {
    /// The whole response object.
    pub object: &'a str,
    /// The value as JSON, or `None` if it cannot be represented in JSON.
    pub value: Option<&'a str>,
    /// The response's `error` member as JSON, which may be present even if the call succeeded.
    pub error: Option<&'a str>,
}

/// Reads a response from the image.
///
/// # Errors
/// Returns a message for the client if the call failed or the response is not valid.
pub(crate) fn read<'a>(
    image: &PharoImage,
    answer: &'a Result<ImageResponse, PharoImageError>,
) -> Result<ImageSuccess<'a>, String> {
    let answer = answer.as_ref().map_err(|error| image_error_text(image, error))?;
    if !answer.status.is_success() {
        return Err(http_error_text(image, answer));
    }
    let unreadable = |why: &str| {
        format!(
            "The image at {} answered, but {why}. Ask for less or for another form (`printString`) if it is the image; if \
            something else listens there, name the port of PharoSmalltalkInteropServer with --port.\n\n{}",
            image.authority(),
            excerpt(&answer.body)
        )
    };
    let text = str::from_utf8(&answer.body).map_err(|_| unreadable("not in UTF-8"))?;
    serde_json::from_str::<IgnoredAny>(text).map_err(|error| unreadable(&format!("not in JSON ({error})")))?;
    if has_lone_surrogate(text) {
        return Err(unreadable("a string in it has a lone surrogate"));
    }
    let limits = JsonLimits { max_bytes: text.len(), max_depth: MAX_RESPONSE_NESTING_LEVELS, ..JsonLimits::REPLY };
    let parts = split_object(text.as_bytes(), &limits)
        .map_err(|error| unreadable(&format!("not with a valid JSON object: {error}")))?;
    match find_member(&parts, "success") {
        Some("true") => {
            Ok(ImageSuccess { object: text, value: find_member(&parts, "result"), error: find_member(&parts, "error") })
        }
        Some("false") if mutant!("smalltalk-failure-returned-as-result") && find_member(&parts, "error").is_some() => {
            Ok(ImageSuccess { object: text, value: find_member(&parts, "error"), error: None })
        }
        Some("false") => Err(smalltalk_error_text(&parts)),
        _ => Err(unreadable("its object has no boolean `success`")),
    }
}

/// Returns a JSON value as text: strings without quotes, and any other value as JSON.
pub(crate) fn as_text(raw: &str) -> String {
    serde_json::from_str::<String>(raw).unwrap_or_else(|_| raw.to_owned())
}

/// Returns the text for a successful call that returned no value. It includes the error that the image reported, if
/// any.
pub(crate) fn missing_value_text(tool: &PharoTool, error: Option<&str>) -> String {
    let said = error.map(|error| format!(" The image reports:\n\n{}", member_lines(error))).unwrap_or_default();
    let what = match tool.result_kind {
        ReturnedValueKind::Anything => {
            "The code ran, but its value cannot be represented in JSON. Send it `printString` to see it."
        }
        ReturnedValueKind::Text | ReturnedValueKind::Names | ReturnedValueKind::Methods | ReturnedValueKind::Object => {
            "The request succeeded without a result."
        }
    };
    format!("{what}{said}")
}

/// Returns whether a string in a JSON document contains a lone surrogate. Strict parsers, including some clients, would
/// refuse the whole reply.
fn has_lone_surrogate(json: &str) -> bool {
    let unit = |escape: &str| u16::from_str_radix(escape.strip_prefix('u')?.get(..4)?, 16).ok();
    let mut rest = json;
    // INVARIANT: in JSON a backslash begins an escape: `u` and four digits, or one ASCII character.
    while let Some((_, escape)) = rest.split_once('\\') {
        let length = match unit(escape) {
            None => 1,
            Some(0xd800..0xdc00) => {
                let second = escape.get(5..).and_then(|rest| unit(rest.strip_prefix('\\')?));
                if !second.is_some_and(|second| (0xdc00..0xe000).contains(&second)) {
                    return true;
                }
                11
            }
            Some(0xdc00..0xe000) => return true,
            Some(_) => 5,
        };
        rest = escape.get(length..).unwrap_or_default();
    }
    false
}

fn find_member<'a>(parts: &[RawMember<'a>], key: &str) -> Option<&'a str> {
    parts.iter().find(|part| part.key == key).map(|part| part.value)
}

fn image_error_text(image: &PharoImage, error: &PharoImageError) -> String {
    let authority = image.authority();
    match error {
        PharoImageError::UnknownHost(_) => {
            format!("The image's host `{}` cannot be resolved: {error}. Correct --host.", image.host)
        }
        PharoImageError::RemoteHost(_) => format!(
            "The image's host `{}` is another machine: {error}. The interop server does not authenticate clients, so \
            remote images must be allowed explicitly: start with --beyond-loopback.",
            image.host
        ),
        PharoImageError::Unreachable(_) => format!(
            "No image answers at {authority}: {error}. Start Pharo with PharoSmalltalkInteropServer loaded, or name its port \
            with --port or PHARO_SIS_PORT."
        ),
        PharoImageError::ConnectionDropped(_) => format!(
            "The image at {authority} closed the connection before it had answered. It may have crashed, or been saved and \
            quit; the request may have been done in part. Look at the image before you try again."
        ),
        PharoImageError::NotHttp(_) => {
            format!("What listens at {authority} does not speak HTTP: {error}. Name the image's port with --port.")
        }
        PharoImageError::Timeout(_) => format!(
            "The image at {authority} gave {error}. The request may still be running there: look at the image (a debugger \
            may be open), interrupt it if necessary, or allow more time with --timeout or --long-timeout."
        ),
        PharoImageError::RequestTooLong(_) => {
            format!(
                "The arguments are too long for the image: {error}, and the maximum is 65534. Nothing was sent to it."
            )
        }
        PharoImageError::ResponseTooLarge(_) => {
            format!("The image at {authority} sent too large a response: {error}. Ask for less at a time.")
        }
    }
}

fn http_error_text(image: &PharoImage, answer: &ImageResponse) -> String {
    let help = match answer.status.as_u16() {
        300..400 => "Redirects are not followed. Check that the port is that of PharoSmalltalkInteropServer.",
        404 => {
            "The image does not know this endpoint. Its PharoSmalltalkInteropServer may be older than the tool, or \
            something else listens there."
        }
        _ => "Look at the image's transcript, and try again when the cause is fixed.",
    };
    format!(
        "The image at {} answered with HTTP status {}. {help}\n\n{}",
        image.authority(),
        answer.status,
        excerpt(&answer.body)
    )
}

/// Formats an error from the image: known members first, then all others.
fn smalltalk_error_text(parts: &[RawMember<'_>]) -> String {
    let mut out = match find_member(parts, "error") {
        None => "The image reported a failure without a reason. Look at its transcript.".to_owned(),
        Some(error) => format!("Smalltalk error: {}", member_lines(error)),
    };
    for part in parts.iter().filter(|part| !matches!(&*part.key, "success" | "error")) {
        out.push_str(&format!("\n\n{}:\n{}", part.key, as_text(part.value)));
    }
    out
}

/// Formats the members of an object as lines of text, with the description first. Any other value is returned as text.
fn member_lines(raw: &str) -> String {
    let Ok(parts) = split_object(raw.as_bytes(), &JsonLimits { max_bytes: raw.len(), ..JsonLimits::REPLY }) else {
        return as_text(raw);
    };
    let mut out = find_member(&parts, "description").map(as_text).unwrap_or_else(|| "no description".to_owned());
    for part in parts.iter().filter(|part| part.key != "description") {
        out.push_str(&format!("\n\n{}:\n{}", part.key, as_text(part.value)));
    }
    out
}

fn excerpt(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let mut shown: String = text.chars().take(MAX_EXCERPT_CHARS).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    if shown.is_empty() { "The body is empty.".to_owned() } else { format!("It begins:\n{shown}") }
}
