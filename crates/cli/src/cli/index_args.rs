//! `gatelodge catalogue search|show|attacks|update|changes|mcp`: what can be asked of the index.

use std::path::PathBuf;

use clap::Args;
use gatelodge_catalogue::{RiskLevel, RiskSignalKind};
use gatelodge_policy::Category;

use super::StoreArgs;
use super::catalogue_args::PostureArg;

/// Which index: the one that is named, else the one that `catalogue update` put into the data directory, else the one
/// that came with the program.
#[derive(Debug, Clone, Args)]
pub struct IndexSourceArgs {
    /// The index to look into, in place of the usual one.
    #[arg(long, value_name = "FILE")]
    pub index: Option<PathBuf>,
    #[command(flatten)]
    pub store: StoreArgs,
}

/// Finds servers and tools in the index of published MCP packages.
///
/// Words are parts of names, in any case of letters; a tool has each in its own name or its package's, and at least one
/// in its own. The closest come first, of those the riskiest. Nothing is fetched.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  gatelodge catalogue search github issue
  gatelodge catalogue search --level critical --signal takes_path
  gatelodge catalogue search --prefix delete_ --json

Exit code: 0 found or not, 1 the configuration has faults, 2 usage, 5 the index cannot be used.")]
pub struct SearchIndexArgs {
    /// Parts of names.
    pub words: Vec<String>,
    /// Names must begin with the words.
    #[arg(long)]
    pub prefix: bool,
    /// Only tools of a category: read, write, execute, destructive, financial, unknown.
    #[arg(long, value_parser = parse_category)]
    pub category: Option<Category>,
    /// Only tools of a level: low, medium, high, critical.
    #[arg(long, value_parser = parse_level)]
    pub level: Option<RiskLevel>,
    /// Only tools whose definition shows something, as `takes_code`; docs/catalogue.md has the list.
    #[arg(long, value_parser = parse_signal)]
    pub signal: Option<RiskSignalKind>,
    /// Leave out so many of the first.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub skip: usize,
    /// Show at most so many servers, and so many tools.
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub limit: usize,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub index_source: IndexSourceArgs,
}

/// Shows what the index knows of a server or of one of its tools: grade, categories, reasons, the rule that fits.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  gatelodge catalogue show mcp-server-git
  gatelodge catalogue show npm:@modelcontextprotocol/server-filesystem write_file
  gatelodge catalogue show mcp-server-git --policy strict > git.json

Exit code: 0 shown, 1 it is not in the index, 2 usage, 5 the index cannot be used.")]
pub struct ShowPackageArgs {
    /// The package; `npm:` or `pypi:` before it says where it is published.
    pub package: String,
    /// One of its tools.
    pub tool: Option<String>,
    /// Print a policy in place of what is known: for the whole server, or for the tool alone.
    #[arg(long, value_name = "POSTURE", conflicts_with = "json")]
    pub policy: Option<PostureArg>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub index_source: IndexSourceArgs,
}

/// Lists the attack patterns; or tells one: how it works, its signs, what bounds it, a policy, and where it happened.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  gatelodge catalogue attacks
  gatelodge catalogue attacks lethal-trifecta

Exit code: 0 told, 2 there is no such pattern.")]
pub struct AttackPatternsArgs {
    /// The pattern.
    pub slug: Option<String>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Puts a newer index in place of the one in use, after having read it whole.
///
/// What is cut off, damaged, foreign or of a later format is refused, and the old one stays; so is one that is older or
/// has less than half as many servers, unless that is meant. What changed on servers that are in both is kept as change
/// events, which `catalogue changes` and `catalogue mcp` tell: the gravest of each server, and a count of the others.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  gatelodge catalogue update --from index.glx
  gatelodge catalogue update --from https://example.com/index.glx
  gatelodge catalogue update --built-in

Exit code: 0 in use, 1 it is no index, older or much smaller, 2 usage, 4 unreachable, 5 it cannot be written.")]
pub struct UpdateIndexArgs {
    /// A file, or an address that answers with one; redirections are not followed.
    #[arg(long, value_name = "FILE|URL", required_unless_present = "built_in")]
    pub from: Option<String>,
    /// Take the one that came with the program, after an upgrade of it.
    #[arg(long, conflicts_with = "from")]
    pub built_in: bool,
    /// Take it also where it is older than the one in use.
    #[arg(long)]
    pub allow_older: bool,
    /// Take it also where it has less than half as many servers as the one in use, or none.
    #[arg(long)]
    pub allow_smaller: bool,
    /// How long a server may say nothing; a file that comes slowly may take longer.
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=600))]
    pub timeout: u64,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub store: StoreArgs,
}

/// Tells what changed on servers of the index between the indexes that were in use here, in order; or posts it.
///
/// With `--post`, events go to an address in requests of at most 100, signed as Standard Webhooks are, each at least
/// once: what an address has taken is kept in the data directory, and moves only after it has answered with 2xx. The
/// next run goes on behind that.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  gatelodge catalogue changes --since 120 --level high
  gatelodge catalogue changes --post https://hooks.example.com/mcp --secret-env HOOK_SECRET

Exit code: 0 told or posted, 1 the cursor is one of other changes, 2 usage, 4 the address does not take them, 5 the
events cannot be read or what was taken not be kept.")]
pub struct IndexChangesArgs {
    /// Only events behind this cursor [default: all; with `--post`, those that the address has not taken]
    #[arg(long, value_name = "CURSOR")]
    pub since: Option<u64>,
    /// Only tools of this level or a higher one: low, medium, high, critical.
    #[arg(long, value_parser = parse_level)]
    pub level: Option<RiskLevel>,
    /// Tell at most so many.
    #[arg(long, value_name = "N", default_value_t = 100, conflicts_with = "post")]
    pub limit: usize,
    /// Post them to this address: `https://`, or `http://` on this machine.
    #[arg(long, value_name = "URL")]
    pub post: Option<String>,
    /// The variable with the secret that signs, of at least 16 bytes; behind `whsec_` it is Base64.
    #[arg(long, value_name = "NAME", requires = "post", conflicts_with = "secret_file")]
    pub secret_env: Option<String>,
    /// A file with the secret.
    #[arg(long, value_name = "FILE", requires = "post")]
    pub secret_file: Option<PathBuf>,
    /// How often a request is tried again, after 1, 2, 4 seconds and so on.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(0..=8))]
    pub retries: u32,
    /// How long an answer may take.
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=600))]
    pub timeout: u64,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub store: StoreArgs,
}

/// Serves the catalogue to agents, as an MCP server over the standard streams.
///
/// Tools: `check_mcp_server`, `search_registry`, `check_tool`, `check_mcp_stack`, `get_change_events`. All of them only
/// read; what is asked goes nowhere.
#[derive(Debug, Args)]
#[command(after_help = "Example, in a client's configuration:
  \"catalogue\": { \"command\": \"gatelodge\", \"args\": [\"catalogue\", \"mcp\"] }

Exit code: 0 the client has gone, 1 the configuration has faults, 2 usage, 5 the index cannot be used.")]
pub struct CatalogueMcpArgs {
    #[command(flatten)]
    pub index_source: IndexSourceArgs,
}

fn parse_category(text: &str) -> Result<Category, String> {
    Category::from_word(&text.to_ascii_lowercase())
        .ok_or_else(|| "a category is read, write, execute, destructive, financial or unknown".to_owned())
}

/// A level, in any case of letters.
pub fn parse_level(text: &str) -> Result<RiskLevel, String> {
    RiskLevel::ALL
        .into_iter()
        .find(|level| level.as_str().eq_ignore_ascii_case(text))
        .ok_or_else(|| "a level is low, medium, high or critical".to_owned())
}

fn parse_signal(text: &str) -> Result<RiskSignalKind, String> {
    RiskSignalKind::from_word(&text.to_ascii_lowercase().replace('-', "_")).ok_or_else(|| {
        let all: Vec<&str> = RiskSignalKind::ALL.iter().map(|kind| kind.as_str()).collect();
        format!("a signal is one of {}", all.join(", "))
    })
}
