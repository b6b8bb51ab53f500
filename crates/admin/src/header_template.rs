//! Headers to send to servers, as written in the configuration. `${NAME}` is replaced with that environment variable.

use http::{HeaderName, HeaderValue};

/// Looks up an environment variable.
pub type EnvironmentLookup<'e> = &'e dyn Fn(&str) -> Option<String>;

/// Headers that only the gateway sets, because they describe the connection or the format and length of the message.
const RESERVED_HEADERS: &[&str] = &[
    "accept",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "host",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];
const RESERVED_HEADER_PREFIX: &str = "mcp-";
/// Environment variables that programs need to start, and that contain no secrets.
pub const INHERITED_VARIABLES: [&str; 8] = ["HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "USER"];
/// Parts of header names that suggest a credential.
const CREDENTIAL_PARTS: &[&str] = &["token", "key", "secret", "password"];
const CREDENTIAL_NAMES: &[&str] = &["authorization", "cookie", "proxy-authorization"];

/// Why a header cannot be sent. The error does not contain the header's value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HeaderError {
    /// The name is not a valid header name.
    InvalidName,
    /// The gateway sets this header itself.
    Reserved,
    /// The value is not a valid header value.
    InvalidValue,
    /// A `${` has no closing `}`, or no variable name inside the braces.
    InvalidReference,
    /// The environment variable is not set.
    MissingVariable(String),
}

impl HeaderError {
    /// Returns the error message.
    pub fn message(&self, name: &str) -> String {
        let name = gatelodge_json::escape_for_terminal(name);
        match self {
            Self::InvalidName => format!("`{name}` is not a valid header name"),
            Self::Reserved => format!("the gateway sets the header `{name}` itself"),
            Self::InvalidValue => format!("the value of `{name}` cannot be sent in a header"),
            Self::InvalidReference => format!("the value of `{name}` has a `${{` without a variable name"),
            Self::MissingVariable(variable) => format!("environment variable `{variable}` is not set"),
        }
    }

    /// Returns how to fix the error.
    pub fn help(&self) -> String {
        match self {
            Self::InvalidName => "a name consists of letters, digits and `-`".to_owned(),
            Self::Reserved => "remove it".to_owned(),
            Self::InvalidValue => "a value is one line of printable text".to_owned(),
            Self::InvalidReference => {
                "write `${NAME}`, with letters, digits and `_`; write `$${` for a literal `${`".to_owned()
            }
            Self::MissingVariable(variable) => {
                format!("set `{variable}` where the gateway starts; a value that is not UTF-8 counts as missing")
            }
        }
    }
}

/// Returns whether a header with this name usually contains a credential.
pub fn is_credential_header(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    CREDENTIAL_NAMES.contains(&name.as_str()) || CREDENTIAL_PARTS.iter().any(|part| name.contains(part))
}

/// Returns whether a variable with this name usually contains a secret: `API_KEY` does, `XDG_KEYRING_DIR` does not.
pub fn is_secret_variable(name: &str) -> bool {
    let parts =
        ["key", "apikey", "token", "secret", "password", "passwd", "pass", "credential", "credentials", "auth", "pat"];
    name.to_ascii_lowercase().split('_').any(|part| parts.contains(&part))
}

/// Returns whether a value refers to an environment variable.
pub fn has_variable(value: &str) -> bool {
    parse_template(value).is_ok_and(|parts| parts.iter().any(|part| matches!(part, TemplatePart::Variable(_))))
}

/// Returns the variables that a value refers to, or none if the value is invalid.
pub fn referenced_variables(value: &str) -> Vec<String> {
    let parts = parse_template(value).unwrap_or_default();
    parts
        .into_iter()
        .filter_map(|part| if let TemplatePart::Variable(name) = part { Some(name.to_owned()) } else { None })
        .collect()
}

/// Checks a header without reading the environment.
pub fn check_header(name: &str, written: &str) -> Result<(), HeaderError> {
    parse_header_name(name)?;
    let (value, _) = expand_template(written, &|_| Some("x".to_owned()))?;
    HeaderValue::try_from(value).map(drop).map_err(|_| HeaderError::InvalidValue)
}

/// Parses the name of a header that may be sent to a server.
pub fn parse_header_name(name: &str) -> Result<HeaderName, HeaderError> {
    let header = HeaderName::try_from(name).map_err(|_| HeaderError::InvalidName)?;
    if RESERVED_HEADERS.contains(&header.as_str()) || header.as_str().starts_with(RESERVED_HEADER_PREFIX) {
        return Err(HeaderError::Reserved);
    }
    Ok(header)
}

/// Expands the variables in a string. Also returns their values, which are treated as secrets.
pub fn expand_template(
    written: &str,
    environment: EnvironmentLookup<'_>,
) -> Result<(String, Vec<String>), HeaderError> {
    let mut value = String::new();
    let mut secrets = Vec::new();
    for part in parse_template(written)? {
        match part {
            TemplatePart::Text(text) => value.push_str(text),
            TemplatePart::Variable(variable) => {
                let found = environment(variable).ok_or_else(|| HeaderError::MissingVariable(variable.to_owned()))?;
                value.push_str(&found);
                // `${HOME}/notes` is a path, and paths may occur in responses.
                if !INHERITED_VARIABLES.contains(&variable) {
                    secrets.push(found);
                }
            }
        }
    }
    Ok((value, secrets))
}

enum TemplatePart<'v> {
    Text(&'v str),
    Variable(&'v str),
}

fn parse_template(mut rest: &str) -> Result<Vec<TemplatePart<'_>>, HeaderError> {
    let mut parts = Vec::new();
    while let Some((before, after)) = rest.split_once("${") {
        if let Some(before) = before.strip_suffix('$') {
            parts.extend([TemplatePart::Text(before), TemplatePart::Text("${")]);
            rest = after;
            continue;
        }
        let (variable, after) = after.split_once('}').ok_or(HeaderError::InvalidReference)?;
        let is_name = !variable.is_empty() && variable.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if !is_name {
            return Err(HeaderError::InvalidReference);
        }
        parts.extend([TemplatePart::Text(before), TemplatePart::Variable(variable)]);
        rest = after;
    }
    parts.push(TemplatePart::Text(rest));
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_headers_are_refused() {
        for (value, expected) in [("${KEY", HeaderError::InvalidReference), ("${}", HeaderError::InvalidReference)] {
            assert_eq!(check_header("X-A", value), Err(expected), "{value}");
        }
        assert_eq!(check_header("X A", "a"), Err(HeaderError::InvalidName));
        assert_eq!(check_header("X-A", "a\nb"), Err(HeaderError::InvalidValue));
        for name in ["Host", "content-type", "Mcp-Session-Id"] {
            assert_eq!(check_header(name, "a"), Err(HeaderError::Reserved), "{name}");
        }
    }

    #[test]
    fn a_reference_to_a_variable_that_is_not_set_is_valid() {
        assert_eq!(check_header("X-A", "${NONE}"), Ok(()));
        let none = expand_template("${NONE}", &|_| None).expect_err("an error");
        assert_eq!(none, HeaderError::MissingVariable("NONE".to_owned()));
    }
}
