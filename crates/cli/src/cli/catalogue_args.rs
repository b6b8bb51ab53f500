//! Arguments of `gatelodge catalogue …` and `gatelodge scan`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::StoreArgs;
use super::index_args::{
    AttackPatternsArgs, CatalogueMcpArgs, IndexChangesArgs, SearchIndexArgs, ShowPackageArgs, UpdateIndexArgs,
};

/// Subcommands of `catalogue`.
#[derive(Debug, Subcommand)]
pub enum CatalogueSubcommand {
    Search(SearchIndexArgs),
    Show(ShowPackageArgs),
    Attacks(AttackPatternsArgs),
    Classify(ClassifyToolsArgs),
    Update(UpdateIndexArgs),
    Changes(IndexChangesArgs),
    Mcp(CatalogueMcpArgs),
    Crawl(LegacyCommandArgs),
    Eval(LegacyCommandArgs),
    Index(LegacyCommandArgs),
    Export(LegacyCommandArgs),
}

/// Classifies tools by their definitions. Prints one line per tool, in input order.
///
/// Nothing is run or fetched; the same definitions always give the same result. Entries that are not valid tools are
/// reported with the reason.
#[derive(Debug, Args)]
#[command(after_help = r#"Examples:
  gatelodge catalogue classify tools.json              a `tools/list` result
  gatelodge catalogue classify --json < tools.jsonl    one tool per line, all fields

A line of input:
  {"server": "files", "name": "write_file", "description": "…", "inputSchema": {…}, "annotations": {…}}
Only `name` is required. The other tools of a server are context for each of its tools.

Exit code: 0 all classified, 1 some entries are not valid tools, 2 the input cannot be read."#)]
pub struct ClassifyToolsArgs {
    /// File with tools; `-` is standard input.
    #[arg(default_value = "-")]
    pub file: PathBuf,
    /// Print one JSON object per line, with all fields.
    #[arg(long)]
    pub json: bool,
}

/// Commands that moved to the program `gatelodge-indexer`; prints the new command.
#[derive(Debug, Args)]
#[command(hide = true, disable_help_flag = true, disable_version_flag = true)]
pub struct LegacyCommandArgs {
    /// Arguments of a command that is now in the indexer. They are accepted so that the error can repeat them.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub rest: Vec<String>,
}

/// Connects to a server, classifies its tools and prints them, riskiest first; or writes a policy for it.
///
/// The policy has a block for each tool, with comments on its category, the reasons and its parameters. It refuses all
/// other tools and allows reading resources and prompts. Review it, complete the suggestions, then store it with
/// `gatelodge policy put`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  gatelodge scan books                                        a configured server
  gatelodge scan --url http://127.0.0.1:8000/mcp              a running server
  gatelodge scan --policy recommended --out files.json -- npx -y @modelcontextprotocol/server-filesystem /srv

Exit code: 0 printed or written, 1 some tools are invalid, 2 usage, 4 unreachable.")]
pub struct ScanServerArgs {
    /// Name of a server in the configuration or the store.
    #[arg(conflicts_with_all = ["url", "command"], required_unless_present_any = ["url", "command"])]
    pub name: Option<String>,
    /// URL of a server.
    #[arg(long, conflicts_with = "command")]
    pub url: Option<String>,
    /// Environment variable that holds the token for the server.
    #[arg(long, value_name = "NAME", requires = "url")]
    pub token_env: Option<String>,
    /// Print a policy instead of the list.
    #[arg(long, value_name = "STRICTNESS")]
    pub policy: Option<StrictnessArg>,
    /// Write the policy to this file, which must not exist.
    #[arg(long, value_name = "FILE", requires = "policy")]
    pub out: Option<PathBuf>,
    /// Print one JSON object per tool, with all fields.
    #[arg(long, conflicts_with = "policy")]
    pub json: bool,
    #[command(flatten)]
    pub store: StoreArgs,
    /// Program that runs a stdio server, and its arguments.
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// How strict a generated policy is.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum StrictnessArg {
    /// Allow reading; limit writing and executing; require approval for payments; hide destructive tools.
    Recommended,
    /// Allow only reading; require approval for other tools, or hide them.
    Strict,
    /// Allow everything within limits; require approval for destructive tools and payments.
    Permissive,
}
