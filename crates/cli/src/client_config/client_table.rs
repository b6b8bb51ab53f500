//! The table of clients: one row for each, with everything that is special about it.

use super::client_config_locations::{BaseDirectory, ClientConfigPath};
use super::env_reference::EnvReferenceSyntax;

/// One client.
#[derive(Debug)]
pub struct ClientProfile {
    /// Its word on the command line.
    pub id: &'static str,
    /// What people call it.
    pub name: &'static str,
    /// Its files. `connect` writes the first one that can be, `init` looks at all.
    pub config_paths: &'static [ClientConfigPath],
    /// In which language they are.
    pub format: ClientConfigFormat,
    /// The names on the way to the servers.
    pub servers_path: &'static [&'static str],
    /// How it names a variable.
    pub env_syntax: EnvReferenceSyntax,
    /// How an entry for the gateway looks.
    pub entry_shape: EntryShape,
    /// By what an entry says that it is switched off.
    pub disable_field: DisableField,
    /// What else one has to know; whole sentences.
    pub note: &'static str,
}

/// The language of a file, and whether we write it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ClientConfigFormat {
    /// JSON, with comments and trailing commas where the client takes them.
    Json,
    /// TOML.
    Toml,
    /// YAML; it is read, and what to write into it is printed.
    Yaml,
    /// There is no file.
    NoFile,
}

/// How an entry looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryShape {
    /// A URL under the client's own name for it, headers, and perhaps a type.
    Http { kind: Option<&'static str>, url: &'static str },
    /// `[mcp_servers.NAME]` with the variable's name.
    Codex,
    /// `type: remote`.
    OpenCode,
    /// An extension with its own list of variables.
    Goose,
    /// An item of a list.
    Continue,
    /// A command: the client reaches nothing but programs, or cannot take a token from the environment.
    Bridge,
    /// A part of a request.
    Anthropic,
    /// A part of a request.
    OpenAi,
    /// A form on a screen.
    WebForm,
}

/// The field by which a client lets a server be. One that it does not document may be there and mean nothing, so that
/// the server runs all the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DisableField {
    /// There is none in an entry.
    None,
    /// `disabled: true`.
    Disabled,
    /// `enabled: false`.
    Enabled,
}

/// How a client comes to the gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionMethod {
    /// Over HTTP, from this machine.
    Http,
    /// By `gatelodge bridge`.
    Bridge,
    /// Over HTTPS, from somebody else's machines.
    PublicHttps,
}

impl ClientProfile {
    /// How it comes to the gateway.
    pub fn connection_method(&self) -> ConnectionMethod {
        match self.entry_shape {
            EntryShape::Bridge => ConnectionMethod::Bridge,
            EntryShape::Anthropic | EntryShape::OpenAi => ConnectionMethod::PublicHttps,
            EntryShape::Http { .. }
            | EntryShape::Codex
            | EntryShape::OpenCode
            | EntryShape::Goose
            | EntryShape::Continue
            | EntryShape::WebForm => ConnectionMethod::Http,
        }
    }

    /// Whether it finds the token in the environment; others ask a person for it.
    pub fn can_read_token_env(&self) -> bool {
        self.env_syntax != EnvReferenceSyntax::Input && self.entry_shape != EntryShape::WebForm
    }

    /// Whether its files can be changed without losing anything.
    pub fn is_writable(&self) -> bool {
        matches!(self.format, ClientConfigFormat::Json | ClientConfigFormat::Toml)
    }
}

/// Finds a client by its word.
pub fn find_client(id: &str) -> Option<&'static ClientProfile> {
    ALL.iter().find(|client| client.id == id)
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

const fn http_shape(url: &'static str) -> EntryShape {
    EntryShape::Http { kind: None, url }
}

const fn typed_http_shape(kind: &'static str) -> EntryShape {
    EntryShape::Http { kind: Some(kind), url: "url" }
}

const MCP_SERVERS: &[&str] = &["mcpServers"];
const BRIDGE_NOTE: &str = "It starts programs only, so it starts the bridge. \
    It may keep the variable from the bridge: programs of the desktop do not see what a shell exports. \
    Then put `--token-file` and a file with the token behind the address.";
const NOT_EXPANDED: &str = "It documents no way to take a token from the environment, so it starts the bridge, which \
    has one, and can take it from a file as well, by `--token-file`.";

/// All clients, in the order in which they are shown.
pub const ALL: &[ClientProfile] = &[
    ClientProfile {
        id: "claude-code",
        name: "Claude Code",
        config_paths: &[config_path(BaseDirectory::Claude, ".claude.json")],
        format: ClientConfigFormat::Json,
        servers_path: MCP_SERVERS,
        env_syntax: EnvReferenceSyntax::Braces,
        entry_shape: typed_http_shape("http"),
        disable_field: DisableField::None,
        note: "`CLAUDE_CONFIG_DIR` moves the file. Servers for one folder stand below `projects`.",
    },
    ClientProfile {
        id: "claude-code-project",
        name: "Claude Code (project)",
        config_paths: &[config_path(BaseDirectory::Project, ".mcp.json")],
        format: ClientConfigFormat::Json,
        servers_path: MCP_SERVERS,
        env_syntax: EnvReferenceSyntax::Braces,
        entry_shape: typed_http_shape("http"),
        disable_field: DisableField::None,
        note: "The file is shared with everybody who has the project; each needs a token of their own in the variable.",
    },
    ClientProfile {
        id: "claude-desktop",
        name: "Claude Desktop",
        config_paths: &[config_path(BaseDirectory::Config, "Claude/claude_desktop_config.json")],
        format: ClientConfigFormat::Json,
        servers_path: MCP_SERVERS,
        env_syntax: EnvReferenceSyntax::Unsupported,
        entry_shape: EntryShape::Bridge,
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
        format: ClientConfigFormat::Json,
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
        format: ClientConfigFormat::Json,
        servers_path: &["servers"],
        env_syntax: EnvReferenceSyntax::Input,
        entry_shape: typed_http_shape("http"),
        disable_field: DisableField::None,
        note: "It asks for the token once and keeps it in its own store of secrets.",
    },
    ClientProfile {
        id: "codex",
        name: "Codex",
        config_paths: &[
            config_path(BaseDirectory::Home, ".codex/config.toml"),
            config_path(BaseDirectory::Project, ".codex/config.toml"),
        ],
        format: ClientConfigFormat::Toml,
        servers_path: &["mcp_servers"],
        env_syntax: EnvReferenceSyntax::Unsupported,
        entry_shape: EntryShape::Codex,
        disable_field: DisableField::Enabled,
        note: "The file of a project counts only where the project is trusted.",
    },
    ClientProfile {
        id: "gemini",
        name: "Gemini CLI",
        config_paths: &[
            config_path(BaseDirectory::Home, ".gemini/settings.json"),
            config_path(BaseDirectory::Project, ".gemini/settings.json"),
        ],
        format: ClientConfigFormat::Json,
        servers_path: MCP_SERVERS,
        env_syntax: EnvReferenceSyntax::Dollar,
        entry_shape: http_shape("httpUrl"),
        disable_field: DisableField::None,
        note: "`url` would mean the old event-stream transport.",
    },
    ClientProfile {
        id: "windsurf",
        name: "Windsurf",
        config_paths: &[config_path(BaseDirectory::Home, ".codeium/windsurf/mcp_config.json")],
        format: ClientConfigFormat::Json,
        servers_path: MCP_SERVERS,
        env_syntax: EnvReferenceSyntax::Env,
        entry_shape: http_shape("serverUrl"),
        disable_field: DisableField::None,
        note: "It shows at most 100 tools of all servers together; hide some by policy.",
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
        format: ClientConfigFormat::Json,
        servers_path: &["context_servers"],
        env_syntax: EnvReferenceSyntax::Unsupported,
        entry_shape: EntryShape::Bridge,
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
        format: ClientConfigFormat::Json,
        servers_path: MCP_SERVERS,
        env_syntax: EnvReferenceSyntax::Unsupported,
        entry_shape: EntryShape::Bridge,
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
        format: ClientConfigFormat::Yaml,
        servers_path: &["extensions"],
        env_syntax: EnvReferenceSyntax::Braces,
        entry_shape: EntryShape::Goose,
        disable_field: DisableField::Enabled,
        note: "",
    },
    ClientProfile {
        id: "librechat",
        name: "LibreChat",
        config_paths: &[config_path(BaseDirectory::Project, "librechat.yaml")],
        format: ClientConfigFormat::Yaml,
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
        format: ClientConfigFormat::NoFile,
        servers_path: &[],
        env_syntax: EnvReferenceSyntax::Unsupported,
        entry_shape: EntryShape::WebForm,
        disable_field: DisableField::None,
        note: "Version 0.6.31 or later. It needs a fixed `WEBUI_SECRET_KEY`, or it forgets the token at a restart.",
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
        format: ClientConfigFormat::Json,
        servers_path: MCP_SERVERS,
        env_syntax: EnvReferenceSyntax::Unsupported,
        entry_shape: EntryShape::Bridge,
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
        format: ClientConfigFormat::Json,
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
        format: ClientConfigFormat::Yaml,
        servers_path: MCP_SERVERS,
        env_syntax: EnvReferenceSyntax::Secrets,
        entry_shape: EntryShape::Continue,
        disable_field: DisableField::None,
        note: "Secrets stand in `~/.continue/.env`, one `NAME=value` a line.",
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
        format: ClientConfigFormat::Json,
        servers_path: &["mcp"],
        env_syntax: EnvReferenceSyntax::Curly,
        entry_shape: EntryShape::OpenCode,
        disable_field: DisableField::Enabled,
        note: "",
    },
    ClientProfile {
        id: "lm-studio",
        name: "LM Studio",
        config_paths: &[config_path(BaseDirectory::Home, ".lmstudio/mcp.json")],
        format: ClientConfigFormat::Json,
        servers_path: MCP_SERVERS,
        env_syntax: EnvReferenceSyntax::Unsupported,
        entry_shape: EntryShape::Bridge,
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
        format: ClientConfigFormat::Json,
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
        format: ClientConfigFormat::Json,
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
        format: ClientConfigFormat::NoFile,
        servers_path: &[],
        env_syntax: EnvReferenceSyntax::Unsupported,
        entry_shape: EntryShape::Anthropic,
        disable_field: DisableField::None,
        note: "Send it with the header `anthropic-beta: mcp-client-2025-11-20`. It uses tools only.",
    },
    ClientProfile {
        id: "openai-api",
        name: "OpenAI Responses API",
        config_paths: &[],
        format: ClientConfigFormat::NoFile,
        servers_path: &[],
        env_syntax: EnvReferenceSyntax::Unsupported,
        entry_shape: EntryShape::OpenAi,
        disable_field: DisableField::None,
        note: "`require_approval` is about its own questions; the gateway's policy holds either way.",
    },
];
