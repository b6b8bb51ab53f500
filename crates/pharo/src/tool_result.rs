//! What the image answered, as the result of a tool: what it gives, or what went wrong and what to do.

use gatelodge_json::{JsonLimits, RawMember, quote_into, split_object};
use gatelodge_mcp::ProtocolGeneration;
use gatelodge_mutants::mutant;
use serde::de::IgnoredAny;

use crate::pharo_image::{ImageResponse, PharoImage, PharoImageError};
use crate::pharo_tools::{PharoTool, ToolResultKind};

/// Levels of an answer that is passed on: a gateway takes 64, and the result puts some around it.
const MAX_DEPTH: usize = 60;
/// The most characters of a foreign page that an error shows.
const MAX_EXCERPT_CHARS: usize = 2_000;

/// The result of a call.
#[derive(Debug, Default)]
pub(crate) struct ToolResult {
    /// Blocks of content, as JSON.
    blocks: Vec<String>,
    /// The image's object as it came.
    structured: Option<String>,
    /// Absent stays absent: most servers do not say that nothing failed.
    pub is_error: Option<bool>,
}

impl ToolResult {
    /// A failure, in words.
    pub fn failed(text: &str) -> Self {
        Self { is_error: Some(true), ..Self::default() }.with_text(text)
    }

    /// With the image's object.
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

    /// With a PNG picture in Base64.
    pub fn with_png(mut self, data: &str) -> Self {
        self.blocks.push(format!(r#"{{"type":"image","mimeType":"image/png","data":"{data}"}}"#));
        self
    }

    /// As it goes over the wire.
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

/// What a success carries.
pub(crate) struct ImageSuccess<'a> {
    /// The whole object.
    pub object: &'a str,
    /// The value, as JSON; none where it has no form in JSON.
    pub value: Option<&'a str>,
    /// What is said beside it, as JSON.
    pub error: Option<&'a str>,
}

/// Reads what the image answered.
///
/// # Errors
/// It failed, or cannot be read: in words for whoever called the tool.
pub(crate) fn read<'a>(
    image: &PharoImage,
    answer: &'a Result<ImageResponse, PharoImageError>,
) -> Result<ImageSuccess<'a>, String> {
    let answer = answer.as_ref().map_err(|error| unanswered(image, error))?;
    if !answer.status.is_success() {
        return Err(refused(image, answer));
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
    if has_half_pair(text) {
        return Err(unreadable("a string in it has half of a surrogate pair, which is no text"));
    }
    let limits = JsonLimits { max_bytes: text.len(), max_depth: MAX_DEPTH, ..JsonLimits::REPLY };
    let parts = split_object(text.as_bytes(), &limits)
        .map_err(|fault| unreadable(&format!("not with a JSON object that can be taken: {fault}")))?;
    match find(&parts, "success") {
        Some("true") => Ok(ImageSuccess { object: text, value: find(&parts, "result"), error: find(&parts, "error") }),
        Some("false") if mutant!("smalltalk-failure-returned-as-result") && find(&parts, "error").is_some() => {
            Ok(ImageSuccess { object: text, value: find(&parts, "error"), error: None })
        }
        Some("false") => Err(smalltalk(&parts)),
        _ => Err(unreadable("its object does not say whether it was a success")),
    }
}

/// A value as text: a string as what it says, all else as JSON.
pub(crate) fn as_text(raw: &str) -> String {
    serde_json::from_str::<String>(raw).unwrap_or_else(|_| raw.to_owned())
}

/// What is said of a success without a value, with what the image says of it.
pub(crate) fn without_value(tool: &PharoTool, error: Option<&str>) -> String {
    let said = error.map(|error| format!(" The image says:\n\n{}", members(error))).unwrap_or_default();
    let what = match tool.result_kind {
        ToolResultKind::Anything => "The code ran, and its value has no form in JSON. Send it `printString` to see it.",
        ToolResultKind::Text | ToolResultKind::Names | ToolResultKind::Methods | ToolResultKind::Object => {
            "The image did what was asked, and gave no result."
        }
    };
    format!("{what}{said}")
}

/// Whether a string of a JSON text has half of a surrogate pair. Strict readers, clients among them, would refuse the
/// whole answer for it.
fn has_half_pair(json: &str) -> bool {
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

fn find<'a>(parts: &[RawMember<'a>], key: &str) -> Option<&'a str> {
    parts.iter().find(|part| part.key == key).map(|part| part.value)
}

fn unanswered(image: &PharoImage, error: &PharoImageError) -> String {
    let place = image.authority();
    match error {
        PharoImageError::UnknownHost(_) => {
            format!("The image's host `{}` is not known: {error}. Correct --host.", image.host)
        }
        PharoImageError::RemoteHost(_) => format!(
            "The image's host `{}` leads to another machine: {error}. The interop server asks nobody who they are, so \
            this must be asked for: start with --beyond-loopback if it is meant.",
            image.host
        ),
        PharoImageError::Unreachable(_) => format!(
            "No image answers at {place}: {error}. Start Pharo with PharoSmalltalkInteropServer loaded, or name its port \
            with --port or PHARO_SIS_PORT."
        ),
        PharoImageError::ConnectionDropped(_) => format!(
            "The image at {place} closed the connection before it had answered. It may have ended or been saved and \
            quit; what was asked may have been done in part. Look at the image before asking again."
        ),
        PharoImageError::NotHttp(_) => {
            format!("What listens at {place} does not speak HTTP: {error}. Name the image's port with --port.")
        }
        PharoImageError::Timeout(_) => format!(
            "The image at {place} gave {error}. What was asked may still be running there: look at the image (a debugger \
            may be open), interrupt it if need be, or allow more time with --timeout or --long-timeout."
        ),
        PharoImageError::RequestTooLong(_) => {
            format!(
                "The arguments are too long for the image: {error}, and 65534 are the most. Nothing was sent to it."
            )
        }
        PharoImageError::ResponseTooLarge(_) => {
            format!("The image at {place} answered too much: {error}. Ask for less at a time.")
        }
    }
}

fn refused(image: &PharoImage, answer: &ImageResponse) -> String {
    let help = match answer.status.as_u16() {
        300..400 => "Redirects are not followed. Is the port that of PharoSmalltalkInteropServer?",
        404 => {
            "The image does not know this endpoint. Its PharoSmalltalkInteropServer may be older than the tool, or \
            something else listens there."
        }
        _ => "Look at the image's transcript, and ask again when it is mended.",
    };
    format!(
        "The image at {} answered with HTTP status {}. {help}\n\n{}",
        image.authority(),
        answer.status,
        excerpt(&answer.body)
    )
}

/// The error of the image: what is known of it by name first, then whatever else it says.
fn smalltalk(parts: &[RawMember<'_>]) -> String {
    let mut out = match find(parts, "error") {
        None => "The image says that it failed, and not why. Look at its transcript.".to_owned(),
        Some(error) => format!("Smalltalk error: {}", members(error)),
    };
    for part in parts.iter().filter(|part| !matches!(&*part.key, "success" | "error")) {
        out.push_str(&format!("\n\n{}:\n{}", part.key, as_text(part.value)));
    }
    out
}

/// The members of an object as lines of text, description and stack first; what is no object as it is.
fn members(raw: &str) -> String {
    let Ok(parts) = split_object(raw.as_bytes(), &JsonLimits { max_bytes: raw.len(), ..JsonLimits::REPLY }) else {
        return as_text(raw);
    };
    let mut out = find(&parts, "description").map(as_text).unwrap_or_else(|| "no description".to_owned());
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
