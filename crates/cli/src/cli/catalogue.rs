//! `gatelodge catalogue …` and `gatelodge scan`: what can be asked.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::StoreArgs;
use super::index::{AttacksArgs, CatalogueMcpArgs, ChangesArgs, IndexArgs, SearchArgs, ShowArgs, SiteArgs, UpdateArgs};

/// The verbs of `catalogue`.
#[derive(Debug, Subcommand)]
pub enum CatalogueCommand {
    Search(SearchArgs),
    Show(ShowArgs),
    Attacks(AttacksArgs),
    Classify(ClassifyArgs),
    Eval(EvalArgs),
    #[command(subcommand)]
    Crawl(CrawlCommand),
    Index(IndexArgs),
    Update(UpdateArgs),
    Changes(ChangesArgs),
    Export(SiteArgs),
    Mcp(CatalogueMcpArgs),
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
pub struct ClassifyArgs {
    /// The tools; `-` is standard input.
    #[arg(default_value = "-")]
    pub file: PathBuf,
    /// Print one JSON object a line, with all fields.
    #[arg(long)]
    pub json: bool,
}

/// Holds the classifier against labels: agreement, precision and recall, confusion, calibration.
///
/// A label is `category` beside a tool: a category, or `NotReadNotDestructive` where it is only known that the tool
/// changes something and destroys nothing. What servers claim of their own tools is hidden from the classifier.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  gatelodge catalogue eval labels.jsonl --worst 20

Exit code: 0 told, 1 some lines are no tools or have no known label, 2 the file cannot be read.")]
pub struct EvalArgs {
    /// The labels; `-` is standard input.
    pub labels: PathBuf,
    /// List so many of the worst mistakes.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub worst: usize,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Reads published packages, without running them, into facts about their tools.
///
/// The index is the one that the user's own `pip` or `npm` uses. A run that was cut off goes on where it was. What is
/// written: `facts.jsonl`, a line for each package with tools, without a sentence of anybody; `done.jsonl`, a line for
/// each package with how it ended.
#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:
  gatelodge catalogue crawl pypi --out crawl-pypi
  gatelodge catalogue crawl pypi --only weather --out weather
  gatelodge catalogue crawl npm --names names.txt --out crawl-npm

Exit code: 0 all packages have an outcome, 2 usage, 4 the index does not answer, 5 it cannot be written.")]
pub enum CrawlCommand {
    /// Python packages: those whose names carry `mcp`, or those of a file.
    Pypi {
        /// Only packages whose names have this in them.
        #[arg(long, value_name = "PART")]
        only: Vec<String>,
        #[command(flatten)]
        common: CrawlArgs,
    },
    /// npm packages of a file.
    Npm {
        #[command(flatten)]
        common: CrawlArgs,
    },
}

/// What both have in common.
#[derive(Debug, Args)]
pub struct CrawlArgs {
    /// The index's address, in place of the one that `pip` or `npm` uses.
    #[arg(long, value_name = "URL")]
    pub index: Option<String>,
    /// A package a line: `name`, `name==1.0`, and for npm `name@1.0`.
    #[arg(long, value_name = "FILE")]
    pub names: Option<PathBuf>,
    /// The folder that is written to.
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Keep the sources of what was read, to read them again without the network.
    #[arg(long, value_name = "DIR")]
    pub cache: Option<PathBuf>,
    /// How many bytes are kept at most.
    #[arg(long, value_name = "BYTES", default_value_t = 12_000_000_000)]
    pub cache_limit: u64,
    /// How many packages are fetched at once, 64 at most.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u8).range(1..=64))]
    pub connections: u8,
    /// Also write each tool's definition, for training alone. These are sentences of others: not to be shared.
    #[arg(long, value_name = "FILE")]
    pub definitions: Option<PathBuf>,
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
    pub policy: Option<PostureName>,
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
pub enum PostureName {
    /// Reads pass, changes and runs are limited, money waits for a person, what destroys is hidden.
    Recommended,
    /// Only reads pass; the rest waits for a person or is hidden.
    Strict,
    /// All passes within limits; what destroys or pays waits for a person.
    Permissive,
}
