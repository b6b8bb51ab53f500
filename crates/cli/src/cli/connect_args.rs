//! Arguments of `gatelodge connect`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::PossibleValuesParser;

use super::StoreArgs;

/// Prints or writes the client configuration for using the gateway.
///
/// The token itself is never written: the client reads it from an environment variable.
/// A client that cannot do that, or that supports only stdio servers, gets `gatelodge bridge`, which can.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  gatelodge connect cursor --server books
  gatelodge connect codex --server books --write
  gatelodge connect claude-code --url https://gate.example.com/mcp/books --write --wait
  gatelodge connect codex --undo

docs/clients.md describes the configuration of each client.

Exit code: 0 done, 1 the client's file cannot be used, 2 not confirmed or usage error, 4 no request within `--timeout`.")]
pub struct ConnectArgs {
    /// Client to configure.
    #[arg(value_parser = PossibleValuesParser::new(gatelodge_clients::CLIENT_PROFILES.iter().map(|client| client.id)), hide_possible_values = false)]
    pub client: String,
    /// Server to connect to. Optional if there is only one.
    #[arg(long, value_name = "NAME")]
    pub server: Option<String>,
    /// URL of the server at the gateway. Overrides the one from the configuration or the running gateway.
    #[arg(long, value_name = "URL")]
    pub url: Option<String>,
    /// Name of the entry [default: the server's name]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Environment variable from which the client reads the token.
    #[arg(long, value_name = "NAME", default_value = gatelodge_clients::DEFAULT_TOKEN_ENV)]
    pub token_env: String,
    /// For a client that starts the bridge: file that holds the token [default: the one that `init` created]
    #[arg(long, value_name = "FILE", conflicts_with = "token_env")]
    pub token_file: Option<PathBuf>,
    /// Only print the configuration (the default).
    #[arg(long, conflicts_with_all = ["write", "undo"])]
    pub print: bool,
    /// Write the configuration into the client's file, after showing the changes and asking. Creates a backup next to
    /// the file.
    #[arg(long, conflicts_with = "undo")]
    pub write: bool,
    /// Undo the last change to the client's file.
    #[arg(long)]
    pub undo: bool,
    /// With `--undo`: undo even if the file has changed since then, and keep those changes.
    #[arg(long, requires = "undo")]
    pub force: bool,
    /// Do not ask for confirmation.
    #[arg(long)]
    pub yes: bool,
    /// Path of the client's file, instead of the usual one.
    #[arg(long, value_name = "PATH")]
    pub file: Option<PathBuf>,
    /// Use the client configuration of this project directory.
    #[arg(long, value_name = "DIR")]
    pub project: Option<PathBuf>,
    /// Home directory with the client's files, instead of yours.
    #[arg(long, value_name = "DIR")]
    pub home: Option<PathBuf>,
    /// Program that the client starts as the bridge [default: this program]
    #[arg(long, value_name = "PATH")]
    pub program: Option<String>,
    /// Wait for the client's first request.
    #[arg(long, conflicts_with = "undo")]
    pub wait: bool,
    /// With `--wait`: only requests made with the grant of this label or id.
    #[arg(long, value_name = "LABEL", requires = "wait")]
    pub grant: Option<String>,
    /// With `--wait`: maximum time to wait.
    #[arg(long, value_name = "TIME", default_value = "5m", requires = "wait")]
    pub timeout: String,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub store: StoreArgs,
}
