//! `gatelodge catalogue …` and `gatelodge scan`: what can be asked.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::StoreArgs;
use super::index_args::{
    AttackPatternsArgs, CatalogueMcpArgs, IndexChangesArgs, SearchIndexArgs, ShowPackageArgs, UpdateIndexArgs,
};

/// The verbs of `catalogue`.
#[derive(Debug, Subcommand)]
pub enum CatalogueCommand {
    Search(SearchIndexArgs),
    Show(ShowPackageArgs),
    Attacks(AttackPatternsArgs),
    Classify(ClassifyToolsArgs),
    Update(UpdateIndexArgs),
    Changes(IndexChangesArgs),
    Mcp(CatalogueMcpArgs),
    Crawl(MovedArgs),
    Eval(MovedArgs),
    Index(MovedArgs),
    Export(MovedArgs),
}

/// Classifies tools by what their definitions say: one line for each, in the order in which they come.
///
/// Nothing is run and nothing is fetched; the same definitions give the same answers. What cannot be read as a tool
/// is told with its reason.
#[derive(Debug, Args)]
#[command(after_help = r#"Examples:
  gatelodge catalogue classify tools.json              a `tools/list` result
  gatelodge catalogue classify --json < tools.jsonl    one tool a line, all fields

A line of input:
  {"server": "files", "name": "write_file", "description": "…", "inputSchema": {…}, "annotations": {…}}
All but `name` may be missing. Tools of one server are siblings.

Exit code: 0 all classified, 1 some are no tools, 2 the input cannot be read."#)]
pub struct ClassifyToolsArgs {
    /// The tools; `-` is standard input.
    #[arg(default_value = "-")]
    pub file: PathBuf,
    /// Print one JSON object a line, with all fields.
    #[arg(long)]
    pub json: bool,
}

/// Answers commands that moved to the program `gatelodge-indexer` with the new command.
#[derive(Debug, Args)]
#[command(hide = true, disable_help_flag = true, disable_version_flag = true)]
pub struct MovedArgs {
    /// The arguments of the old command, for the message.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub rest: Vec<String>,
}

/// Connects to a server, classifies its tools, and prints them, the riskiest first; or writes a policy for it.
///
/// The policy names each tool with its category, its reasons and its parameters as comments, and refuses tools that it
/// does not name; resources and prompts can be read. Read it, fill in what is suggested, then `gatelodge policy put`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  gatelodge scan books                                        a server of the configuration
  gatelodge scan --url http://127.0.0.1:8000/mcp              one that runs
  gatelodge scan --policy recommended --out files.json -- npx -y @modelcontextprotocol/server-filesystem /srv

Exit code: 0 told or written, 1 some tools are none, 2 usage, 4 unreachable.")]
pub struct ScanArgs {
    /// A server of the configuration or the store.
    #[arg(conflicts_with_all = ["url", "command"], required_unless_present_any = ["url", "command"])]
    pub name: Option<String>,
    /// Where a server listens.
    #[arg(long, conflicts_with = "command")]
    pub url: Option<String>,
    /// The variable of the environment that holds a token for it.
    #[arg(long, value_name = "NAME", requires = "url")]
    pub token_env: Option<String>,
    /// Write a policy in place of the list.
    #[arg(long, value_name = "POSTURE")]
    pub policy: Option<PostureArg>,
    /// Write the policy to a new file.
    #[arg(long, value_name = "FILE", requires = "policy")]
    pub out: Option<PathBuf>,
    /// Print one JSON object a tool, with all fields.
    #[arg(long, conflicts_with = "policy")]
    pub json: bool,
    #[command(flatten)]
    pub store: StoreArgs,
    /// A server's program and its arguments.
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// How much a policy trusts.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum PostureArg {
    /// Reads pass, changes and runs are limited, money waits for a person, what destroys is hidden.
    Recommended,
    /// Only reads pass; the rest waits for a person or is hidden.
    Strict,
    /// All passes within limits; what destroys or pays waits for a person.
    Permissive,
}
