//! The command line. The doc comments of the argument types are the help texts.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

/// Builds the index of published MCP packages that `gatelodge` ships and searches.
///
/// It reads packages from PyPI and npm without running them, classifies the tools they offer, writes the index file and
/// the static site, and trains and evaluates the classifier. The gateway does not need this program, except for
/// `gatelodge precheck --read`.
#[derive(Debug, Parser)]
#[command(name = "gatelodge-indexer", version, propagate_version = true, disable_help_subcommand = true)]
#[command(after_help = "Examples:
  gatelodge-indexer crawl pypi --out crawl-pypi
  gatelodge-indexer index crawl-pypi/facts.jsonl --outcomes crawl-pypi/done.jsonl --out index.glx
  gatelodge-indexer export --index index.glx --out site
  gatelodge-indexer read npm:@modelcontextprotocol/server-filesystem

The exit codes are those of `gatelodge`: 0 success, 1 findings, 2 usage, 4 unreachable, 5 internal error.")]
pub struct IndexerCli {
    #[command(subcommand)]
    pub command: IndexerCommand,
}

/// The commands, in the order in which an index is built.
#[derive(Debug, Subcommand)]
pub enum IndexerCommand {
    #[command(subcommand)]
    Crawl(CrawlSubcommand),
    Read(ReadPackageArgs),
    Index(BuildIndexArgs),
    Export(ExportSiteArgs),
    Train(TrainArgs),
    Eval(EvaluateClassifierArgs),
}

/// Reads many published packages, without running them, into facts about their tools.
///
/// Packages come from the package index that the user's own `pip` or `npm` uses. A run that was interrupted continues
/// where it stopped. It writes `facts.jsonl`, one line per package with tools, without any text written by the authors,
/// and `done.jsonl`, one line per package with its outcome.
#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:
  gatelodge-indexer crawl pypi --out crawl-pypi
  gatelodge-indexer crawl pypi --only weather --out weather
  gatelodge-indexer crawl npm --names names.txt --out crawl-npm

Exit code: 0 all packages have an outcome, 2 usage, 4 the package index does not answer, 5 output cannot be written.")]
pub enum CrawlSubcommand {
    /// Python packages: those whose names contain `mcp`, or those listed in a file.
    Pypi {
        /// Only packages whose names contain this.
        #[arg(long, value_name = "PART")]
        only: Vec<String>,
        #[command(flatten)]
        common: CrawlArgs,
    },
    /// npm packages listed in a file.
    Npm {
        #[command(flatten)]
        common: CrawlArgs,
    },
}

/// Options common to both sources.
#[derive(Debug, Args)]
pub struct CrawlArgs {
    /// Address of the package index, in place of the one that `pip` or `npm` uses.
    #[arg(long, value_name = "URL")]
    pub index: Option<String>,
    /// File with one package per line: `name`, `name==1.0`, and for npm `name@1.0`.
    #[arg(long, value_name = "FILE")]
    pub names: Option<PathBuf>,
    /// Folder to write to.
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Folder for the sources of packages that were read, to read them again without the network.
    #[arg(long, value_name = "DIR")]
    pub cache: Option<PathBuf>,
    /// Maximum size of that folder in bytes.
    #[arg(long, value_name = "BYTES", default_value_t = 12_000_000_000)]
    pub cache_limit: u64,
    /// Number of packages to fetch at once, at most 64.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u8).range(1..=64))]
    pub connections: u8,
    /// Also write each tool's definition to this file, for training only. It contains text written by the authors: do
    /// not share it.
    #[arg(long, value_name = "FILE")]
    pub definitions: Option<PathBuf>,
}

/// Reads one published package, without running it, and prints the facts about its tools as JSON.
///
/// `gatelodge precheck --read` calls this command. Nothing is left on disk. The JSON has the members of a line of
/// `done.jsonl` and, if the package has tools, `facts` with the members of a line of `facts.jsonl`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  gatelodge-indexer read pypi:mcp-server-git
  gatelodge-indexer read npm:@modelcontextprotocol/server-filesystem@2025.8.21

Exit code: 0 the package has an outcome, 2 usage, 4 the package index does not answer.")]
pub struct ReadPackageArgs {
    /// The package: `pypi:name`, `pypi:name==1.0`, `npm:name` or `npm:name@1.0.0`.
    pub package: String,
    /// Address of the package index, in place of the one that `pip` or `npm` uses.
    #[arg(long, value_name = "URL")]
    pub index: Option<String>,
}

/// Builds an index file from facts that `crawl` wrote.
///
/// The same facts give the same file. If a package occurs twice, the later facts apply, and the tools that a server
/// lists take precedence over those found in its sources. A line that is not a fact is an error, and the old file is
/// then left unchanged.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  gatelodge-indexer index pypi/facts.jsonl npm/facts.jsonl --outcomes pypi/done.jsonl npm/done.jsonl --out index.glx
  gatelodge-indexer index --listed npm:@acme/files@1.2.0=tools.json --out own.glx

Exit code: 0 written, 1 a line is not a fact, 2 usage, 5 the file cannot be written.")]
pub struct BuildIndexArgs {
    /// Files with one package per line.
    #[arg(required_unless_present = "listed")]
    pub facts: Vec<PathBuf>,
    /// A server given by the tools it lists: a package with its version, and a file with the result of `tools/list`.
    #[arg(long, value_name = "PACKAGE@VERSION=FILE")]
    pub listed: Vec<String>,
    /// Files with one line per package that was read, with its outcome in the member `outcome`.
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub outcomes: Vec<PathBuf>,
    /// Date of the index, as 2026-11-16 [default: today]
    #[arg(long, value_name = "DAY")]
    pub date: Option<String>,
    /// File to write.
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
}

/// Writes the index as a static site: a page for each server, tool, attack pattern, risk and public incident, in HTML and
/// Markdown, with `llms.txt`.
///
/// The pages need no script and no server, and load nothing from other sites. All text from packages is shown as text.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  gatelodge-indexer export --out site
  gatelodge-indexer export --out site --server mcp-server-git --server npm:@acme/files

Exit code: 0 written, 1 a server is not in the index, 2 usage, 5 the index cannot be used or the site cannot be written.")]
pub struct ExportSiteArgs {
    /// Folder to write. It is created if it does not exist, and must be empty if it does.
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Only these servers; all servers by default.
    #[arg(long, value_name = "PACKAGE")]
    pub server: Vec<String>,
    #[command(flatten)]
    pub source: InputIndexArgs,
}

/// The index to read: the named file, else the one in the data directory, else the one built into the program.
#[derive(Debug, Args)]
pub struct InputIndexArgs {
    /// Index file to read, in place of the usual one.
    #[arg(long, value_name = "FILE")]
    pub index: Option<PathBuf>,
    /// Data directory of `gatelodge`, whose index and change events are used [default: the user's data directory]
    #[arg(long, value_name = "DIR", env = "GATELODGE_DATA", hide_env_values = true)]
    pub data: Option<PathBuf>,
}

/// Learns the weights of the classifier from labeled tools, and prints them in the format of `data/weights.json`.
///
/// Training uses no network and no random numbers: the same labels give the same weights. Figures for servers that were
/// left out of training go to standard error.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  gatelodge-indexer train \"labels of November\" train.jsonl > crates/catalogue/data/weights.json

Exit code: 0 printed, 2 a file cannot be read, 5 internal error.")]
pub struct TrainArgs {
    /// Where the labels come from, in a few words; stored with the weights, next to the hash of the labels.
    pub origin: String,
    /// Files of labeled tools, one per line: see `eval`.
    #[arg(required = true)]
    pub labels: Vec<PathBuf>,
}

/// Evaluates the classifier against labels: accuracy, precision and recall, confusion, calibration.
///
/// A label is the member `category` of a tool: a category, or `NotReadNotDestructive` if it is only known that the tool
/// changes something and destroys nothing. The annotations of servers are hidden from the classifier.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  gatelodge-indexer eval labels.jsonl --worst 20

Exit code: 0 evaluated, 1 some lines are not tools or have an unknown label, 2 the file cannot be read.")]
pub struct EvaluateClassifierArgs {
    /// The labels; `-` is standard input.
    pub labels: PathBuf,
    /// List this many of the worst mistakes.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub worst: usize,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}
