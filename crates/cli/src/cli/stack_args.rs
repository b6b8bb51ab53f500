//! `gatelodge precheck` and `gatelodge stack`: what can be asked.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use gatelodge_catalogue::RiskLevel;

use super::index_args::{IndexSourceArgs, parse_level};

/// Says what to do about a server before one connects to it: `proceed`, `connect-with-rule` or `ask-first`, with the
/// reasons and the rule.
///
/// It searches the package index. Nothing is started, and nothing is fetched except a registry entry if its URL is given.
/// Only the manifest of a bundle is read. A server that is not known is `ask-first`. The verdict is about what a server
/// could do, not about its author, and never says that a server is safe.
///
/// With `--read`, each package is fetched and read now, without being run, by the program `gatelodge-indexer` from the
/// folder of this program or from `PATH`. Packages come from the registry that your own `npm` or `pip` uses.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  gatelodge precheck mcp-server-git
  gatelodge precheck npm:@modelcontextprotocol/server-filesystem@2025.8.21 --json
  gatelodge precheck npm:@acme/new-server --read
  gatelodge precheck ./server.json
  gatelodge precheck files.mcpb
  gatelodge precheck catalogue.yaml
  gatelodge precheck https://example.com/mcp
  gatelodge precheck https://registry.example.com/v0.1/servers/com.example%2Ffiles/versions/latest

Exit code: 0 proceed or connect-with-rule, 1 ask-first, 2 usage, 4 the registry does not answer
in time, 5 the index or `gatelodge-indexer` cannot be used.")]
pub struct PrecheckArgs {
    /// A package; an address, of a server or of its entry in an MCP registry; or a file: a `server.json`, an MCP bundle
    /// (`.mcpb`), a Docker catalogue (`.yaml`).
    pub target: String,
    /// Fetch and read each package now, instead of searching the index; needs `gatelodge-indexer`.
    #[arg(long)]
    pub read: bool,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub index_source: IndexSourceArgs,
}

/// Shows everything that the agents of your MCP clients could call, what it adds up to, and a policy for each server.
///
/// Servers are known by the packages that the configurations start. Of the configurations only the names of servers
/// and of known packages enter the output: no path, argument, address, variable or header. Nothing is fetched or sent.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  gatelodge stack                                       all clients of this user
  gatelodge stack --client cursor --policies policies   one client; a policy file for each server
  gatelodge stack .mcp.json --fail-on high --format sarif > stack.sarif

With `--fail-on`, a server that is not in the index counts as High; servers that leak together and a package of a
public case, in a version that was part of it, as Critical. One that is switched off counts for nothing.

Exit code: 0 told, 1 something reaches `--fail-on` or a file cannot be read, 2 usage, 5 the index cannot be used or a
policy not be written.")]
pub struct StackArgs {
    /// A client's configuration, in place of those of this user.
    #[arg(conflicts_with_all = ["home", "project"])]
    pub file: Option<PathBuf>,
    /// Only this client, or the client whose form the file has; docs/clients.md has the words.
    #[arg(long, value_name = "NAME")]
    pub client: Option<String>,
    /// Print JSON; the same as `--format json`.
    #[arg(long, conflicts_with = "format")]
    pub json: bool,
    /// How to print it.
    #[arg(long)]
    pub format: Option<StackFormat>,
    /// End with code 1 if something has this level or a higher one: low, medium, high, critical.
    #[arg(long, value_name = "LEVEL", value_parser = parse_level)]
    pub fail_on: Option<RiskLevel>,
    /// Write a recommended policy for each known server into this folder.
    #[arg(long, value_name = "DIR")]
    pub policies: Option<PathBuf>,
    /// A folder whose own configurations of clients are looked at, too.
    #[arg(long, value_name = "DIR")]
    pub project: Option<PathBuf>,
    /// The home directory to look in, in place of yours.
    #[arg(long, value_name = "DIR")]
    pub home: Option<PathBuf>,
    #[command(flatten)]
    pub index_source: IndexSourceArgs,
}

/// Forms of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum StackFormat {
    /// For people, at a terminal.
    Text,
    /// For programs.
    Json,
    /// For a pull request.
    Markdown,
    /// For code scanning.
    Sarif,
}
