//! The content of a client's configuration file. Reads the servers in it and replaces entries, keeping comments, order,
//! indentation, line endings and the byte order mark.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use crate::client_config_locations::CLAUDE_PROJECTS_KEY;
use crate::client_profiles::{ClientConfigFileFormat, ClientProfile};
use crate::client_server_entry::ClientConfigServer;
use crate::{client_jsonc_editor, client_toml_editor, client_yaml_reader};

const BYTE_ORDER_MARK: char = '\u{feff}';

/// A parsed client configuration, together with its source text.
#[derive(Debug, Clone)]
pub struct ClientConfigDocument {
    format: ClientConfigFileFormat,
    has_byte_order_mark: bool,
    text: String,
    value: Value,
}

/// A change to one entry.
#[derive(Debug, Clone)]
pub struct ClientConfigEntryChange {
    /// Keys that lead to the table of servers.
    pub servers_path: Vec<String>,
    /// Name of the entry.
    pub name: String,
    /// New value; `None` removes the entry.
    pub entry: Option<Value>,
    /// Definition of an input that VS Code prompts for. It is added unless it already exists.
    pub vscode_input: Option<Value>,
}

impl ClientConfigEntryChange {
    /// Returns the key path of the entry, which ends with its name.
    pub fn path(&self) -> Vec<String> {
        [self.servers_path.as_slice(), std::slice::from_ref(&self.name)].concat()
    }
}

impl ClientConfigDocument {
    /// Reads a configuration.
    ///
    /// # Errors
    /// Returns the syntax error with its line, but without any text from the file.
    pub fn read(format: ClientConfigFileFormat, bytes: &[u8]) -> Result<Self, String> {
        let text = str::from_utf8(bytes).map_err(|error| {
            let line = bytes.iter().take(error.valid_up_to()).filter(|byte| **byte == b'\n').count() + 1;
            format!("line {line} is not UTF-8")
        })?;
        let (has_mark, text) = match text.strip_prefix(BYTE_ORDER_MARK) {
            Some(text) => (true, text.to_owned()),
            None => (false, text.to_owned()),
        };
        let value = match format {
            // Clients treat an empty file as one without settings.
            _ if text.trim().is_empty() => json!({}),
            ClientConfigFileFormat::Json => client_jsonc_editor::read(&text)?,
            ClientConfigFileFormat::Toml => client_toml_editor::read(&text)?,
            ClientConfigFileFormat::Yaml => client_yaml_reader::read(&text)?,
            ClientConfigFileFormat::NoFile => json!({}),
        };
        if value.is_object() {
            Ok(Self { format, has_byte_order_mark: has_mark, text, value })
        } else {
            Err("it is not an object".into())
        }
    }

    /// Returns an empty configuration, for a file that does not exist.
    pub fn new(format: ClientConfigFileFormat) -> Self {
        let text = if format == ClientConfigFileFormat::Json { "{}\n" } else { "" };
        Self { format, has_byte_order_mark: false, text: text.to_owned(), value: json!({}) }
    }

    /// Returns the servers below `root`.
    pub fn servers(&self, client: &ClientProfile, root: &[String]) -> Vec<ClientConfigServer> {
        match self.find_value(root) {
            Some(Value::Object(entries)) => {
                entries.iter().map(|(name, value)| ClientConfigServer::read(client, name, value)).collect()
            }
            // Continue has a list whose items contain their names.
            Some(Value::Array(items)) => {
                let name = |item: &Value| item.get("name").and_then(Value::as_str).unwrap_or("unnamed").to_owned();
                items.iter().map(|item| ClientConfigServer::read(client, &name(item), item)).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Returns the line number of each entry, by name, for each of the server tables whose key paths are `roots`.
    /// Entries whose line cannot be determined are left out. Parses the file content only once.
    pub fn entry_lines(&self, roots: &[Vec<String>]) -> Vec<HashMap<String, usize>> {
        let offsets = match self.format {
            ClientConfigFileFormat::Json => client_jsonc_editor::entry_offsets(&self.text, roots),
            ClientConfigFileFormat::Toml => client_toml_editor::entry_offsets(&self.text, roots),
            // The reader returns lines, and clients with YAML have only one root.
            ClientConfigFileFormat::Yaml => {
                return roots.iter().map(|root| client_yaml_reader::entry_lines(&self.text, root)).collect();
            }
            ClientConfigFileFormat::NoFile => vec![HashMap::new(); roots.len()],
        };
        let ends: Vec<usize> = self.text.match_indices('\n').map(|(at, _)| at).collect();
        let line_of = |offset: usize| ends.partition_point(|end| *end < offset) + 1;
        let lines =
            |own: HashMap<String, usize>| own.into_iter().map(|(name, offset)| (name, line_of(offset))).collect();
        offsets.into_iter().map(lines).collect()
    }

    /// Returns whether the configuration has no settings at all.
    pub fn is_empty(&self) -> bool {
        self.value.as_object().is_none_or(Map::is_empty)
    }

    /// Returns the key paths of all server tables in the file: the main table and, for Claude Code, one per project.
    pub fn servers_paths(&self, client: &ClientProfile) -> Vec<Vec<String>> {
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        let projects = self.value.get(CLAUDE_PROJECTS_KEY).and_then(Value::as_object);
        let projects = projects.into_iter().flat_map(Map::keys).filter(|_| client.id == "claude-code");
        let mut roots = vec![names(client.servers_path)];
        roots.extend(projects.map(|project| names(&[CLAUDE_PROJECTS_KEY, project, "mcpServers"])));
        roots.retain(|root| matches!(self.find_value(root), Some(Value::Object(_) | Value::Array(_))));
        roots
    }

    /// Returns the current entry with this name.
    pub fn find_entry(&self, root: &[String], name: &str) -> Option<&Value> {
        self.find_value(root)?.get(name)
    }

    /// Returns the file content with the entries changed and everything else as it was.
    ///
    /// # Errors
    /// Returns an error if the entries cannot be changed without changing anything else.
    pub fn apply_changes(&self, changes: &[ClientConfigEntryChange]) -> Result<Vec<u8>, String> {
        let text = match self.format {
            ClientConfigFileFormat::Json => client_jsonc_editor::apply_changes(&self.text, changes)?,
            ClientConfigFileFormat::Toml => client_toml_editor::apply_changes(&self.text, changes)?,
            ClientConfigFileFormat::Yaml | ClientConfigFileFormat::NoFile => {
                return Err("this file can only be changed by hand".into());
            }
        };
        // INVARIANT: the new text differs from the old one only in our entries. The editors should guarantee it; this
        // verifies it.
        let mut after = Self::read(self.format, text.as_bytes())?.value;
        let mut expected = self.value.clone();
        for change in changes {
            apply_change(&mut expected, change);
        }
        for change in changes.iter().filter(|change| change.entry.is_none()) {
            remove_empty_tables(&mut after, &change.servers_path);
            remove_empty_tables(&mut expected, &change.servers_path);
        }
        if after != expected {
            return Err("it cannot be changed without changing something else in it".into());
        }
        let mark = if self.has_byte_order_mark { BYTE_ORDER_MARK.to_string() } else { String::new() };
        Ok(format!("{mark}{text}").into_bytes())
    }

    fn find_value(&self, root: &[String]) -> Option<&Value> {
        root.iter().try_fold(&self.value, |value, name| value.get(name))
    }
}

/// Applies a change to the parsed value.
fn apply_change(value: &mut Value, change: &ClientConfigEntryChange) {
    let mut table = &mut *value;
    for name in &change.servers_path {
        let Value::Object(fields) = table else { return };
        table = fields.entry(name).or_insert_with(|| Value::Object(Map::new()));
    }
    if let Value::Object(fields) = table {
        match &change.entry {
            Some(entry) => drop(fields.insert(change.name.clone(), entry.clone())),
            None => drop(fields.shift_remove(&change.name)),
        }
    }
    if let (Some(input), Value::Object(fields)) = (&change.vscode_input, value) {
        let inputs = fields.entry("inputs").or_insert_with(|| json!([]));
        if let Value::Array(inputs) = inputs
            && !inputs.iter().any(|known| known.get("id") == input.get("id"))
        {
            inputs.push(input.clone());
        }
    }
}

/// Removes the empty tables along a path. Removing the last entry leaves an empty table in JSON but not in TOML, so
/// empty tables are ignored when configurations are compared.
fn remove_empty_tables(value: &mut Value, root: &[String]) {
    let Some((first, rest)) = root.split_first() else { return };
    let Value::Object(fields) = value else { return };
    if let Some(inner) = fields.get_mut(first) {
        remove_empty_tables(inner, rest);
        if inner.as_object().is_some_and(Map::is_empty) {
            fields.shift_remove(first);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::find_client;

    fn change(root: &str, name: &str, entry: Value) -> ClientConfigEntryChange {
        ClientConfigEntryChange {
            servers_path: vec![root.to_owned()],
            name: name.to_owned(),
            entry: Some(entry),
            vscode_input: None,
        }
    }

    fn edit(format: ClientConfigFileFormat, text: &str, change: ClientConfigEntryChange) -> String {
        let document = ClientConfigDocument::read(format, text.as_bytes()).expect("a document");
        String::from_utf8(document.apply_changes(&[change]).expect("a change")).expect("UTF-8")
    }

    #[test]
    fn json_keeps_comments_tabs_line_endings_and_byte_order_mark() {
        let text = "\u{feff}{\r\n\t// mine\r\n\t\"mcpServers\": {\r\n\t\t\"a\": { \"command\": \"x\" }, // first\r\n\t\t\"b\": {\"url\": \"u\"},\r\n\t},\r\n}\r\n";
        let out = edit(ClientConfigFileFormat::Json, text, change("mcpServers", "a", json!({"url": "new"})));
        let expected = "\u{feff}{\r\n\t// mine\r\n\t\"mcpServers\": {\r\n\t\t\"a\": {\r\n\t\t\t\"url\": \"new\"\r\n\t\t}, // first\r\n\t\t\"b\": {\"url\": \"u\"},\r\n\t},\r\n}\r\n";
        assert_eq!(out, expected);
    }

    #[test]
    fn json_gets_new_entries_where_there_were_none() {
        let out = edit(ClientConfigFileFormat::Json, "", change("servers", "a", json!({"url": "new"})));
        assert_eq!(out.trim_end(), "{\n  \"servers\": {\n    \"a\": {\n      \"url\": \"new\"\n    }\n  }\n}");
        let out = edit(ClientConfigFileFormat::Json, "{\"x\": 1}", change("servers", "a", json!({"url": "new"})));
        assert_eq!(
            serde_json::from_str::<Value>(&out).expect("JSON"),
            json!({"x": 1, "servers": {"a": {"url": "new"}}})
        );
    }

    #[test]
    fn toml_keeps_comments_and_line_endings() {
        let text = "# mine\r\nmodel = \"x\" # why\r\n\r\n# about a\r\n[mcp_servers.a]\r\ncommand = \"x\"\r\n[mcp_servers.a.env]\r\nK = \"v\"\r\n\r\n[other]\r\ny = 1\r\n";
        let out = edit(ClientConfigFileFormat::Toml, text, change("mcp_servers", "a", json!({"url": "new"})));
        let expected = "# mine\r\nmodel = \"x\" # why\r\n\r\n# about a\r\n[mcp_servers.a]\r\nurl = \"new\"\r\n\r\n[other]\r\ny = 1\r\n";
        assert_eq!(out, expected);
        let out = edit(ClientConfigFileFormat::Toml, "x = 1\n", change("mcp_servers", "a.b", json!({"url": "new"})));
        assert_eq!(out, "x = 1\n\n[mcp_servers.\"a.b\"]\nurl = \"new\"\n");
        let out = edit(
            ClientConfigFileFormat::Toml,
            "[mcp_servers]\na = { url = \"old\" } # here\n",
            change("mcp_servers", "a", json!({"url": "new"})),
        );
        assert_eq!(out, "[mcp_servers]\na = { url = \"new\" } # here\n");
    }

    #[test]
    fn an_entry_can_be_removed() {
        let removal = |root: &str| ClientConfigEntryChange {
            servers_path: vec![root.to_owned()],
            name: "a".to_owned(),
            entry: None,
            vscode_input: None,
        };
        let text = "{\n  \"servers\": {\n    \"a\": {}, // ours\n    \"b\": {} // mine\n  }\n}\n";
        let out = edit(ClientConfigFileFormat::Json, text, removal("servers"));
        assert!(out.contains("\"b\": {} // mine") && !out.contains("\"a\""), "{out}");
        assert_eq!(
            edit(ClientConfigFileFormat::Toml, "x = 1\n\n[s.a]\ny = 1\n\n[t]\n", removal("s")),
            "x = 1\n\n[t]\n"
        );
    }

    #[test]
    fn syntax_errors_name_the_line_without_its_text() {
        for (format, text, line) in [
            (ClientConfigFileFormat::Json, "{\n \"k\": hunter2\n}", "line 2"),
            (ClientConfigFileFormat::Toml, "a = 1\nk = hunter2\n", "line 2"),
            (ClientConfigFileFormat::Yaml, "a: 1\nk: [hunter2\n", "line"),
        ] {
            let error = ClientConfigDocument::read(format, text.as_bytes()).expect_err("an error");
            assert!(error.contains(line) && !error.contains("hunter2"), "{error}");
        }
        assert!(ClientConfigDocument::read(ClientConfigFileFormat::Json, b"[1]").is_err());
        assert_eq!(
            ClientConfigDocument::read(ClientConfigFileFormat::Json, b"{}\n\xff").expect_err("an error"),
            "line 2 is not UTF-8"
        );
    }

    #[test]
    fn a_repeated_name_is_refused() {
        let text = r#"{"mcpServers": {"a": {"url": "1"}, "a": {"url": "2"}}}"#;
        let document = ClientConfigDocument::read(ClientConfigFileFormat::Json, text.as_bytes()).expect("a document");
        let error = document.apply_changes(&[change("mcpServers", "a", json!({}))]).expect_err("an error");
        assert!(error.contains("twice"), "{error}");
    }

    #[test]
    fn the_line_of_an_entry_is_found_in_each_format() {
        let line = |format: ClientConfigFileFormat, text: &str, root: &str, name: &str| {
            let lines = ClientConfigDocument::read(format, text.as_bytes())
                .expect("a document")
                .entry_lines(&[vec![root.to_owned()]]);
            lines[0].get(name).copied().unwrap_or(1)
        };
        let json = "\u{feff}{\n  // \"b\": here not\n  \"b\": {},\n  \"servers\": {\n    \"a\": {\"b\": 1},\n\n    \"b\":\n {}\n  }\n}";
        assert_eq!(
            (
                line(ClientConfigFileFormat::Json, json, "servers", "a"),
                line(ClientConfigFileFormat::Json, json, "servers", "b")
            ),
            (5, 7)
        );
        let json = "{\"mcpServers\": [\n{\"name\": \"a\"},\n{\"name\": \"b\"}]}";
        assert_eq!(line(ClientConfigFileFormat::Json, json, "mcpServers", "b"), 3);
        let toml = "a = 1\r\n[s.a]\r\nx = 1\r\n[s.a.env]\r\n\r\n[s.\"b c\"]\r\nx = 1\r\n";
        assert_eq!(
            (line(ClientConfigFileFormat::Toml, toml, "s", "a"), line(ClientConfigFileFormat::Toml, toml, "s", "b c")),
            (2, 6)
        );
        let yaml = "a: {b: [1, {c: 2}]}\nextensions:\n  a:\n    cmd: x\n\n  'b':\n    cmd: y\n";
        assert_eq!(
            (
                line(ClientConfigFileFormat::Yaml, yaml, "extensions", "a"),
                line(ClientConfigFileFormat::Yaml, yaml, "extensions", "b")
            ),
            (3, 6)
        );
        let yaml = "mcpServers:\n  - name: a\n    url: x\n  - url: y\n    name: b\n";
        assert_eq!(
            (
                line(ClientConfigFileFormat::Yaml, yaml, "mcpServers", "b"),
                line(ClientConfigFileFormat::Yaml, yaml, "mcpServers", "c")
            ),
            (4, 1)
        );
    }

    #[test]
    fn yaml_maps_and_lists_are_read() {
        let text = "extensions:\n  a:\n    cmd: npx\n    args: [-y, 'x']\n    envs: {K: v}\n    enabled: false\n";
        let document = ClientConfigDocument::read(ClientConfigFileFormat::Yaml, text.as_bytes()).expect("a document");
        let found = document.servers(find_client("goose").expect("a client"), &["extensions".to_owned()]);
        assert!(found[0].is_disabled && found[0].entry.is_some());
        let text = "mcpServers:\n  - name: b\n    url: http://x/\n";
        let document = ClientConfigDocument::read(ClientConfigFileFormat::Yaml, text.as_bytes()).expect("a document");
        let found = document.servers(find_client("continue").expect("a client"), &["mcpServers".to_owned()]);
        assert_eq!((found.len(), found[0].name.as_str()), (1, "b"));
        assert!(document.apply_changes(&[]).is_err());
    }
}
