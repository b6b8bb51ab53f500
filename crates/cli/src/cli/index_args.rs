//! Arguments of `gatelodge catalogue search|show|attacks|update|changes|mcp`, which use the package index.

use std::path::PathBuf;

use clap::Args;
use gatelodge_catalogue::{RiskLevel, RiskSignalKind};
use gatelodge_policy::Category;

use super::StoreArgs;
use super::argument_values::{any_whole_number, whole_number};
use super::catalogue_args::StrictnessArg;

/// Which package index to use: the given file, otherwise the one that `catalogue update` stored in the data directory,
/// otherwise the built-in one.
#[derive(Debug, Clone, Args)]
pub struct IndexSourceArgs {
    /// Package index to use instead of the installed one.
    #[arg(long, value_name = "FILE")]
    pub index: Option<PathBuf>,
    #[command(flatten)]
    pub store: StoreArgs,
}

/// Searches the index of published MCP packages for servers and tools.
///
/// Words match parts of names, case-insensitively. A tool matches if each word is in its name or its package's name,
/// and at least one is in its own. The closest matches come first, then the riskiest. Nothing is fetched.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  gatelodge catalogue search github issue
  gatelodge catalogue search --level critical --signal takes_path
  gatelodge catalogue search --prefix delete_ --json

Exit code: 0 found or not, 1 the configuration is invalid, 2 usage, 5 the index cannot be used.")]
pub struct SearchIndexArgs {
    /// Parts of names.
    pub words: Vec<String>,
    /// Match only names that start with the search words.
    #[arg(long)]
    pub prefix: bool,
    /// Only tools of this category: read, write, execute, destructive, financial, unknown.
    #[arg(long, value_parser = parse_category)]
    pub category: Option<Category>,
    /// Only tools of this level: low, medium, high, critical.
    #[arg(long, value_parser = parse_level)]
    pub level: Option<RiskLevel>,
    /// Only tools with this risk signal, such as `takes_code`; docs/catalogue.md lists them.
    #[arg(long, value_parser = parse_signal)]
    pub signal: Option<RiskSignalKind>,
    /// Number of results to skip.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = any_whole_number::<usize>)]
    pub skip: usize,
    /// Maximum number of servers, and of tools, to show.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = any_whole_number::<usize>)]
    pub limit: usize,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub index_source: IndexSourceArgs,
}

/// Shows what the index says about a server or one of its tools: grade, categories, reasons, and a suitable rule.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  gatelodge catalogue show mcp-server-git
  gatelodge catalogue show npm:@modelcontextprotocol/server-filesystem write_file
  gatelodge catalogue show mcp-server-git --policy strict > git.json

Exit code: 0 shown, 1 it is not in the index, 2 usage, 5 the index cannot be used.")]
pub struct ShowPackageArgs {
    /// Package name, optionally prefixed by its registry: `npm:` or `pypi:`.
    pub package: String,
    /// One of the package's tools.
    pub tool: Option<String>,
    /// Print a policy instead: for the whole server, or only for the tool.
    #[arg(long, value_name = "STRICTNESS", conflicts_with = "json")]
    pub policy: Option<StrictnessArg>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub index_source: IndexSourceArgs,
}

/// Lists attack patterns, or shows one: how it works, its signs, countermeasures, a policy, and public incidents.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  gatelodge catalogue attacks
  gatelodge catalogue attacks lethal-trifecta

Exit code: 0 shown, 2 there is no such pattern.")]
pub struct AttackPatternsArgs {
    /// Name of a pattern.
    pub slug: Option<String>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Replaces the package index with a newer one, after verifying it completely.
///
/// A truncated, damaged, foreign or newer-format file is refused, and the old index stays in use. So is an index that
/// is older or has less than half as many servers, unless a flag allows it. Changes to servers that are in both indexes
/// are stored as change events, which `catalogue changes` and `catalogue mcp` report: the most severe change of each
/// server, and the number of others.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  gatelodge catalogue update --from index.glx
  gatelodge catalogue update --from https://example.com/index.glx
  gatelodge catalogue update --built-in

Exit code: 0 in use, 1 not a valid index, older or much smaller, 2 usage, 4 unreachable, 5 it cannot be written.")]
pub struct UpdateIndexArgs {
    /// File or URL of the new index. Redirects are not followed.
    #[arg(long, value_name = "FILE|URL", required_unless_present = "built_in")]
    pub from: Option<String>,
    /// Use the index that is built into the program, for example after an upgrade.
    #[arg(long, conflicts_with = "from")]
    pub built_in: bool,
    /// Accept an index that is older than the one in use.
    #[arg(long)]
    pub allow_older: bool,
    /// Accept an index that has less than half as many servers as the one in use, or none.
    #[arg(long)]
    pub allow_smaller: bool,
    /// How long to wait while the server sends nothing. A slow download may take longer in total.
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = whole_number::<u64, 1, 600>)]
    pub timeout: u64,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub store: StoreArgs,
}

/// Lists changes to servers between the indexes that were in use here, oldest first; or posts them to a webhook.
///
/// With `--post`, events are sent in requests of at most 100, signed according to Standard Webhooks, each event at
/// least once. The data directory stores a cursor for each URL, which advances only after a 2xx response. The next run
/// continues there.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  gatelodge catalogue changes --since 120 --level high
  gatelodge catalogue changes --post https://hooks.example.com/mcp --secret-env HOOK_SECRET

Exit code: 0 listed or posted, 1 the cursor belongs to other events, 2 usage, 4 the webhook does not accept them, 5 the \
                  events cannot be read or the cursor cannot be stored.")]
pub struct IndexChangesArgs {
    /// Only events after this cursor [default: all; with `--post`, those not posted yet]
    #[arg(long, value_name = "CURSOR", value_parser = any_whole_number::<u64>)]
    pub since: Option<u64>,
    /// Only tools of at least this level: low, medium, high, critical.
    #[arg(long, value_parser = parse_level)]
    pub level: Option<RiskLevel>,
    /// Maximum number of events to list.
    #[arg(long, value_name = "N", default_value_t = 100, conflicts_with = "post")]
    #[arg(value_parser = any_whole_number::<usize>)]
    pub limit: usize,
    /// Post the events to this URL: `https://`, or `http://` on this machine.
    #[arg(long, value_name = "URL")]
    pub post: Option<String>,
    /// Environment variable that holds the signing secret, at least 16 bytes long. After the prefix `whsec_`, it is
    /// Base64.
    #[arg(long, value_name = "NAME", requires = "post", conflicts_with = "secret_file")]
    pub secret_env: Option<String>,
    /// File that holds the signing secret.
    #[arg(long, value_name = "FILE", requires = "post")]
    pub secret_file: Option<PathBuf>,
    /// Maximum number of retries for a request, after 1, 2, 4 seconds and so on.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = whole_number::<u32, 0, 8>)]
    pub retries: u32,
    /// How long a response may take.
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = whole_number::<u64, 1, 600>)]
    pub timeout: u64,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub store: StoreArgs,
}

/// Serves the catalogue to agents, as an MCP server over stdio.
///
/// Tools: `check_mcp_server`, `search_registry`, `check_tool`, `check_mcp_stack`, `get_change_events`. All of them are
/// read-only, and nothing is sent over the network.
#[derive(Debug, Args)]
#[command(after_help = "Example, in a client's configuration:
  \"catalogue\": { \"command\": \"gatelodge\", \"args\": [\"catalogue\", \"mcp\"] }

Exit code: 0 the client disconnected, 1 the configuration is invalid, 2 usage, 5 the index cannot be used.")]
pub struct CatalogueMcpArgs {
    #[command(flatten)]
    pub index_source: IndexSourceArgs,
}

fn parse_category(text: &str) -> Result<Category, String> {
    Category::from_word(&text.to_ascii_lowercase())
        .ok_or_else(|| "a category is one of read, write, execute, destructive, financial, unknown".to_owned())
}

/// Parses a level, ignoring case.
pub fn parse_level(text: &str) -> Result<RiskLevel, String> {
    RiskLevel::ALL
        .into_iter()
        .find(|level| level.as_str().eq_ignore_ascii_case(text))
        .ok_or_else(|| "a level is one of low, medium, high, critical".to_owned())
}

fn parse_signal(text: &str) -> Result<RiskSignalKind, String> {
    RiskSignalKind::from_word(&text.to_ascii_lowercase().replace('-', "_")).ok_or_else(|| {
        let all: Vec<&str> = RiskSignalKind::ALL.iter().map(|kind| kind.as_str()).collect();
        format!("a signal is one of {}", all.join(", "))
    })
}
