//! Arguments of `gatelodge wrap` and `gatelodge bridge`.

use std::path::PathBuf;

use clap::Args;

use super::StoreArgs;
use crate::logging::LoggingArgs;

/// Runs a local stdio server behind a policy. Use it in a client's configuration instead of the server's own command.
///
/// It speaks stdio with the client, runs the server, and sends only calls that the policy allows. Counters and the call
/// log are in the data directory of `gatelodge serve`, so `gatelodge calls` shows the calls. Several can run at the
/// same time; they share counters of the same name and policy.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  gatelodge wrap --policy files.json -- npx -y @modelcontextprotocol/server-filesystem /home/ada/notes
  gatelodge wrap --policy git.json --name git --observe -- uvx mcp-server-git

In a client's configuration:
  {\"mcpServers\": {\"files\": {\"command\": \"gatelodge\", \"args\": [\"wrap\", \"--policy\", \"/home/ada/files.json\", \"--\", \"npx\", …]}}}

Exit code: 0 the client disconnected, 1 the policy is invalid, 2 usage, 5 internal error.")]
pub struct WrapArgs {
    /// Policy file, JSON or YAML.
    #[arg(long, value_name = "FILE")]
    pub policy: PathBuf,
    /// Name of the server in the log and in the policy's `server` [default: the program's name]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Label of the client in the log. Counters are tied to this label.
    #[arg(long, value_name = "LABEL", default_value = "local")]
    pub label: String,
    /// Observe only: record what the policy would refuse, but send the call anyway.
    #[arg(long)]
    pub observe: bool,
    #[command(flatten)]
    pub store: StoreArgs,
    #[command(flatten)]
    pub log: LoggingArgs,
    /// Program that runs the server, and its arguments.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// Connects a client that supports only stdio to a gateway. Use it as the command in the client's configuration.
///
/// The token comes from an environment variable or from a file that only you can read, and is sent only to that URL.
/// Use the file for clients that pass few environment variables to the programs they start.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  GATELODGE_TOKEN=… gatelodge bridge http://127.0.0.1:7420/mcp/books
  gatelodge bridge http://127.0.0.1:7420/mcp/books --token-file /home/ada/.config/gatelodge/tokens/zed-books

In a client's configuration:
  {\"mcpServers\": {\"books\": {\"command\": \"gatelodge\", \"args\": [\"bridge\", \"http://127.0.0.1:7420/mcp/books\"]}}}

Exit code: 0 the client disconnected, 2 usage, 5 internal error.")]
pub struct BridgeArgs {
    /// URL of the server: `http://127.0.0.1:7420/mcp/<server>`.
    pub url: String,
    /// Environment variable that holds the token.
    #[arg(long, value_name = "NAME", default_value = "GATELODGE_TOKEN")]
    pub token_env: String,
    /// File that holds the token, readable only by its owner. It is read at startup.
    #[arg(long, value_name = "FILE", conflicts_with = "token_env")]
    pub token_file: Option<PathBuf>,
    #[command(flatten)]
    pub log: LoggingArgs,
}
