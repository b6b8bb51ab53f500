//! Expands the headers that are sent to servers: `${NAME}` is replaced with that environment variable.

use gatelodge_admin::header_template::{
    EnvironmentLookup, HeaderError, expand_template, is_credential_header, parse_header_name,
};
use gatelodge_gateway::InjectedHeader;
use http::HeaderValue;

/// Expands the variables in a header. Their values, and literal credentials, are treated as secrets.
pub fn expand_header(
    name: &str,
    written: &str,
    environment: EnvironmentLookup<'_>,
) -> Result<InjectedHeader, HeaderError> {
    let header = parse_header_name(name)?;
    let (value, mut secrets) = expand_template(written, environment)?;
    if secrets.is_empty() && is_credential_header(name) {
        // `Bearer x`: a server may return the whole value or only the part after the scheme.
        secrets.extend(value.split_once(' ').map(|(_, credential)| credential.to_owned()));
        secrets.push(value.clone());
    }
    let mut header_value = HeaderValue::try_from(value).map_err(|_| HeaderError::InvalidValue)?;
    header_value.set_sensitive(true);
    Ok(InjectedHeader { name: header, value: header_value, secrets })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(name: &str) -> Option<String> {
        (name == "KEY").then(|| "s3cret-value".to_owned())
    }

    #[test]
    fn variables_are_expanded_and_count_as_secrets() {
        let header = expand_header("Authorization", "Bearer ${KEY}!", &environment).expect("a header");
        assert_eq!(header.value.to_str().ok(), Some("Bearer s3cret-value!"));
        assert_eq!(header.secrets, ["s3cret-value"]);
        assert!(!format!("{header:?}").contains("s3cret"));
        let plain = expand_header("X-Api-Key", "Bearer plain-one", &environment).expect("a header");
        assert_eq!(plain.secrets, ["plain-one", "Bearer plain-one"]);
        assert_eq!(expand_header("X-A", "a$${KEY}", &environment).expect("a header").value, "a${KEY}");
    }

    #[test]
    fn invalid_headers_are_refused() {
        let error = |name: &str, value: &str| expand_header(name, value, &environment).expect_err("an error");
        assert_eq!(error("X-A", "${NONE}"), HeaderError::MissingVariable("NONE".to_owned()));
        assert_eq!(error("X-A", "${KEY"), HeaderError::InvalidReference);
        assert_eq!(error("X-A", "${}"), HeaderError::InvalidReference);
        assert_eq!(error("X A", "a"), HeaderError::InvalidName);
        assert_eq!(error("X-A", "a\nb"), HeaderError::InvalidValue);
        for name in ["Host", "content-type", "Mcp-Session-Id"] {
            assert_eq!(error(name, "a"), HeaderError::Reserved, "{name}");
        }
    }
}
