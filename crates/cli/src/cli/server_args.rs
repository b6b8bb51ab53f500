//! Arguments of `gatelodge server …`.

use clap::{Args, Subcommand};

use super::StoreArgs;

/// Subcommands of `server`.
#[derive(Debug, Subcommand)]
pub enum ServerSubcommand {
    Add(AddServerArgs),
    /// Lists all servers.
    List(ListArgs),
    /// Shows a server, the grants that can reach it, and its tools, riskiest first.
    #[command(mut_arg("name", |name| name.help("Name of the server")))]
    Show(NamedItemArgs),
    /// Removes a server, and detaches it from all grants.
    #[command(mut_arg("name", |name| name.help("Name of the server")))]
    Remove(NamedItemArgs),
    /// Connects to a server, and shows what it offers.
    #[command(mut_arg("name", |name| name.help("Name of the server")))]
    Test(NamedItemArgs),
    /// Shows how a server's tools differ from the pinned definitions, and which grants are affected.
    #[command(mut_arg("name", |name| name.help("Name of the server")))]
    Diff(NamedItemArgs),
    Accept(AcceptToolsArgs),
    Classify(OverrideCategoryArgs),
}

/// Overrides the category of a tool. Policies and the call log use the new category instead of the catalogue's.
///
/// The override is stored with the user, time and reason. When a changed definition of the tool is accepted, the
/// catalogue classifies it again, except with `--even-if-changed`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  gatelodge server show books
  gatelodge server classify books create_draft --as write --why 'drafts can be deleted'
  gatelodge server classify books create_draft --undo

Categories: read, write, execute, destructive, financial, unknown.")]
pub struct OverrideCategoryArgs {
    /// Name of the server.
    pub name: String,
    /// Name of the pinned tool.
    pub tool: String,
    /// Category of the tool.
    #[arg(long = "as", value_name = "CATEGORY", required_unless_present = "undo", requires = "why")]
    pub category: Option<String>,
    /// Reason, for the record.
    #[arg(long, value_name = "TEXT")]
    pub why: Option<String>,
    /// Keep the category when the tool's definition changes.
    #[arg(long, conflicts_with = "undo")]
    pub even_if_changed: bool,
    /// Remove the override, so that the catalogue's category applies again.
    #[arg(long, conflicts_with_all = ["category", "why"])]
    pub undo: bool,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub store: StoreArgs,
}

/// Accepts tools as the server lists them now. Tools that are not accepted are not listed and cannot be called.
///
/// `server diff` shows the tools to accept. A tool whose definition changed since then is not accepted.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  gatelodge server diff books
  gatelodge server accept books create_charge refund
  gatelodge server accept books --all

Exit code: 0 accepted, 1 some tools cannot be accepted, 2 there is no such tool.")]
pub struct AcceptToolsArgs {
    /// Name of the server.
    pub name: String,
    /// Tools to accept.
    pub tools: Vec<String>,
    /// Accept all new and changed tools.
    #[arg(long, conflicts_with = "tools")]
    pub all: bool,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub store: StoreArgs,
}

/// Adds a server. A running gateway serves it within a second, at `/mcp/<name>`.
///
/// Secrets are not stored: a header takes its credential from an environment variable of the gateway.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  gatelodge server add notes http://127.0.0.1:8000/mcp
  gatelodge server add books https://books.example.com/mcp --header 'Authorization: Bearer ${BOOKS_TOKEN}'")]
pub struct AddServerArgs {
    /// Name of the server: letters a-z, digits and `-`.
    pub name: String,
    /// URL of the server.
    pub url: String,
    /// Header to send with each request. `${NAME}` is replaced by that environment variable. Can be repeated.
    #[arg(long = "header", value_name = "NAME: VALUE")]
    pub headers: Vec<String>,
    /// Store the arguments of calls in the call log, with secrets removed. Otherwise only their names and hash are
    /// stored.
    #[arg(long)]
    pub log_arguments: bool,
    /// Refuse all tools until `server accept`. Otherwise the tools in the server's first list are pinned.
    #[arg(long)]
    pub review: bool,
    /// Automatically pin tools that the server adds later. Changed tools are never pinned automatically.
    #[arg(long)]
    pub accept_new: bool,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub store: StoreArgs,
}

/// Arguments of the `list` commands.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub store: StoreArgs,
}

/// Arguments of commands that act on one item, given by name.
#[derive(Debug, Args)]
pub struct NamedItemArgs {
    /// Name of the item.
    pub name: String,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub store: StoreArgs,
}
