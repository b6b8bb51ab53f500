//! The table of clients: one row for each, with everything that is special about it.

use super::place::{Base, Place};
use super::reference::Reference;

/// One client.
#[derive(Debug)]
pub struct Client {
    /// Its word on the command line.
    pub id: &'static str,
    /// What people call it.
    pub name: &'static str,
    /// Its files. `connect` writes the first one that can be, `init` looks at all.
    pub files: &'static [Place],
    /// In which language they are.
    pub format: Format,
    /// The names on the way to the servers.
    pub root: &'static [&'static str],
    /// How it names a variable.
    pub reference: Reference,
    /// How an entry for the gateway looks.
    pub shape: Shape,
    /// By what an entry says that it is switched off.
    pub switch: Switch,
    /// What else one has to know; whole sentences.
    pub note: &'static str,
}

/// The language of a file, and whether we write it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Format {
    /// JSON, with comments and trailing commas where the client takes them.
    Json,
    /// TOML.
    Toml,
    /// YAML; it is read, and what to write into it is printed.
    Yaml,
    /// There is no file.
    None,
}

/// How an entry looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
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
    Screen,
}

/// The field by which a client lets a server be. One that it does not document may be there and mean nothing, so that
/// the server runs all the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Switch {
    /// There is none in an entry.
    None,
    /// `disabled: true`.
    Disabled,
    /// `enabled: false`.
    Enabled,
}

/// How a client comes to the gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Over HTTP, from this machine.
    Http,
    /// By `gatelodge bridge`.
    Bridge,
    /// Over HTTPS, from somebody else's machines.
    Public,
}

impl Client {
    /// How it comes to the gateway.
    pub fn way(&self) -> Way {
        match self.shape {
            Shape::Bridge => Way::Bridge,
            Shape::Anthropic | Shape::OpenAi => Way::Public,
            Shape::Http { .. } | Shape::Codex | Shape::OpenCode | Shape::Goose | Shape::Continue | Shape::Screen => {
                Way::Http
            }
        }
    }

    /// Whether it finds the token in the environment; others ask a person for it.
    pub fn takes_variable(&self) -> bool {
        self.reference != Reference::Input && self.shape != Shape::Screen
    }

    /// Whether its files can be changed without losing anything.
    pub fn is_writable(&self) -> bool {
        matches!(self.format, Format::Json | Format::Toml)
    }
}

/// Finds a client by its word.
pub fn find(id: &str) -> Option<&'static Client> {
    ALL.iter().find(|client| client.id == id)
}

const fn at(base: Base, path: &'static str) -> Place {
    Place { base, path, windows: None }
}

const fn at_or(base: Base, path: &'static str, windows: (Base, &'static str)) -> Place {
    Place { base, path, windows: Some(windows) }
}

const fn http(url: &'static str) -> Shape {
    Shape::Http { kind: None, url }
}

const fn typed(kind: &'static str) -> Shape {
    Shape::Http { kind: Some(kind), url: "url" }
}

const MCP_SERVERS: &[&str] = &["mcpServers"];
const BRIDGED: &str = "It starts programs only, so it starts the bridge. \
    It may keep the variable from the bridge: programs of the desktop do not see what a shell exports. \
    Then put `--token-file` and a file with the token behind the address.";
const NOT_EXPANDED: &str = "It documents no way to take a token from the environment, so it starts the bridge, which \
    has one, and can take it from a file as well, by `--token-file`.";

/// All clients, in the order in which they are shown.
pub const ALL: &[Client] = &[
    Client {
        id: "claude-code",
        name: "Claude Code",
        files: &[at(Base::Claude, ".claude.json")],
        format: Format::Json,
        root: MCP_SERVERS,
        reference: Reference::Braces,
        shape: typed("http"),
        switch: Switch::None,
        note: "`CLAUDE_CONFIG_DIR` moves the file. Servers for one folder stand below `projects`.",
    },
    Client {
        id: "claude-code-project",
        name: "Claude Code (project)",
        files: &[at(Base::Project, ".mcp.json")],
        format: Format::Json,
        root: MCP_SERVERS,
        reference: Reference::Braces,
        shape: typed("http"),
        switch: Switch::None,
        note: "The file is shared with everybody who has the project; each needs a token of their own in the variable.",
    },
    Client {
        id: "claude-desktop",
        name: "Claude Desktop",
        files: &[at(Base::Config, "Claude/claude_desktop_config.json")],
        format: Format::Json,
        root: MCP_SERVERS,
        reference: Reference::Nothing,
        shape: Shape::Bridge,
        switch: Switch::None,
        note: BRIDGED,
    },
    Client {
        id: "cursor",
        name: "Cursor",
        files: &[at(Base::Home, ".cursor/mcp.json"), at(Base::Project, ".cursor/mcp.json")],
        format: Format::Json,
        root: MCP_SERVERS,
        reference: Reference::Env,
        shape: http("url"),
        switch: Switch::None,
        note: "",
    },
    Client {
        id: "vscode",
        name: "VS Code",
        files: &[at(Base::Project, ".vscode/mcp.json"), at(Base::Config, "Code/User/mcp.json")],
        format: Format::Json,
        root: &["servers"],
        reference: Reference::Input,
        shape: typed("http"),
        switch: Switch::None,
        note: "It asks for the token once and keeps it in its own store of secrets.",
    },
    Client {
        id: "codex",
        name: "Codex",
        files: &[at(Base::Home, ".codex/config.toml"), at(Base::Project, ".codex/config.toml")],
        format: Format::Toml,
        root: &["mcp_servers"],
        reference: Reference::Nothing,
        shape: Shape::Codex,
        switch: Switch::Enabled,
        note: "The file of a project counts only where the project is trusted.",
    },
    Client {
        id: "gemini",
        name: "Gemini CLI",
        files: &[at(Base::Home, ".gemini/settings.json"), at(Base::Project, ".gemini/settings.json")],
        format: Format::Json,
        root: MCP_SERVERS,
        reference: Reference::Dollar,
        shape: http("httpUrl"),
        switch: Switch::None,
        note: "`url` would mean the old event-stream transport.",
    },
    Client {
        id: "windsurf",
        name: "Windsurf",
        files: &[at(Base::Home, ".codeium/windsurf/mcp_config.json")],
        format: Format::Json,
        root: MCP_SERVERS,
        reference: Reference::Env,
        shape: http("serverUrl"),
        switch: Switch::None,
        note: "It shows at most 100 tools of all servers together; hide some by policy.",
    },
    Client {
        id: "zed",
        name: "Zed",
        files: &[
            at_or(Base::Xdg, "zed/settings.json", (Base::Config, "Zed/settings.json")),
            at(Base::Project, ".zed/settings.json"),
        ],
        format: Format::Json,
        root: &["context_servers"],
        reference: Reference::Nothing,
        shape: Shape::Bridge,
        switch: Switch::Enabled,
        note: NOT_EXPANDED,
    },
    Client {
        id: "junie",
        name: "JetBrains Junie",
        files: &[at(Base::Home, ".junie/mcp/mcp.json"), at(Base::Project, ".junie/mcp/mcp.json")],
        format: Format::Json,
        root: MCP_SERVERS,
        reference: Reference::Nothing,
        shape: Shape::Bridge,
        switch: Switch::None,
        note: BRIDGED,
    },
    Client {
        id: "goose",
        name: "Goose",
        files: &[at_or(Base::Xdg, "goose/config.yaml", (Base::Config, "Block/goose/config/config.yaml"))],
        format: Format::Yaml,
        root: &["extensions"],
        reference: Reference::Braces,
        shape: Shape::Goose,
        switch: Switch::Enabled,
        note: "",
    },
    Client {
        id: "librechat",
        name: "LibreChat",
        files: &[at(Base::Project, "librechat.yaml")],
        format: Format::Yaml,
        root: MCP_SERVERS,
        reference: Reference::Braces,
        shape: typed("streamable-http"),
        switch: Switch::None,
        note: "It reads the file when it starts.",
    },
    Client {
        id: "open-webui",
        name: "Open WebUI",
        files: &[],
        format: Format::None,
        root: &[],
        reference: Reference::Nothing,
        shape: Shape::Screen,
        switch: Switch::None,
        note: "Version 0.6.31 or later. It needs a fixed `WEBUI_SECRET_KEY`, or it forgets the token at a restart.",
    },
    Client {
        id: "cline",
        name: "Cline",
        files: &[
            at(Base::Config, "Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json"),
            at(Base::Home, ".cline/data/settings/cline_mcp_settings.json"),
        ],
        format: Format::Json,
        root: MCP_SERVERS,
        reference: Reference::Nothing,
        shape: Shape::Bridge,
        switch: Switch::Disabled,
        note: NOT_EXPANDED,
    },
    Client {
        id: "roo",
        name: "Roo Code",
        files: &[
            at(Base::Config, "Code/User/globalStorage/rooveterinaryinc.roo-cline/settings/mcp_settings.json"),
            at(Base::Project, ".roo/mcp.json"),
        ],
        format: Format::Json,
        root: MCP_SERVERS,
        reference: Reference::Env,
        shape: typed("streamable-http"),
        switch: Switch::Disabled,
        note: "",
    },
    Client {
        id: "continue",
        name: "Continue",
        files: &[at(Base::Home, ".continue/config.yaml")],
        format: Format::Yaml,
        root: MCP_SERVERS,
        reference: Reference::Secrets,
        shape: Shape::Continue,
        switch: Switch::None,
        note: "Secrets stand in `~/.continue/.env`, one `NAME=value` a line.",
    },
    Client {
        id: "opencode",
        name: "OpenCode",
        files: &[
            at(Base::Xdg, "opencode/opencode.json"),
            at(Base::Xdg, "opencode/opencode.jsonc"),
            at(Base::Project, "opencode.json"),
            at(Base::Project, "opencode.jsonc"),
        ],
        format: Format::Json,
        root: &["mcp"],
        reference: Reference::Curly,
        shape: Shape::OpenCode,
        switch: Switch::Enabled,
        note: "",
    },
    Client {
        id: "lm-studio",
        name: "LM Studio",
        files: &[at(Base::Home, ".lmstudio/mcp.json")],
        format: Format::Json,
        root: MCP_SERVERS,
        reference: Reference::Nothing,
        shape: Shape::Bridge,
        switch: Switch::None,
        note: NOT_EXPANDED,
    },
    Client {
        id: "kiro",
        name: "Kiro",
        files: &[at(Base::Home, ".kiro/settings/mcp.json"), at(Base::Project, ".kiro/settings/mcp.json")],
        format: Format::Json,
        root: MCP_SERVERS,
        reference: Reference::Braces,
        shape: http("url"),
        switch: Switch::Disabled,
        note: "It asks once whether the variable may be used.",
    },
    Client {
        id: "crush",
        name: "Crush",
        files: &[
            at_or(Base::Xdg, "crush/crush.json", (Base::LocalData, "crush/crush.json")),
            at(Base::Project, "crush.json"),
            at(Base::Project, ".crush.json"),
        ],
        format: Format::Json,
        root: &["mcp"],
        reference: Reference::Shell,
        shape: typed("http"),
        switch: Switch::Disabled,
        note: "",
    },
    Client {
        id: "anthropic-api",
        name: "Anthropic Messages API",
        files: &[],
        format: Format::None,
        root: &[],
        reference: Reference::Nothing,
        shape: Shape::Anthropic,
        switch: Switch::None,
        note: "Send it with the header `anthropic-beta: mcp-client-2025-11-20`. It uses tools only.",
    },
    Client {
        id: "openai-api",
        name: "OpenAI Responses API",
        files: &[],
        format: Format::None,
        root: &[],
        reference: Reference::Nothing,
        shape: Shape::OpenAi,
        switch: Switch::None,
        note: "`require_approval` is about its own questions; the gateway's policy holds either way.",
    },
];
