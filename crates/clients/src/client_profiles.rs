//! The table of supported clients, with everything specific to each client.

use crate::client_config_locations::{BaseDirectory, ClientConfigPath};
use crate::env_reference::EnvReferenceSyntax;

/// A supported MCP client.
#[derive(Debug)]
pub struct ClientProfile {
    /// Name on the command line.
    pub id: &'static str,
    /// Display name.
    pub name: &'static str,
    /// Configuration files. `connect` writes the first writable one; `init` reads all.
    pub config_paths: &'static [ClientConfigPath],
    /// Format of the files.
    pub format: ClientConfigFileFormat,
    /// Keys that lead to the table of servers.
    pub servers_path: &'static [&'static str],
    /// Syntax of references to environment variables.
    pub env_syntax: EnvReferenceSyntax,
    /// Format of the entry that connects the client to the gateway.
    pub entry_shape: ClientConfigEntryFormat,
    /// Field that disables an entry.
    pub disable_field: DisableField,
    /// Notes for the documentation, in whole sentences.
    pub note: &'static str,
}

/// Format of a file, and whether it can be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ClientConfigFileFormat {
    /// JSON, with comments and trailing commas if the client accepts them.
    Json,
    /// TOML.
    Toml,
    /// YAML, which can be read but not edited. Changes are printed, and the user makes them.
    Yaml,
    /// The client has no configuration file.
    NoFile,
}

/// Format of a server entry in a client's configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientConfigEntryFormat {
    /// An entry with a URL, headers and an optional type. The key for the URL depends on the client.
    Http {
        /// Value of the field `type`, if the entry has one.
        kind: Option<&'static str>,
        /// Key of the URL.
        url: &'static str,
    },
    /// A `[mcp_servers.NAME]` table that names the environment variable for the token.
    Codex,
    /// An entry with `type: remote`.
    OpenCode,
    /// A Goose extension, with a list of the environment variables it uses.
    Goose,
    /// An item in a list of servers, with its name in a `name` field.
    Continue,
    /// A command that starts the bridge, for clients that support only stdio servers or cannot read a token from the
    /// environment.
    Bridge,
    /// Part of an Anthropic API request.
    Anthropic,
    /// Part of an OpenAI API request.
    OpenAi,
    /// A form in a web interface.
    WebForm,
}

/// Field that disables a server. Only documented fields are listed, because a client may ignore an undocumented one and
/// run the server anyway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DisableField {
    /// Entries have no field that disables them.
    None,
    /// `disabled: true`.
    Disabled,
    /// `enabled: false`.
    Enabled,
}

/// How a client connects to the gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientConnectionMethod {
    /// Over HTTP, from this machine.
    Http,
    /// Over stdio, through `gatelodge bridge`.
    Bridge,
    /// Over HTTPS, from the machines of a hosted service.
    PublicHttps,
}

impl ClientProfile {
    /// Returns how the client connects to the gateway.
    pub fn connection_method(&self) -> ClientConnectionMethod {
        match self.entry_shape {
            ClientConfigEntryFormat::Bridge => ClientConnectionMethod::Bridge,
            ClientConfigEntryFormat::Anthropic | ClientConfigEntryFormat::OpenAi => ClientConnectionMethod::PublicHttps,
            ClientConfigEntryFormat::Http { .. }
            | ClientConfigEntryFormat::Codex
            | ClientConfigEntryFormat::OpenCode
            | ClientConfigEntryFormat::Goose
            | ClientConfigEntryFormat::Continue
            | ClientConfigEntryFormat::WebForm => ClientConnectionMethod::Http,
        }
    }

    /// Returns whether the client reads the token from the environment. Other clients prompt for it.
    pub fn can_read_token_env(&self) -> bool {
        self.env_syntax != EnvReferenceSyntax::Input && self.entry_shape != ClientConfigEntryFormat::WebForm
    }

    /// Returns whether the client's files can be edited without losing comments or layout.
    pub fn is_writable(&self) -> bool {
        matches!(self.format, ClientConfigFileFormat::Json | ClientConfigFileFormat::Toml)
    }
}

/// Finds a client by its command line name.
pub fn find_client(id: &str) -> Option<&'static ClientProfile> {
    CLIENT_PROFILES.iter().find(|client| client.id == id)
}

const fn config_path(base: BaseDirectory, path: &'static str) -> ClientConfigPath {
    ClientConfigPath { base, path, windows: None }
}

const fn config_path_or_windows(
    base: BaseDirectory,
    path: &'static str,
    windows: (BaseDirectory, &'static str),
) -> ClientConfigPath {
    ClientConfigPath { base, path, windows: Some(windows) }
}

const fn http_shape(url: &'static str) -> ClientConfigEntryFormat {
    ClientConfigEntryFormat::Http { kind: None, url }
}

const fn typed_http_shape(kind: &'static str) -> ClientConfigEntryFormat {
    ClientConfigEntryFormat::Http { kind: Some(kind), url: "url" }
}

const MCP_SERVERS: &[&str] = &["mcpServers"];
const BRIDGE_NOTE: &str = "It supports only stdio servers, so it starts the bridge. \
    The bridge may not get the variable: desktop applications do not see variables that a shell exports. \
    In that case add `--token-file` and a file with the token after the URL.";
const NOT_EXPANDED: &str = "It documents no way to read a token from the environment, so it starts the bridge, which \
can, and which can also read it from a file with `--token-file`.";

/// All clients, in display order.
pub const CLIENT_PROFILES: &[ClientProfile] = &[
    ClientProfile {
        id: "claude-code",
        name: "Claude Code",
        config_paths: &[config_path(BaseDirectory::Claude, ".claude.json")],
        format: ClientConfigFileFormat::Json,
        servers_path: MCP_SERVERS,
        env_syntax: EnvReferenceSyntax::Braces,
        entry_shape: typed_http_shape("http"),
        disable_field: DisableField::None,
        note: "`CLAUDE_CONFIG_DIR` moves the file. Servers for one directory are below `projects`.",
    },
    ClientProfile {
        id: "claude-code-project",
        name: "Claude Code (project)",
        config_paths: &[config_path(BaseDirectory::Project, ".mcp.json")],
        format: ClientConfigFileFormat::Json,
        servers_path: MCP_SERVERS,
        env_syntax: EnvReferenceSyntax::Braces,
        entry_shape: typed_http_shape("http"),
        disable_field: DisableField::None,
        note: "Everyone with access to the project shares the file; each person needs a token of their own in the variable.",
    },
    ClientProfile {
        id: "claude-desktop",
        name: "Claude Desktop",
        config_paths: &[config_path(BaseDirectory::Config, "Claude/claude_desktop_config.json")],
        format: ClientConfigFileFormat::Json,
        servers_path: MCP_SERVERS,
        env_syntax: EnvReferenceSyntax::Unsupported,
        entry_shape: ClientConfigEntryFormat::Bridge,
        disable_field: DisableField::None,
        note: BRIDGE_NOTE,
    },
    ClientProfile {
        id: "cursor",
        name: "Cursor",
        config_paths: &[
            config_path(BaseDirectory::Home, ".cursor/mcp.json"),
            config_path(BaseDirectory::Project, ".cursor/mcp.json"),
        ],
        format: ClientConfigFileFormat::Json,
        servers_path: MCP_SERVERS,
        env_syntax: EnvReferenceSyntax::Env,
        entry_shape: http_shape("url"),
        disable_field: DisableField::None,
        note: "",
    },
    ClientProfile {
        id: "vscode",
        name: "VS Code",
        config_paths: &[
            config_path(BaseDirectory::Project, ".vscode/mcp.json"),
            config_path(BaseDirectory::Config, "Code/User/mcp.json"),
        ],
        format: ClientConfigFileFormat::Json,
        servers_path: &["servers"],
        env_syntax: EnvReferenceSyntax::Input,
        entry_shape: typed_http_shape("http"),
        disable_field: DisableField::None,
        note: "It asks for the token once and keeps it in its own secret storage.",
    },
    ClientProfile {
        id: "codex",
        name: "Codex",
        config_paths: &[
            config_path(BaseDirectory::Home, ".codex/config.toml"),
            config_path(BaseDirectory::Project, ".codex/config.toml"),
        ],
        format: ClientConfigFileFormat::Toml,
        servers_path: &["mcp_servers"],
        env_syntax: EnvReferenceSyntax::Unsupported,
        entry_shape: ClientConfigEntryFormat::Codex,
        disable_field: DisableField::Enabled,
        note: "The file of a project is used only if the project is trusted.",
    },
    ClientProfile {
        id: "gemini",
        name: "Gemini CLI",
        config_paths: &[
            config_path(BaseDirectory::Home, ".gemini/settings.json"),
            config_path(BaseDirectory::Project, ".gemini/settings.json"),
        ],
        format: ClientConfigFileFormat::Json,
        servers_path: MCP_SERVERS,
        env_syntax: EnvReferenceSyntax::Dollar,
        entry_shape: http_shape("httpUrl"),
        disable_field: DisableField::None,
        note: "`url` would select the old HTTP+SSE transport.",
    },
    ClientProfile {
        id: "windsurf",
        name: "Windsurf",
        config_paths: &[config_path(BaseDirectory::Home, ".codeium/windsurf/mcp_config.json")],
        format: ClientConfigFileFormat::Json,
        servers_path: MCP_SERVERS,
        env_syntax: EnvReferenceSyntax::Env,
        entry_shape: http_shape("serverUrl"),
        disable_field: DisableField::None,
        note: "It shows at most 100 tools of all servers together; hide some with a policy.",
    },
    ClientProfile {
        id: "zed",
        name: "Zed",
        config_paths: &[
            config_path_or_windows(
                BaseDirectory::Xdg,
                "zed/settings.json",
                (BaseDirectory::Config, "Zed/settings.json"),
            ),
            config_path(BaseDirectory::Project, ".zed/settings.json"),
        ],
        format: ClientConfigFileFormat::Json,
        servers_path: &["context_servers"],
        env_syntax: EnvReferenceSyntax::Unsupported,
        entry_shape: ClientConfigEntryFormat::Bridge,
        disable_field: DisableField::Enabled,
        note: NOT_EXPANDED,
    },
    ClientProfile {
        id: "junie",
        name: "JetBrains Junie",
        config_paths: &[
            config_path(BaseDirectory::Home, ".junie/mcp/mcp.json"),
            config_path(BaseDirectory::Project, ".junie/mcp/mcp.json"),
        ],
        format: ClientConfigFileFormat::Json,
        servers_path: MCP_SERVERS,
        env_syntax: EnvReferenceSyntax::Unsupported,
        entry_shape: ClientConfigEntryFormat::Bridge,
        disable_field: DisableField::None,
        note: BRIDGE_NOTE,
    },
    ClientProfile {
        id: "goose",
        name: "Goose",
        config_paths: &[config_path_or_windows(
            BaseDirectory::Xdg,
            "goose/config.yaml",
            (BaseDirectory::Config, "Block/goose/config/config.yaml"),
        )],
        format: ClientConfigFileFormat::Yaml,
        servers_path: &["extensions"],
        env_syntax: EnvReferenceSyntax::Braces,
        entry_shape: ClientConfigEntryFormat::Goose,
        disable_field: DisableField::Enabled,
        note: "",
    },
    ClientProfile {
        id: "librechat",
        name: "LibreChat",
        config_paths: &[config_path(BaseDirectory::Project, "librechat.yaml")],
        format: ClientConfigFileFormat::Yaml,
        servers_path: MCP_SERVERS,
        env_syntax: EnvReferenceSyntax::Braces,
        entry_shape: typed_http_shape("streamable-http"),
        disable_field: DisableField::None,
        note: "It reads the file when it starts.",
    },
    ClientProfile {
        id: "open-webui",
        name: "Open WebUI",
        config_paths: &[],
        format: ClientConfigFileFormat::NoFile,
        servers_path: &[],
        env_syntax: EnvReferenceSyntax::Unsupported,
        entry_shape: ClientConfigEntryFormat::WebForm,
        disable_field: DisableField::None,
        note: "Version 0.6.31 or later. Without a fixed `WEBUI_SECRET_KEY` it loses the token at a restart.",
    },
    ClientProfile {
        id: "cline",
        name: "Cline",
        config_paths: &[
            config_path(
                BaseDirectory::Config,
                "Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
            ),
            config_path(BaseDirectory::Home, ".cline/data/settings/cline_mcp_settings.json"),
        ],
        format: ClientConfigFileFormat::Json,
        servers_path: MCP_SERVERS,
        env_syntax: EnvReferenceSyntax::Unsupported,
        entry_shape: ClientConfigEntryFormat::Bridge,
        disable_field: DisableField::Disabled,
        note: NOT_EXPANDED,
    },
    ClientProfile {
        id: "roo",
        name: "Roo Code",
        config_paths: &[
            config_path(
                BaseDirectory::Config,
                "Code/User/globalStorage/rooveterinaryinc.roo-cline/settings/mcp_settings.json",
            ),
            config_path(BaseDirectory::Project, ".roo/mcp.json"),
        ],
        format: ClientConfigFileFormat::Json,
        servers_path: MCP_SERVERS,
        env_syntax: EnvReferenceSyntax::Env,
        entry_shape: typed_http_shape("streamable-http"),
        disable_field: DisableField::Disabled,
        note: "",
    },
    ClientProfile {
        id: "continue",
        name: "Continue",
        config_paths: &[config_path(BaseDirectory::Home, ".continue/config.yaml")],
        format: ClientConfigFileFormat::Yaml,
        servers_path: MCP_SERVERS,
        env_syntax: EnvReferenceSyntax::Secrets,
        entry_shape: ClientConfigEntryFormat::Continue,
        disable_field: DisableField::None,
        note: "Secrets are in `~/.continue/.env`, one `NAME=value` per line.",
    },
    ClientProfile {
        id: "opencode",
        name: "OpenCode",
        config_paths: &[
            config_path(BaseDirectory::Xdg, "opencode/opencode.json"),
            config_path(BaseDirectory::Xdg, "opencode/opencode.jsonc"),
            config_path(BaseDirectory::Project, "opencode.json"),
            config_path(BaseDirectory::Project, "opencode.jsonc"),
        ],
        format: ClientConfigFileFormat::Json,
        servers_path: &["mcp"],
        env_syntax: EnvReferenceSyntax::Curly,
        entry_shape: ClientConfigEntryFormat::OpenCode,
        disable_field: DisableField::Enabled,
        note: "",
    },
    ClientProfile {
        id: "lm-studio",
        name: "LM Studio",
        config_paths: &[config_path(BaseDirectory::Home, ".lmstudio/mcp.json")],
        format: ClientConfigFileFormat::Json,
        servers_path: MCP_SERVERS,
        env_syntax: EnvReferenceSyntax::Unsupported,
        entry_shape: ClientConfigEntryFormat::Bridge,
        disable_field: DisableField::None,
        note: NOT_EXPANDED,
    },
    ClientProfile {
        id: "kiro",
        name: "Kiro",
        config_paths: &[
            config_path(BaseDirectory::Home, ".kiro/settings/mcp.json"),
            config_path(BaseDirectory::Project, ".kiro/settings/mcp.json"),
        ],
        format: ClientConfigFileFormat::Json,
        servers_path: MCP_SERVERS,
        env_syntax: EnvReferenceSyntax::Braces,
        entry_shape: http_shape("url"),
        disable_field: DisableField::Disabled,
        note: "It asks once whether the variable may be used.",
    },
    ClientProfile {
        id: "crush",
        name: "Crush",
        config_paths: &[
            config_path_or_windows(
                BaseDirectory::Xdg,
                "crush/crush.json",
                (BaseDirectory::LocalData, "crush/crush.json"),
            ),
            config_path(BaseDirectory::Project, "crush.json"),
            config_path(BaseDirectory::Project, ".crush.json"),
        ],
        format: ClientConfigFileFormat::Json,
        servers_path: &["mcp"],
        env_syntax: EnvReferenceSyntax::Shell,
        entry_shape: typed_http_shape("http"),
        disable_field: DisableField::Disabled,
        note: "",
    },
    ClientProfile {
        id: "anthropic-api",
        name: "Anthropic Messages API",
        config_paths: &[],
        format: ClientConfigFileFormat::NoFile,
        servers_path: &[],
        env_syntax: EnvReferenceSyntax::Unsupported,
        entry_shape: ClientConfigEntryFormat::Anthropic,
        disable_field: DisableField::None,
        note: "Send it with the header `anthropic-beta: mcp-client-2025-11-20`. It uses tools only.",
    },
    ClientProfile {
        id: "openai-api",
        name: "OpenAI Responses API",
        config_paths: &[],
        format: ClientConfigFileFormat::NoFile,
        servers_path: &[],
        env_syntax: EnvReferenceSyntax::Unsupported,
        entry_shape: ClientConfigEntryFormat::OpenAi,
        disable_field: DisableField::None,
        note: "`require_approval` controls only its own prompts; the gateway's policy applies in any case.",
    },
];
