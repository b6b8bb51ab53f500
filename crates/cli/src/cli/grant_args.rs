//! `gatelodge grant …`: what can be asked.

use clap::{Args, Subcommand};

use super::{ListArgs, NamedItemArgs, StoreArgs};

/// The verbs of `grant`.
#[derive(Debug, Subcommand)]
pub enum GrantCommand {
    Create(CreateGrantArgs),
    /// Lists all grants, ended ones too.
    List(ListArgs),
    /// Shows one grant.
    Show(NamedItemArgs),
    Rotate(RotateGrantArgs),
    /// Ends a grant at once.
    Revoke(NamedItemArgs),
    Attach(AttachServerArgs),
    Detach(DetachServerArgs),
    Token(GenerateTokenArgs),
}

/// Makes a grant: a token, and what it lets its bearer reach.
///
/// The token is printed once, alone on standard output; only its hash is kept.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  gatelodge grant create ci --server books --policy books
  GATELODGE_TOKEN=$(gatelodge grant create me --server books --policy books --expires 7d)")]
pub struct CreateGrantArgs {
    /// What people call it.
    pub label: String,
    /// The server it may reach.
    #[arg(long, value_name = "NAME")]
    pub server: Option<String>,
    /// By which policy; without one every call is refused.
    #[arg(long, value_name = "NAME", requires = "server")]
    pub policy: Option<String>,
    /// Only record what the policy would refuse, and send it all the same.
    #[arg(long, requires = "policy")]
    pub observe: bool,
    /// A fact that policies may look at, as `grant.labels.<key>`.
    #[arg(long, value_name = "KEY=VALUE")]
    pub labels: Vec<String>,
    /// Refuse clients that speak an older revision of the protocol (`2025-11-25`).
    #[arg(long, value_name = "REVISION")]
    pub minimum_revision: Option<String>,
    #[command(flatten)]
    pub lifetime: TokenLifetimeArgs,
    /// Print the grant with its token as JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub store: StoreArgs,
}

/// How long a token lives.
#[derive(Debug, Args)]
pub struct TokenLifetimeArgs {
    /// How long the token lives (`90d`), or until when (`2027-01-31`).
    #[arg(long, value_name = "WHEN", default_value = "90d")]
    pub expires: String,
    /// The token never ends by itself.
    #[arg(long, conflicts_with = "expires")]
    pub no_expiry: bool,
}

/// Gives a grant another token. Its counters go on.
#[derive(Debug, Args)]
pub struct RotateGrantArgs {
    /// Its label or id.
    pub name: String,
    #[command(flatten)]
    pub lifetime: TokenLifetimeArgs,
    /// Print the grant with its token as JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub store: StoreArgs,
}

/// Says what a grant has for a server, in place of what it had.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  gatelodge grant attach ci --server books --policy books
  gatelodge grant attach ci --server books --policy stricter --observe    what would be refused?")]
pub struct AttachServerArgs {
    /// The grant's label or id.
    pub name: String,
    /// The server it may reach.
    #[arg(long, value_name = "NAME")]
    pub server: String,
    /// By which policy; without one every call is refused.
    #[arg(long, value_name = "NAME")]
    pub policy: Option<String>,
    /// Only record what the policy would refuse, and send it all the same.
    #[arg(long, requires = "policy")]
    pub observe: bool,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub store: StoreArgs,
}

/// Takes a server from a grant.
#[derive(Debug, Args)]
pub struct DetachServerArgs {
    /// The grant's label or id.
    pub name: String,
    /// The server it shall no longer reach.
    #[arg(long, value_name = "NAME")]
    pub server: String,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub store: StoreArgs,
}

/// Makes a token. It goes to standard output, its hash to standard error; nothing is kept.
///
/// In a configuration: name a variable that holds the token as `token_env`, or write the hash as `token_hash`.
#[derive(Debug, Args)]
pub struct GenerateTokenArgs {
    /// Print `{"token", "token_hash"}`.
    #[arg(long)]
    pub json: bool,
}
