//! `gatelodge server …`: what can be asked.

use clap::{Args, Subcommand};

use super::StoreArgs;

/// The verbs of `server`.
#[derive(Debug, Subcommand)]
pub enum ServerCommand {
    Add(AddServerArgs),
    /// Lists all servers.
    List(ListArgs),
    /// Shows one server, who may reach it, and what its tools can do, the riskiest first.
    Show(NamedItemArgs),
    /// Removes a server, and what grants have for it.
    Remove(NamedItemArgs),
    /// Connects to a server, and tells what it offers.
    Test(NamedItemArgs),
    /// Shows what a server offers now that is not as it was accepted, and whom it concerns.
    Diff(NamedItemArgs),
    Accept(AcceptToolsArgs),
    Classify(OverrideCategoryArgs),
}

/// Says what a tool can do, where you know better than the catalogue. Policies and the call log go by it.
///
/// It is kept with who said it, when and why. When the tool's definition changes and is accepted anew, the catalogue
/// judges again, unless you say otherwise.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  gatelodge server show books
  gatelodge server classify books create_draft --as write --why 'drafts can be deleted'
  gatelodge server classify books create_draft --undo

Categories: read, write, execute, destructive, financial, unknown.")]
pub struct OverrideCategoryArgs {
    /// The server.
    pub name: String,
    /// The tool, as it was accepted.
    pub tool: String,
    /// What it can do.
    #[arg(long = "as", value_name = "CATEGORY", required_unless_present = "undo", requires = "why")]
    pub category: Option<String>,
    /// Why, for those who read it later.
    #[arg(long, value_name = "TEXT")]
    pub why: Option<String>,
    /// Let it hold when the tool's definition changes, too.
    #[arg(long, conflicts_with = "undo")]
    pub even_if_changed: bool,
    /// Take back what was said: the catalogue's judgement counts again.
    #[arg(long, conflicts_with_all = ["category", "why"])]
    pub undo: bool,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub store: StoreArgs,
}

/// Accepts what a server offers now. What was not accepted cannot be called, and is not listed.
///
/// `server diff` shows what is to be accepted. A tool whose definition changed since it was shown is not accepted.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  gatelodge server diff books
  gatelodge server accept books create_charge refund
  gatelodge server accept books --all

Exit code: 0 accepted, 1 some cannot be accepted, 2 there is no such tool.")]
pub struct AcceptToolsArgs {
    /// The server.
    pub name: String,
    /// The tools.
    pub tools: Vec<String>,
    /// All that are new or changed.
    #[arg(long, conflicts_with = "tools")]
    pub all: bool,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub store: StoreArgs,
}

/// Adds a server. A running gateway takes it up within a second, at `/mcp/<name>`.
///
/// No secret is kept: a header that holds a credential takes it from the environment of the gateway.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  gatelodge server add notes http://127.0.0.1:8000/mcp
  gatelodge server add books https://books.example.com/mcp --header 'Authorization: Bearer ${BOOKS_TOKEN}'")]
pub struct AddServerArgs {
    /// Its name: letters a-z, digits and `-`.
    pub name: String,
    /// Where it listens.
    pub url: String,
    /// A header to send with each request; `${NAME}` stands for a variable of the environment.
    #[arg(long = "header", value_name = "NAME: VALUE")]
    pub headers: Vec<String>,
    /// Keep the arguments of its calls in the call log, redacted; else only their digest and their names.
    #[arg(long)]
    pub log_arguments: bool,
    /// Accept nothing of what it offers before `server accept`.
    #[arg(long)]
    pub review: bool,
    /// Accept tools that come later as they come; a tool that changes never is.
    #[arg(long)]
    pub accept_new: bool,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub store: StoreArgs,
}

/// Which store.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub store: StoreArgs,
}

/// Which one, in which store.
#[derive(Debug, Args)]
pub struct NamedItemArgs {
    /// Its name.
    pub name: String,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub store: StoreArgs,
}
