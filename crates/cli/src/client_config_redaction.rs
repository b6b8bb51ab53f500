//! Redacts entries for output. Values of environment variables and headers are never shown. Arguments and URLs are
//! shown only if nothing in them looks like a secret.

use gatelodge_admin::header_template::is_credential_header;
use gatelodge_admin::server_url;
use serde_json::{Map, Value, json};

use crate::diagnostic_report;

const REDACTED_TEXT: &str = "***";
/// Minimum length at which a word with letters and digits is treated as a possible key.
const MIN_KEY_LENGTH: usize = 20;
/// Fields whose values are shown because they only describe the entry.
const SAFE_TEXT_KEYS: &[&str] = &["type", "transport", "command", "cmd", "cwd", "name", "bearer_token_env_var"];
/// Fields that contain a URL.
const URL_KEYS: &[&str] = &["url", "httpUrl", "serverUrl", "uri"];

/// Formats a command on one line, without secrets.
pub fn redact_command(words: &[String]) -> String {
    let mut previous = "";
    let mut out = Vec::new();
    for word in words {
        out.push(redact_argument(previous, word));
        previous = word;
    }
    out.join(" ")
}

/// Redacts a command's argument if the argument itself or the one before it suggests a secret.
fn redact_argument(previous: &str, word: &str) -> String {
    if !is_likely_secret(previous, word) {
        return diagnostic_report::escape_for_terminal(word);
    }
    match word.split_once('=') {
        Some((name, _)) if name.starts_with('-') => {
            format!("{}={REDACTED_TEXT}", diagnostic_report::escape_for_terminal(name))
        }
        _ => REDACTED_TEXT.to_owned(),
    }
}

/// Returns whether a command's argument or a URL seems to contain a credential.
pub fn is_likely_secret(previous: &str, word: &str) -> bool {
    if has_secret_assignment(word) || word.split('=').any(is_key_like) {
        return true;
    }
    let is_secret_option = previous.starts_with('-') && !previous.contains('=') && is_secret_name(previous);
    let is_short_password = previous == "-p" && word.parse::<u16>().is_err();
    if (is_secret_option || is_short_password) && !word.starts_with('-') {
        return true;
    }
    if word.contains("://") {
        let authority = word.split("://").nth(1).and_then(|rest| rest.split('/').next()).unwrap_or_default();
        let in_path = word.split(['/', '?']).any(is_key_like);
        return authority.contains('@') || word.contains('?') || in_path;
    }
    let is_header = previous == "-H" || previous == "--header";
    // An argument that is a whole command line may contain anything.
    let is_line = word.contains(' ') && is_secret_name(word);
    is_header || is_line || is_key_like(word)
}

/// Returns whether a string contains the name of a secret followed by a value: `TOKEN=x`, `"token":"x"`, `Pwd=x;`.
fn has_secret_assignment(word: &str) -> bool {
    let parts: Vec<&str> = word.split(['=', ':']).collect();
    parts.windows(2).any(|pair| match pair {
        [name, value] => {
            let name = name.rsplit([' ', ';', ',', '{', '&', '?']).next().unwrap_or_default();
            let has_value = !value.trim_matches(['"', '\'', ' ', '}']).is_empty() && !value.starts_with("//");
            has_value && is_secret_name(name)
        }
        _ => false,
    })
}

/// Returns whether a name suggests a secret.
fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let secret_words = ["auth", "pwd", "pass", "pin", "cred", "pat"];
    let words = name.split(|character: char| !character.is_ascii_alphanumeric());
    is_credential_header(&name)
        || words
            .into_iter()
            .any(|word| secret_words.iter().any(|part| word == *part || (part.len() > 3 && word.starts_with(part))))
}

/// Returns whether a word is long, has both digits and letters, and has no characters typical of paths and package
/// names.
fn is_key_like(word: &str) -> bool {
    let is_dense = word.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'+' | b'='));
    let has = |kind: fn(&u8) -> bool| word.as_bytes().iter().any(kind);
    word.len() >= MIN_KEY_LENGTH && is_dense && has(u8::is_ascii_digit) && has(u8::is_ascii_alphabetic)
}

/// Formats a change to an entry as a diff. The fields of `ours`, the entry for the gateway, contain no secrets and are
/// shown in full. All other fields are redacted.
pub fn entry_diff(old: Option<&Value>, new: &Value, ours: &Value) -> String {
    let mut out = String::new();
    let mut put = |sign: char, value: &Value| {
        format!("{value:#}").lines().for_each(|line| out.push_str(&format!("{sign} {line}\n")));
    };
    if let Some(old) = old {
        put('-', &redact_entry(old));
    }
    let mut shown_entry = redact_entry(new);
    if let (Value::Object(shown_entry), Value::Object(ours)) = (&mut shown_entry, ours) {
        shown_entry.extend(ours.clone());
    }
    put('+', &shown_entry);
    out
}

/// Redacts every value in an entry that may be a secret.
fn redact_entry(entry: &Value) -> Value {
    let Some(fields) = entry.as_object() else { return json!(REDACTED_TEXT) };
    fields.iter().map(|(name, value)| (name.clone(), redact_field(name, value))).collect::<Map<_, _>>().into()
}

fn redact_field(name: &str, value: &Value) -> Value {
    match value {
        Value::String(text) if name == "command" || name == "cmd" => json!(redact_argument("", text)),
        Value::String(text) if SAFE_TEXT_KEYS.contains(&name) => json!(diagnostic_report::escape_for_terminal(text)),
        Value::String(text) if URL_KEYS.contains(&name) => {
            json!(if is_likely_secret("", text) { REDACTED_TEXT.to_owned() } else { server_url::redact_url(text) })
        }
        Value::Array(words) if name == "args" || name == "command" => {
            let words: Vec<String> =
                words.iter().map(|word| word.as_str().unwrap_or(REDACTED_TEXT).to_owned()).collect();
            let previous = [""].into_iter().chain(words.iter().map(String::as_str));
            previous.zip(&words).map(|(previous, word)| redact_argument(previous, word)).collect()
        }
        Value::Bool(_) | Value::Null | Value::Number(_) => value.clone(),
        Value::Object(_) => redact_values(value),
        Value::String(_) | Value::Array(_) => json!(REDACTED_TEXT),
    }
}

/// Redacts everything in a JSON value except the member names.
fn redact_values(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| (name.clone(), redact_values(value))).collect::<Map<_, _>>().into()
        }
        _ => json!(REDACTED_TEXT),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_with_secrets_are_recognized_and_others_are_not() {
        for (previous, word) in [
            ("-e", "TOKEN=SECRET04"),
            ("-c", "API_KEY=SECRET05 npx foo"),
            ("", r#"{"token":"SECRET12"}"#),
            ("", "Server=x;Pwd=SECRET15;"),
            ("", "npx -y foo --api-key SECRET16"),
            ("-p", "SECRET08pw"),
            ("--pin", "SECRET20"),
            ("-e", "PASSWORD=hunter2"),
            ("-e", "GITHUB_PERSONAL_ACCESS_TOKEN=abcdef"),
            ("--password", "hunter2"),
            ("", "postgres://u:p@h/db"),
        ] {
            assert!(is_likely_secret(previous, word), "{previous} {word}");
        }
        for (previous, word) in [
            ("-y", "@modelcontextprotocol/server-filesystem"),
            ("", "/home/ada/notes"),
            ("-p", "8080"),
            ("--port", "8080"),
            ("--mode", "read-only"),
            ("", "NODE_ENV=production"),
            ("run", "mcp/github:latest"),
            ("", "C:\\Users\\ada\\notes"),
        ] {
            assert!(!is_likely_secret(previous, word), "{previous} {word}");
        }
    }

    fn shown(words: &[&str]) -> String {
        redact_command(&words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn commands_are_shown_without_secrets() {
        let plain = ["npx", "-y", "@modelcontextprotocol/server-filesystem@2025.8.21", "/home/ada/notes"];
        assert_eq!(shown(&plain), plain.join(" "));
        assert_eq!(shown(&["srv", "--api-key", "hunter2"]), "srv --api-key ***");
        assert_eq!(shown(&["srv", "--token=hunter2"]), "srv --token=***");
        assert_eq!(
            shown(&["npx", "mcp-remote", "https://a/mcp", "--header", "X: hunter2"]),
            "npx mcp-remote https://a/mcp --header ***"
        );
        assert_eq!(shown(&["srv", "sk-live-0123456789abcdef"]), "srv ***");
        assert_eq!(shown(&["srv", "postgres://me:pw@db/x"]), "srv ***");
        assert_eq!(shown(&["srv", "https://a/mcp?key=1"]), "srv ***");
    }

    #[test]
    fn entries_are_shown_without_values() {
        let entry =
            json!({"command": "npx", "args": ["-y", "a"], "env": {"KEY": "hunter2"}, "other": "hunter2", "n": [1]});
        let expected =
            json!({"command": "npx", "args": ["-y", "a"], "env": {"KEY": "***"}, "other": "***", "n": "***"});
        assert_eq!(redact_entry(&entry), expected);
        assert_eq!(redact_entry(&json!("hunter2")), json!("***"));
    }
}
