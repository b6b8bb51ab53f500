//! Renders argument values for the call log, with secrets replaced by `***`.

use gatelodge_json::{JsonKind, JsonValue, quote_into};
use gatelodge_store::GrantToken;

use crate::upstream::SecretRedactor;

/// Maximum length of the arguments in the log. Longer arguments are truncated.
const MAX_LOGGED_ARGUMENTS_BYTES: usize = 4_096;
/// If a member's name contains one of these substrings (ignoring case), its value is redacted.
const SECRET_NAME_PARTS: [&str; 10] = [
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "apikey",
    "api_key",
    "api-key",
    "authorization",
    "credential",
];

/// Renders arguments for the log. Values of members with secret-looking names, configured secrets and grant tokens are
/// redacted.
pub(crate) fn redacted_arguments(arguments: JsonValue<'_>, secrets: &SecretRedactor) -> String {
    let mut out = String::new();
    write_redacted(arguments, &mut out);
    let mut out = redact_grant_tokens(&secrets.redact_text(&out));
    if out.len() > MAX_LOGGED_ARGUMENTS_BYTES {
        let cut = (0..=MAX_LOGGED_ARGUMENTS_BYTES).rev().find(|at| out.is_char_boundary(*at)).unwrap_or(0);
        out.truncate(cut);
        out.push('…');
    }
    out
}

/// Redacts grant tokens, which agents know and may pass on as arguments.
fn redact_grant_tokens(text: &str) -> String {
    let mut parts = text.split(GrantToken::PREFIX);
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        out.push_str("***");
        out.push_str(part.trim_start_matches(|character: char| character.is_ascii_alphanumeric()));
    }
    out
}

fn write_redacted(value: JsonValue<'_>, out: &mut String) {
    if out.len() > MAX_LOGGED_ARGUMENTS_BYTES {
        return;
    }
    match value.kind() {
        JsonKind::Object => {
            out.push('{');
            for (at, (key, value)) in value.members().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                let name = key.as_str().unwrap_or_default();
                quote_into(&name, out);
                out.push(':');
                let lowercase_name = name.to_ascii_lowercase();
                if SECRET_NAME_PARTS.iter().any(|part| lowercase_name.contains(part)) {
                    out.push_str("\"***\"");
                } else {
                    write_redacted(value, out);
                }
            }
            out.push('}');
        }
        JsonKind::Array => {
            out.push('[');
            for (at, element) in value.elements().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write_redacted(element, out);
            }
            out.push(']');
        }
        JsonKind::Null | JsonKind::Bool | JsonKind::Number | JsonKind::String => out.push_str(value.raw()),
    }
}

#[cfg(test)]
mod tests {
    use gatelodge_json::{JsonLimits, read};

    use super::*;

    #[test]
    fn values_of_secret_names_and_configured_secrets_are_redacted() {
        let text = br#"{"to":"a","Password":"hunter2","deep":[{"api_key":{"x":1}}],"note":"my sesame1 here","n":1.10,"x":"glt_abc2 and"}"#;
        let document = read(text, &JsonLimits::REQUEST).expect("json");
        let secrets = SecretRedactor::new([&"sesame1".to_owned()]);
        assert_eq!(
            redacted_arguments(document.root(), &secrets),
            r#"{"to":"a","Password":"***","deep":[{"api_key":"***"}],"note":"my *** here","n":1.10,"x":"*** and"}"#
        );
    }

    #[test]
    fn long_arguments_are_truncated() {
        let text = format!(r#"{{"a":"{}","b":1}}"#, "ä".repeat(5_000));
        let document = read(text.as_bytes(), &JsonLimits::REQUEST).expect("json");
        assert!(
            redacted_arguments(document.root(), &SecretRedactor::default()).len() <= MAX_LOGGED_ARGUMENTS_BYTES + 4
        );
    }
}
