//! Server entries in client files. Clients differ only in field names, so one parser is enough.

use serde_json::{Map, Value};

use crate::client_profiles::{ClientProfile, DisableField};

/// How a client connects to a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientServerEntry {
    /// The client starts a program.
    Command {
        /// The program and its arguments.
        argv: Vec<String>,
        /// Environment variables for the program. References in their values are not expanded.
        env: Vec<(String, String)>,
        /// Working directory.
        cwd: Option<String>,
    },
    /// The client sends HTTP requests.
    Remote {
        /// URL of the server.
        url: String,
        /// Headers to send. References in their values are not expanded.
        headers: Vec<(String, String)>,
        /// Whether the server uses the old HTTP+SSE transport.
        is_sse: bool,
    },
}

/// A server entry with its name.
#[derive(Debug, Clone)]
pub struct ClientConfigServer {
    /// Name in the file.
    pub name: String,
    /// The entry, or `None` if it is ambiguous or cannot be read as a command or a URL.
    pub entry: Option<ClientServerEntry>,
    /// Whether the entry is disabled.
    pub is_disabled: bool,
    /// Whether the entry has a working directory or an environment file. They may affect what is run, but are not
    /// inspected.
    pub has_external_context: bool,
    /// Names of environment variables that the client passes on, in addition to those set in the entry.
    pub forwarded_variables: Vec<String>,
}

impl ClientConfigServer {
    /// Reads an entry from a client's configuration.
    pub fn read(client: &ClientProfile, name: &str, value: &Value) -> Self {
        let is_disabled = match client.disable_field {
            DisableField::None => false,
            DisableField::Disabled => value.get("disabled") == Some(&Value::Bool(true)),
            DisableField::Enabled => value.get("enabled") == Some(&Value::Bool(false)),
        };
        let fields = value.as_object().filter(|fields| !is_ambiguous(fields));
        let entry = fields.and_then(|fields| read_command(fields).or_else(|| read_remote(client, fields)));
        let has_external_context = value.as_object().is_some_and(has_external_context);
        Self {
            name: name.to_owned(),
            entry,
            is_disabled,
            has_external_context,
            forwarded_variables: forwarded_variables(value),
        }
    }
}

impl ClientServerEntry {
    /// Returns the environment variables or headers. References in their values are not expanded.
    pub fn variables_or_headers(&self) -> &[(String, String)] {
        match self {
            Self::Command { env, .. } => env,
            Self::Remote { headers, .. } => headers,
        }
    }
}

/// Field names that clients use for a program, its environment variables, and a URL.
const COMMAND_KEYS: [&str; 2] = ["command", "cmd"];
const ENV_KEYS: [&str; 3] = ["env", "environment", "envs"];
const URL_KEYS: [&str; 4] = ["httpUrl", "serverUrl", "url", "uri"];
/// Field names for a working directory and an environment file.
const EXTERNAL_CONTEXT_KEYS: [&str; 5] = ["cwd", "workingDirectory", "working_directory", "envFile", "env_file"];
/// Field names for a list of environment variables that the client passes on to the server.
const FORWARDED_ENV_KEYS: [&str; 2] = ["env_vars", "env_keys"];

fn has_external_context(fields: &Map<String, Value>) -> bool {
    let inner = COMMAND_KEYS.iter().find_map(|name| fields.get(*name)?.as_object());
    find_first_key(fields, &EXTERNAL_CONTEXT_KEYS).is_some() || inner.is_some_and(has_external_context)
}

fn forwarded_variables(value: &Value) -> Vec<String> {
    let lists = FORWARDED_ENV_KEYS.iter().filter_map(|name| value.get(*name)?.as_array());
    let name = |own: &Value| own.as_str().or_else(|| own.get("name")?.as_str()).map(str::to_owned);
    lists.flatten().filter_map(name).collect()
}

/// Returns whether an entry has the same setting under two names, or has both a command and a URL. Such an entry is not
/// interpreted, because it is unknown which of the two the client uses.
fn is_ambiguous(fields: &Map<String, Value>) -> bool {
    let count = |names: &[&str]| {
        let is_set = |name: &&&str| fields.get(**name).is_some_and(|value| !value.is_null());
        names.iter().filter(is_set).count()
    };
    // Older versions of Zed have a table for the command that contains all fields.
    let inner = COMMAND_KEYS.iter().find_map(|name| fields.get(*name)?.as_object());
    let is_inner_ambiguous = inner.is_some_and(|inner| {
        let has = |names: &[&str]| names.iter().any(|name| inner.contains_key(*name));
        has(&COMMAND_KEYS) || has(&ENV_KEYS) && count(&ENV_KEYS) > 0 || is_ambiguous(inner)
    });
    is_inner_ambiguous || count(&COMMAND_KEYS) + count(&URL_KEYS) > 1 || count(&ENV_KEYS) > 1
}

fn read_command(fields: &Map<String, Value>) -> Option<ClientServerEntry> {
    let mut words = match find_first_key(fields, &COMMAND_KEYS)?.1 {
        Value::String(program) => vec![program.clone()],
        // OpenCode has program and arguments in one list.
        Value::Array(words) => value_texts(words),
        // Older versions of Zed have a table here.
        Value::Object(inner) => return read_nested_command(inner, fields),
        _ => return None,
    };
    words.extend(fields.get("args").and_then(Value::as_array).map(|args| value_texts(args)).unwrap_or_default());
    let env = find_first_key(fields, &ENV_KEYS).map(|(_, env)| env);
    let cwd = fields.get("cwd").and_then(Value::as_str).map(str::to_owned);
    let is_command = words.first().is_some_and(|program| !program.is_empty());
    is_command.then(|| ClientServerEntry::Command { argv: words, env: read_string_pairs(env), cwd })
}

fn read_nested_command(inner: &Map<String, Value>, outer: &Map<String, Value>) -> Option<ClientServerEntry> {
    let mut fields = inner.clone();
    fields.insert("command".to_owned(), Value::String(inner.get("path")?.as_str()?.to_owned()));
    if let Some(env) = outer.get("env") {
        fields.entry("env").or_insert_with(|| env.clone());
    }
    read_command(&fields)
}

fn read_remote(client: &ClientProfile, fields: &Map<String, Value>) -> Option<ClientServerEntry> {
    let (key, url) = find_first_key(fields, &URL_KEYS)?;
    let url = url.as_str()?.to_owned();
    let kind = ["type", "transport"].iter().find_map(|name| fields.get(*name)?.as_str());
    // In Gemini's file `url` means HTTP+SSE, and `httpUrl` Streamable HTTP.
    let is_sse = kind == Some("sse") || (client.id == "gemini" && key == "url" && kind.is_none());
    let options = fields.get("requestOptions").and_then(|options| options.get("headers"));
    let mut headers = read_string_pairs(fields.get("headers").or(fields.get("http_headers")).or(options));
    for (header, variable) in read_string_pairs(fields.get("env_http_headers")) {
        headers.push((header, format!("${{{variable}}}")));
    }
    if let Some(variable) = fields.get("bearer_token_env_var").and_then(Value::as_str) {
        headers.push(("Authorization".to_owned(), format!("Bearer ${{{variable}}}")));
    }
    Some(ClientServerEntry::Remote { url, headers, is_sse })
}

/// Finds the first of the given fields that is present and not null.
fn find_first_key<'f, 'n>(fields: &'f Map<String, Value>, names: &[&'n str]) -> Option<(&'n str, &'f Value)> {
    names.iter().find_map(|name| Some((*name, fields.get(*name).filter(|value| !value.is_null())?)))
}

/// Returns a command's arguments as strings. Values of other types are returned as JSON.
fn value_texts(values: &[Value]) -> Vec<String> {
    values.iter().map(value_text).collect()
}

fn read_string_pairs(value: Option<&Value>) -> Vec<(String, String)> {
    let fields = value.and_then(Value::as_object);
    fields.into_iter().flatten().map(|(name, value)| (name.clone(), value_text(value))).collect()
}

fn value_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::find_client;

    fn read(client: &str, value: &Value) -> Option<ClientServerEntry> {
        ClientConfigServer::read(find_client(client).expect("a client"), "x", value).entry
    }

    #[test]
    fn commands_of_all_clients_are_read() {
        let words = |entry: Option<ClientServerEntry>| match entry {
            Some(ClientServerEntry::Command { argv: words, env, .. }) => (words.join(" "), env.len()),
            _ => panic!("a command"),
        };
        for (client, value) in [
            ("cursor", json!({"command": "npx", "args": ["-y", "a"], "env": {"K": "v"}})),
            ("opencode", json!({"type": "local", "command": ["npx", "-y", "a"], "environment": {"K": "v"}})),
            ("goose", json!({"cmd": "npx", "args": ["-y", "a"], "envs": {"K": "v"}})),
            ("zed", json!({"command": {"path": "npx", "args": ["-y", "a"], "env": {"K": "v"}}})),
        ] {
            assert_eq!(words(read(client, &value)), ("npx -y a".to_owned(), 1), "{client}");
        }
        assert_eq!(read("cursor", &json!({"command": ""})), None);
        assert_eq!(read("cursor", &json!(7)), None);
    }

    #[test]
    fn an_ambiguous_entry_is_not_used() {
        for value in [
            json!({"command": "npx", "url": "http://a/"}),
            json!({"cmd": "npx", "command": "npx"}),
            json!({"command": "npx", "env": {}, "envs": {"K": "v"}}),
            json!({"command": {"path": "npx", "env": {}}, "env": {"K": "v"}}),
            json!({"command": {"path": "npx", "command": "evil"}}),
            json!({"url": "http://a/", "serverUrl": "http://b/"}),
        ] {
            assert_eq!(read("cursor", &value), None, "{value}");
        }
        assert!(read("cursor", &json!({"command": "npx", "cmd": null, "url": null, "envs": null})).is_some());
    }

    #[test]
    fn urls_of_all_clients_are_read() {
        for (client, value, sse) in [
            ("cursor", json!({"url": "http://a/"}), false),
            ("gemini", json!({"httpUrl": "http://a/"}), false),
            ("gemini", json!({"url": "http://a/"}), true),
            ("windsurf", json!({"serverUrl": "http://a/"}), false),
            ("vscode", json!({"type": "sse", "url": "http://a/"}), true),
            ("goose", json!({"type": "streamable_http", "uri": "http://a/"}), false),
        ] {
            let expected = ClientServerEntry::Remote { url: "http://a/".to_owned(), headers: Vec::new(), is_sse: sse };
            assert_eq!(read(client, &value), Some(expected), "{client} {value}");
        }
        let codex =
            read("codex", &json!({"url": "http://a/", "bearer_token_env_var": "K", "env_http_headers": {"X": "V"}}));
        let headers = codex.expect("an entry").variables_or_headers().to_vec();
        assert_eq!(headers[0], ("X".to_owned(), "${V}".to_owned()));
        assert_eq!(headers[1], ("Authorization".to_owned(), "Bearer ${K}".to_owned()));
    }
}
