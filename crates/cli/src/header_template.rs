//! Headers for servers, as people write them: `${NAME}` stands for a variable of the environment.

use gatelodge_gateway::InjectedHeader;
use http::{HeaderName, HeaderValue};

/// Looks a variable up.
pub type EnvironmentLookup<'e> = &'e dyn Fn(&str) -> Option<String>;

/// Headers that are ours to set: they say what the message is and where it ends.
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
/// Variables that hold no secret, and that programs need to start at all.
pub const INHERITED_VARIABLES: [&str; 8] = ["HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "USER"];
/// Names that hold a credential where they are part of a header's name.
const CREDENTIAL_PARTS: &[&str] = &["token", "key", "secret", "password"];
const CREDENTIAL_NAMES: &[&str] = &["authorization", "cookie", "proxy-authorization"];

/// Why a header cannot be sent. Says nothing of its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HeaderError {
    /// The name is none.
    InvalidName,
    /// The gateway sets this one itself.
    Reserved,
    /// The value cannot be sent.
    InvalidValue,
    /// A `${` without its `}`, or with something between that is no variable's name.
    InvalidReference,
    /// The environment has no such variable.
    MissingVariable(String),
}

impl HeaderError {
    /// What is wrong.
    pub fn message(&self, name: &str) -> String {
        let name = crate::diagnostic_report::escape_for_terminal(name);
        match self {
            Self::InvalidName => format!("`{name}` is not a header's name"),
            Self::Reserved => format!("the gateway sets the header `{name}` itself"),
            Self::InvalidValue => format!("the value of `{name}` cannot be sent in a header"),
            Self::InvalidReference => format!("the value of `{name}` has a `${{` that names no variable"),
            Self::MissingVariable(variable) => format!("the environment has no variable `{variable}`"),
        }
    }

    /// What to do about it.
    pub fn help(&self) -> String {
        match self {
            Self::InvalidName => "a name has letters, digits and `-`".to_owned(),
            Self::Reserved => "leave it out".to_owned(),
            Self::InvalidValue => "a value is one line of plain text".to_owned(),
            Self::InvalidReference => {
                "write `${NAME}`, with letters, digits and `_`; `$${` stands for `${` itself".to_owned()
            }
            Self::MissingVariable(variable) => {
                format!("set `{variable}` where the gateway starts; one that is not UTF-8 counts as missing")
            }
        }
    }
}

/// Whether a header of this name usually holds a credential.
pub fn is_credential_header(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    CREDENTIAL_NAMES.contains(&name.as_str()) || CREDENTIAL_PARTS.iter().any(|part| name.contains(part))
}

/// Whether a variable of this name usually holds a secret: `API_KEY` does, `XDG_KEYRING_DIR` does not.
pub fn is_secret_variable(name: &str) -> bool {
    let parts =
        ["key", "apikey", "token", "secret", "password", "passwd", "pass", "credential", "credentials", "auth", "pat"];
    name.to_ascii_lowercase().split('_').any(|part| parts.contains(&part))
}

/// Whether a value takes something from the environment.
pub fn has_variable(value: &str) -> bool {
    parse_template(value).is_ok_and(|parts| parts.iter().any(|part| matches!(part, TemplatePart::Variable(_))))
}

/// The variables that a value names; none if it cannot be read.
pub fn referenced_variables(value: &str) -> Vec<String> {
    let parts = parse_template(value).unwrap_or_default();
    parts
        .into_iter()
        .filter_map(|part| if let TemplatePart::Variable(name) = part { Some(name.to_owned()) } else { None })
        .collect()
}

/// Checks a header without looking at the environment.
pub fn check_header(name: &str, written: &str) -> Result<(), HeaderError> {
    expand_header(name, written, &|_| Some("x".to_owned())).map(drop)
}

/// Puts everything from the environment in its place. Those values, and plain credentials, count as secrets.
pub fn expand_header(
    name: &str,
    written: &str,
    environment: EnvironmentLookup<'_>,
) -> Result<InjectedHeader, HeaderError> {
    let header = HeaderName::try_from(name).map_err(|_| HeaderError::InvalidName)?;
    if RESERVED_HEADERS.contains(&header.as_str()) || header.as_str().starts_with(RESERVED_HEADER_PREFIX) {
        return Err(HeaderError::Reserved);
    }
    let (value, mut secrets) = expand_template(written, environment)?;
    if secrets.is_empty() && is_credential_header(name) {
        // `Bearer x`: what comes back may be the whole or the part behind the scheme.
        secrets.extend(value.split_once(' ').map(|(_, credential)| credential.to_owned()));
        secrets.push(value.clone());
    }
    let mut sent = HeaderValue::try_from(value).map_err(|_| HeaderError::InvalidValue)?;
    sent.set_sensitive(true);
    Ok(InjectedHeader { name: header, value: sent, secrets })
}

/// Puts everything from the environment in its place; gives those values apart as well.
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
                // `${HOME}/notes` is a place, and places stand in answers.
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
    while let Some((before, behind)) = rest.split_once("${") {
        if let Some(before) = before.strip_suffix('$') {
            parts.extend([TemplatePart::Text(before), TemplatePart::Text("${")]);
            rest = behind;
            continue;
        }
        let (variable, behind) = behind.split_once('}').ok_or(HeaderError::InvalidReference)?;
        let is_name = !variable.is_empty() && variable.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if !is_name {
            return Err(HeaderError::InvalidReference);
        }
        parts.extend([TemplatePart::Text(before), TemplatePart::Variable(variable)]);
        rest = behind;
    }
    parts.push(TemplatePart::Text(rest));
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(name: &str) -> Option<String> {
        (name == "KEY").then(|| "s3cret-value".to_owned())
    }

    #[test]
    fn variables_are_put_in_their_place_and_count_as_secrets() {
        let header = expand_header("Authorization", "Bearer ${KEY}!", &environment).expect("a header");
        assert_eq!(header.value.to_str().ok(), Some("Bearer s3cret-value!"));
        assert_eq!(header.secrets, ["s3cret-value"]);
        assert!(!format!("{header:?}").contains("s3cret"));
        let plain = expand_header("X-Api-Key", "Bearer plain-one", &environment).expect("a header");
        assert_eq!(plain.secrets, ["plain-one", "Bearer plain-one"]);
        assert_eq!(expand_header("X-A", "a$${KEY}", &environment).expect("a header").value, "a${KEY}");
    }

    #[test]
    fn what_cannot_be_sent_is_refused_without_its_value() {
        let fault = |name: &str, value: &str| expand_header(name, value, &environment).expect_err("a fault");
        assert_eq!(fault("X-A", "${NONE}"), HeaderError::MissingVariable("NONE".to_owned()));
        assert_eq!(fault("X-A", "${KEY"), HeaderError::InvalidReference);
        assert_eq!(fault("X-A", "${}"), HeaderError::InvalidReference);
        assert_eq!(fault("X A", "a"), HeaderError::InvalidName);
        assert_eq!(fault("X-A", "a\nb"), HeaderError::InvalidValue);
        for name in ["Host", "content-type", "Mcp-Session-Id"] {
            assert_eq!(fault(name, "a"), HeaderError::Reserved, "{name}");
        }
    }
}
