//! Gateway entries for client configurations, and install commands or links for clients that support them.

use data_encoding::BASE64;
use serde_json::{Value, json};

use crate::client_profiles::{ClientConfigEntryFormat, ClientProfile};
use crate::env_reference::{EnvReferenceSyntax, vscode_input_id};
use crate::shell_quote::quote_for_shell;

/// Default environment variable for the token.
pub const DEFAULT_TOKEN_ENV: &str = "GATELODGE_TOKEN";

/// Names of the fields that describe the connection to a server, in any client. When an entry is replaced, its old
/// values for these fields are dropped.
const CONNECTION_KEYS: &[&str] = &[
    "type",
    "transport",
    "source",
    "command",
    "cmd",
    "args",
    "env",
    "environment",
    "envs",
    "env_keys",
    "env_vars",
    "envFile",
    "cwd",
    "url",
    "httpUrl",
    "serverUrl",
    "uri",
    "headers",
    "http_headers",
    "env_http_headers",
    "headersHelper",
    "bearer_token_env_var",
    "requestOptions",
    "oauth",
    "auth",
];

/// A server behind the gateway, as a client sees it. Names the variable or file that holds the token, but never
/// contains the token itself.
#[derive(Debug, Clone)]
pub struct GatewayEntry {
    /// Name of the entry.
    pub name: String,
    /// URL at which clients reach the server through the gateway.
    pub url: String,
    /// Environment variable that holds the token.
    pub token_env: String,
    /// File from which the bridge reads the token, because many clients pass few environment variables to the programs
    /// they start.
    pub token_file: Option<String>,
    /// Program that clients start as the bridge.
    pub program: String,
}

impl GatewayEntry {
    /// Returns the entry for a client.
    pub fn client_entry(&self, client: &ClientProfile) -> Value {
        let bearer = client.env_syntax.bearer_header(&self.token_env).unwrap_or_default();
        let (url, token) = (&self.url, &self.token_env);
        match client.entry_shape {
            ClientConfigEntryFormat::Http { kind: Some(kind), url: key } => {
                json!({"type": kind, key: url, "headers": {"Authorization": bearer}})
            }
            ClientConfigEntryFormat::Http { kind: None, url: key } => {
                json!({key: url, "headers": {"Authorization": bearer}})
            }
            ClientConfigEntryFormat::Codex => json!({"url": url, "bearer_token_env_var": token}),
            ClientConfigEntryFormat::OpenCode => {
                json!({"type": "remote", "url": url, "headers": {"Authorization": bearer}, "enabled": true})
            }
            ClientConfigEntryFormat::Goose => json!({
                "name": self.name, "type": "streamable_http", "enabled": true, "uri": url,
                "env_keys": [token], "headers": {"Authorization": bearer}, "timeout": 300,
            }),
            ClientConfigEntryFormat::Continue => json!({
                "name": self.name, "type": "streamable-http", "url": url,
                "requestOptions": {"headers": {"Authorization": bearer}},
            }),
            ClientConfigEntryFormat::Bridge => json!({"command": self.program, "args": self.bridge_arguments()}),
            ClientConfigEntryFormat::Anthropic => json!({
                "mcp_servers": [{"type": "url", "url": url, "name": self.name, "authorization_token": token_placeholder(token)}],
                "tools": [{"type": "mcp_toolset", "mcp_server_name": self.name}],
            }),
            ClientConfigEntryFormat::OpenAi => json!({
                "tools": [{
                    "type": "mcp", "server_label": self.name, "server_url": url,
                    "authorization": token_placeholder(token), "require_approval": "never",
                }],
            }),
            ClientConfigEntryFormat::WebForm => json!({
                "Admin Settings > External Tools > +": {
                    "Type": "MCP (Streamable HTTP)", "URL": url, "Auth": "Bearer", "Token": token_placeholder(token),
                },
            }),
        }
    }

    /// Returns the entry that replaces `old`, with new connection fields and all other fields kept.
    pub fn merged_entry(&self, client: &ClientProfile, old: Option<&Value>) -> Value {
        let mut entry = self.client_entry(client);
        if let (Some(Value::Object(old)), Value::Object(new)) = (old, &mut entry) {
            let kept =
                old.iter().filter(|(name, _)| !CONNECTION_KEYS.contains(&name.as_str()) && !new.contains_key(*name));
            let kept: Vec<_> = kept.map(|(name, value)| (name.clone(), value.clone())).collect();
            new.extend(kept);
        }
        entry
    }

    /// Returns the definition of the input through which VS Code prompts for the token, or `None` if the client does
    /// not use inputs.
    pub fn vscode_input(&self, client: &ClientProfile) -> Option<Value> {
        (client.env_syntax == EnvReferenceSyntax::Input).then(|| {
            let description = format!("Gatelodge token for {}", self.name);
            json!({"type": "promptString", "id": vscode_input_id(&self.token_env), "description": description, "password": true})
        })
    }

    /// Returns the client's own command or link for adding the entry.
    pub fn install_command(&self, client: &ClientProfile) -> Option<String> {
        let (name, url, token) =
            (quote_for_shell(&self.name), quote_for_shell(&self.url), quote_for_shell(&self.token_env));
        let header = quote_for_shell(&format!(
            "Authorization: {}",
            client.env_syntax.bearer_header(&self.token_env).unwrap_or_default()
        ));
        match client.id {
            // `--header` takes several values, so it must be last.
            "claude-code" => {
                Some(format!("claude mcp add --scope user --transport http {name} {url} --header {header}"))
            }
            "claude-code-project" => {
                Some(format!("claude mcp add --scope project --transport http {name} {url} --header {header}"))
            }
            "cursor" => {
                let config = BASE64.encode(self.client_entry(client).to_string().as_bytes());
                let link = "cursor://anysphere.cursor-deeplink/mcp/install";
                Some(format!("{link}?name={}&config={}", encode_query_value(&self.name), encode_query_value(&config)))
            }
            "vscode" => {
                let mut server = json!({"name": self.name, "inputs": [self.vscode_input(client)]});
                if let (Some(server), Value::Object(entry)) = (server.as_object_mut(), self.client_entry(client)) {
                    server.extend(entry);
                }
                Some(format!("code --add-mcp {}", quote_for_shell(&server.to_string())))
            }
            "codex" => Some(format!("codex mcp add {name} --url {url} --bearer-token-env-var {token}")),
            "gemini" => Some(format!("gemini mcp add --scope user --transport http --header {header} {name} {url}")),
            _ => None,
        }
    }

    /// Returns the arguments for the bridge.
    fn bridge_arguments(&self) -> Vec<&str> {
        let mut arguments = vec!["bridge", self.url.as_str()];
        match &self.token_file {
            Some(file) => arguments.extend(["--token-file", file.as_str()]),
            None if self.token_env != DEFAULT_TOKEN_ENV => arguments.extend(["--token-env", self.token_env.as_str()]),
            None => {}
        }
        arguments
    }
}

/// Returns a placeholder for the user to replace with the token.
fn token_placeholder(variable: &str) -> String {
    format!("<the token in {variable}>")
}

/// Percent-encodes a query value.
fn encode_query_value(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}
