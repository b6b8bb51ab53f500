//! Arguments of `gatelodge precheck` and `gatelodge stack`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use gatelodge_catalogue::RiskLevel;

use super::index_args::{IndexSourceArgs, parse_level};

/// Recommends what to do about a server before you connect to it: `proceed`, `connect-with-rule` or `ask-first`, with
/// reasons and a rule.
///
/// It uses the package index. Nothing is started, and nothing is fetched except a registry entry whose URL you give.
/// Only the manifest of a bundle is read. The result for an unknown package is `ask-first`. The result depends on what
/// a server can do, not on who wrote it, and is no guarantee that the server is safe.
///
/// With `--read`, each package is fetched and read now, without being run, by the program `gatelodge-indexer`, from the
/// same folder as this program or from `PATH`. Packages come from the registry that your own `npm` or `pip` uses.
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

Exit code: 0 proceed or connect-with-rule, 1 ask-first, 2 usage, 4 the registry does not answer \
                  in time, 5 the index or `gatelodge-indexer` cannot be used.")]
pub struct PrecheckArgs {
    /// A package; the URL of a server or of its entry in an MCP registry; or a file: a `server.json`, an MCP bundle
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

/// Shows everything that agents in your MCP clients can call, the combined risk, and a policy for each server.
///
/// Servers are recognized by the packages that the client configurations start. The output contains only names of
/// servers and known packages from the configurations: no paths, arguments, URLs, variables or headers. Nothing is
/// fetched or sent.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  gatelodge stack                                       all clients of this user
  gatelodge stack --client cursor --policies policies   one client; a policy file for each server
  gatelodge stack .mcp.json --fail-on high --format sarif > stack.sarif

With `--fail-on`, a server that is not in the index counts as High. Servers that together can leak data, and a package \
                  version that was part of a public incident, count as Critical. A disabled server does not count.

Exit code: 0 reported, 1 a level of `--fail-on` is reached or a file cannot be read, 2 usage, 5 the index cannot be used \
                  or a policy cannot be written.")]
pub struct ServerStackArgs {
    /// A client's configuration file to read, instead of those of this user.
    #[arg(conflicts_with_all = ["home", "project"])]
    pub file: Option<PathBuf>,
    /// Only this client. With a file, the client whose format the file has. docs/clients.md lists the names.
    #[arg(long, value_name = "NAME")]
    pub client: Option<String>,
    /// Print JSON; the same as `--format json`.
    #[arg(long, conflicts_with = "format")]
    pub json: bool,
    /// Output format.
    #[arg(long)]
    pub format: Option<StackReportFormat>,
    /// Exit with code 1 if anything has this level or a higher one: low, medium, high, critical.
    #[arg(long, value_name = "LEVEL", value_parser = parse_level)]
    pub fail_on: Option<RiskLevel>,
    /// Write a recommended policy for each known server into this directory.
    #[arg(long, value_name = "DIR")]
    pub policies: Option<PathBuf>,
    /// Project directory whose client configurations are also read.
    #[arg(long, value_name = "DIR")]
    pub project: Option<PathBuf>,
    /// Home directory to search instead of yours.
    #[arg(long, value_name = "DIR")]
    pub home: Option<PathBuf>,
    #[command(flatten)]
    pub index_source: IndexSourceArgs,
}

/// Formats of the stack report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum StackReportFormat {
    /// Text for a terminal
    Text,
    /// JSON for programs
    Json,
    /// Markdown for a pull request
    Markdown,
    /// SARIF for code scanning
    Sarif,
}
