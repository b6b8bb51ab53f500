//! `gatelodge wrap` and `gatelodge bridge`: what can be asked.

use std::path::PathBuf;

use clap::Args;

use super::StoreArgs;
use crate::app::LogArgs;

/// Puts a policy before one local server: the command for a client's configuration, in place of the server's own.
///
/// It speaks with the client over its standard streams, runs the server, and lets nothing through that the policy
/// refuses. Counters and the log are where `gatelodge serve` has them too, so `gatelodge calls` shows what was done.
/// Several may run at once; they share the counters of the same name and policy.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  gatelodge wrap --policy files.json -- npx -y @modelcontextprotocol/server-filesystem /home/ada/notes
  gatelodge wrap --policy git.json --name git --observe -- uvx mcp-server-git

In a client's configuration:
  {\"mcpServers\": {\"files\": {\"command\": \"gatelodge\", \"args\": [\"wrap\", \"--policy\", \"/home/ada/files.json\", \"--\", \"npx\", …]}}}

Exit code: 0 the client is done, 1 the policy has faults, 2 usage, 5 a fault.")]
pub struct WrapArgs {
    /// The policy: a file of JSON or YAML.
    #[arg(long, value_name = "FILE")]
    pub policy: PathBuf,
    /// What the server is called in the log and in the policy's `server` [default: the program's name]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// What the caller is called in the log; counters follow it.
    #[arg(long, value_name = "LABEL", default_value = "local")]
    pub label: String,
    /// Only record what the policy would refuse.
    #[arg(long)]
    pub observe: bool,
    #[command(flatten)]
    pub store: StoreArgs,
    #[command(flatten)]
    pub log: LogArgs,
    /// The server's program and its arguments.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// Brings a client that speaks over its standard streams to a gateway: the command for its configuration.
///
/// The token comes from the environment, or from a file that nobody else can read, and is sent to that URL alone.
/// Many clients hand few variables to the programs they start: for them there is the file.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  GATELODGE_TOKEN=… gatelodge bridge http://127.0.0.1:7420/mcp/books
  gatelodge bridge http://127.0.0.1:7420/mcp/books --token-file /home/ada/.config/gatelodge/tokens/zed-books

In a client's configuration:
  {\"mcpServers\": {\"books\": {\"command\": \"gatelodge\", \"args\": [\"bridge\", \"http://127.0.0.1:7420/mcp/books\"]}}}

Exit code: 0 the client is done, 2 usage, 5 a fault.")]
pub struct BridgeArgs {
    /// Where the server is: `http://127.0.0.1:7420/mcp/<server>`.
    pub url: String,
    /// The variable of the environment that holds the token.
    #[arg(long, value_name = "NAME", default_value = "GATELODGE_TOKEN")]
    pub token_env: String,
    /// A file that holds the token, and that only its owner can read; it is read at the start.
    #[arg(long, value_name = "FILE", conflicts_with = "token_env")]
    pub token_file: Option<PathBuf>,
    #[command(flatten)]
    pub log: LogArgs,
}
