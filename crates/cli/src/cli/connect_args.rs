//! `gatelodge connect`: what can be asked.

use std::path::PathBuf;

use clap::Args;
use clap::builder::PossibleValuesParser;

use super::StoreArgs;
use crate::client_config;

/// Prints or writes the configuration with which a client reaches the gateway.
///
/// The token itself is never written: the client takes it from a variable of the environment.
/// Where a client cannot do that, or only starts programs, it gets `gatelodge bridge`, which can.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  gatelodge connect cursor --server books
  gatelodge connect codex --server books --write
  gatelodge connect claude-code --url https://gate.example.com/mcp/books --write --wait
  gatelodge connect codex --undo

What each client takes is in docs/clients.md.

Exit code: 0 done, 1 the client's file cannot be used, 2 not agreed to or not asked rightly, 4 nothing came in time.")]
pub struct ConnectArgs {
    /// Which client.
    #[arg(value_parser = PossibleValuesParser::new(client_config::ALL.iter().map(|client| client.id)), hide_possible_values = false)]
    pub client: String,
    /// The server it shall reach; may be left out where there is only one.
    #[arg(long, value_name = "NAME")]
    pub server: Option<String>,
    /// Where the gateway has it, in place of what the configuration or the running gateway says.
    #[arg(long, value_name = "URL")]
    pub url: Option<String>,
    /// What the entry is called [default: the server's name]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// The variable that holds the token where the client starts.
    #[arg(long, value_name = "NAME", default_value = client_config::DEFAULT_TOKEN_ENV)]
    pub token_env: String,
    /// For a client that starts the bridge: the file that holds the token [default: the one that `init` made]
    #[arg(long, value_name = "FILE", conflicts_with = "token_env")]
    pub token_file: Option<PathBuf>,
    /// Only print what is to be written; this is what happens by itself.
    #[arg(long, conflicts_with_all = ["write", "undo"])]
    pub print: bool,
    /// Write it into the client's file, after showing what changes and asking. A backup is made beside the file.
    #[arg(long, conflicts_with = "undo")]
    pub write: bool,
    /// Take back what was last written into the client's file.
    #[arg(long)]
    pub undo: bool,
    /// With `--undo`: also where the file was changed since; the changes stay.
    #[arg(long, requires = "undo")]
    pub force: bool,
    /// Do not ask.
    #[arg(long)]
    pub yes: bool,
    /// The client's file, in place of the usual one.
    #[arg(long, value_name = "PATH")]
    pub file: Option<PathBuf>,
    /// A folder whose own configuration of the client is meant.
    #[arg(long, value_name = "DIR")]
    pub project: Option<PathBuf>,
    /// The home directory where the client's files are, in place of yours.
    #[arg(long, value_name = "DIR")]
    pub home: Option<PathBuf>,
    /// How the client starts the bridge [default: this program]
    #[arg(long, value_name = "PATH")]
    pub program: Option<String>,
    /// Wait until the client's first request comes.
    #[arg(long, conflicts_with = "undo")]
    pub wait: bool,
    /// With `--wait`: only requests of the grant with this label or id.
    #[arg(long, value_name = "LABEL", requires = "wait")]
    pub grant: Option<String>,
    /// With `--wait`: how long at most.
    #[arg(long, value_name = "TIME", default_value = "5m", requires = "wait")]
    pub timeout: String,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub store: StoreArgs,
}
