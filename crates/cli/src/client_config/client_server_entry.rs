//! A server as a client's file has it. Clients differ in names only, so one reader serves all.

use serde_json::{Map, Value};

use super::client_table::{ClientProfile, DisableField};

/// How a client reaches a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerEntry {
    /// It starts a program.
    Command {
        /// The program and its arguments.
        argv: Vec<String>,
        /// Its variables, as they are written.
        env: Vec<(String, String)>,
        /// Where it runs.
        cwd: Option<String>,
    },
    /// It sends requests.
    Remote {
        /// Where to.
        url: String,
        /// What it sends along, as it is written.
        headers: Vec<(String, String)>,
        /// By the old transport with two streams.
        is_sse: bool,
    },
}

/// An entry with its name.
#[derive(Debug, Clone)]
pub struct NamedServerEntry {
    /// Its name in the file.
    pub name: String,
    /// What it says; none if it is not plainly a command or an address.
    pub entry: Option<ServerEntry>,
    /// Whether the client has it switched off.
    pub is_disabled: bool,
    /// Whether it starts in a folder, or with a file of variables, that nobody looks into.
    pub has_external_context: bool,
    /// The names of variables that the client hands on to it, beside those that stand in the entry.
    pub forwarded_variables: Vec<String>,
}

impl NamedServerEntry {
    /// Reads an entry of a client.
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

impl ServerEntry {
    /// The variables or headers, as they are written.
    pub fn variables_or_headers(&self) -> &[(String, String)] {
        match self {
            Self::Command { env, .. } => env,
            Self::Remote { headers, .. } => headers,
        }
    }
}

/// How clients spell a program, its variables, and an address.
const COMMAND_KEYS: [&str; 2] = ["command", "cmd"];
const ENV_KEYS: [&str; 3] = ["env", "environment", "envs"];
const URL_KEYS: [&str; 4] = ["httpUrl", "serverUrl", "url", "uri"];
/// How they spell the folder that a program starts in, and a file of variables.
const EXTERNAL_CONTEXT_KEYS: [&str; 5] = ["cwd", "workingDirectory", "working_directory", "envFile", "env_file"];
/// How they spell a list of variables that are handed on.
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

/// Whether an entry says one thing twice, or both of a command and an address: which of them its client goes by, nobody can
/// tell, and the other may be what somebody judges it by.
fn is_ambiguous(fields: &Map<String, Value>) -> bool {
    let count = |names: &[&str]| {
        let is_there = |name: &&&str| fields.get(**name).is_some_and(|value| !value.is_null());
        names.iter().filter(is_there).count()
    };
    // Zed once had a table for the command, with all of it inside.
    let inner = COMMAND_KEYS.iter().find_map(|name| fields.get(*name)?.as_object());
    let is_inside = inner.is_some_and(|inner| {
        let has = |names: &[&str]| names.iter().any(|name| inner.contains_key(*name));
        has(&COMMAND_KEYS) || has(&ENV_KEYS) && count(&ENV_KEYS) > 0 || is_ambiguous(inner)
    });
    is_inside || count(&COMMAND_KEYS) + count(&URL_KEYS) > 1 || count(&ENV_KEYS) > 1
}

fn read_command(fields: &Map<String, Value>) -> Option<ServerEntry> {
    let mut words = match find_first_key(fields, &COMMAND_KEYS)?.1 {
        Value::String(program) => vec![program.clone()],
        // OpenCode has the arguments in the same list.
        Value::Array(words) => value_texts(words),
        // Zed once had a table here.
        Value::Object(inner) => return read_nested_command(inner, fields),
        _ => return None,
    };
    words.extend(fields.get("args").and_then(Value::as_array).map(|args| value_texts(args)).unwrap_or_default());
    let env = find_first_key(fields, &ENV_KEYS).map(|(_, env)| env);
    let cwd = fields.get("cwd").and_then(Value::as_str).map(str::to_owned);
    let is_command = words.first().is_some_and(|program| !program.is_empty());
    is_command.then(|| ServerEntry::Command { argv: words, env: read_string_pairs(env), cwd })
}

fn read_nested_command(inner: &Map<String, Value>, outer: &Map<String, Value>) -> Option<ServerEntry> {
    let mut fields = inner.clone();
    fields.insert("command".to_owned(), Value::String(inner.get("path")?.as_str()?.to_owned()));
    if let Some(env) = outer.get("env") {
        fields.entry("env").or_insert_with(|| env.clone());
    }
    read_command(&fields)
}

fn read_remote(client: &ClientProfile, fields: &Map<String, Value>) -> Option<ServerEntry> {
    let (named, url) = find_first_key(fields, &URL_KEYS)?;
    let url = url.as_str()?.to_owned();
    let kind = ["type", "transport"].iter().find_map(|name| fields.get(*name)?.as_str());
    // In Gemini's file `url` is the old transport and `httpUrl` the new one.
    let is_sse = kind == Some("sse") || (client.id == "gemini" && named == "url" && kind.is_none());
    let options = fields.get("requestOptions").and_then(|options| options.get("headers"));
    let mut headers = read_string_pairs(fields.get("headers").or(fields.get("http_headers")).or(options));
    for (header, variable) in read_string_pairs(fields.get("env_http_headers")) {
        headers.push((header, format!("${{{variable}}}")));
    }
    if let Some(variable) = fields.get("bearer_token_env_var").and_then(Value::as_str) {
        headers.push(("Authorization".to_owned(), format!("Bearer ${{{variable}}}")));
    }
    Some(ServerEntry::Remote { url, headers, is_sse })
}

/// The first of these that says something.
fn find_first_key<'f, 'n>(fields: &'f Map<String, Value>, names: &[&'n str]) -> Option<(&'n str, &'f Value)> {
    names.iter().find_map(|name| Some((*name, fields.get(*name).filter(|value| !value.is_null())?)))
}

/// Words of a command; numbers and such as they are written.
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

    use super::super::find_client;
    use super::*;

    fn read(client: &str, value: &Value) -> Option<ServerEntry> {
        NamedServerEntry::read(find_client(client).expect("a client"), "x", value).entry
    }

    #[test]
    fn commands_are_read_in_every_spelling() {
        let words = |entry: Option<ServerEntry>| match entry {
            Some(ServerEntry::Command { argv: words, env, .. }) => (words.join(" "), env.len()),
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
    fn an_entry_that_says_two_things_is_neither() {
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
    fn addresses_are_read_in_every_spelling() {
        for (client, value, sse) in [
            ("cursor", json!({"url": "http://a/"}), false),
            ("gemini", json!({"httpUrl": "http://a/"}), false),
            ("gemini", json!({"url": "http://a/"}), true),
            ("windsurf", json!({"serverUrl": "http://a/"}), false),
            ("vscode", json!({"type": "sse", "url": "http://a/"}), true),
            ("goose", json!({"type": "streamable_http", "uri": "http://a/"}), false),
        ] {
            let expected = ServerEntry::Remote { url: "http://a/".to_owned(), headers: Vec::new(), is_sse: sse };
            assert_eq!(read(client, &value), Some(expected), "{client} {value}");
        }
        let codex =
            read("codex", &json!({"url": "http://a/", "bearer_token_env_var": "K", "env_http_headers": {"X": "V"}}));
        let headers = codex.expect("an entry").variables_or_headers().to_vec();
        assert_eq!(headers[0], ("X".to_owned(), "${V}".to_owned()));
        assert_eq!(headers[1], ("Authorization".to_owned(), "Bearer ${K}".to_owned()));
    }
}
