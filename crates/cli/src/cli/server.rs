//! `gatelodge server …`: what can be asked.

use clap::{Args, Subcommand};

use super::StoreArgs;

/// The verbs of `server`.
#[derive(Debug, Subcommand)]
pub enum ServerCommand {
    Add(AddServerArgs),
    /// Lists all servers.
    List(ListArgs),
    /// Shows one server, and who may reach it.
    Show(NamedArgs),
    /// Removes a server, and what grants have for it.
    Remove(NamedArgs),
    /// Connects to a server, and tells what it offers.
    Test(NamedArgs),
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
pub struct NamedArgs {
    /// Its name.
    pub name: String,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub store: StoreArgs,
}
