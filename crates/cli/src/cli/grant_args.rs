//! Arguments of `gatelodge grant …`.

use clap::{Args, Subcommand};

use super::{ListArgs, NamedItemArgs, StoreArgs};

/// Subcommands of `grant`.
#[derive(Debug, Subcommand)]
pub enum GrantSubcommand {
    Create(CreateGrantArgs),
    /// Lists all grants, including revoked and expired ones.
    List(ListArgs),
    /// Shows a grant.
    #[command(mut_arg("name", |name| name.help("Label or id of the grant")))]
    Show(NamedItemArgs),
    Rotate(RotateGrantArgs),
    /// Revokes a grant immediately.
    #[command(mut_arg("name", |name| name.help("Label or id of the grant")))]
    Revoke(NamedItemArgs),
    Attach(AttachGrantServerArgs),
    Detach(DetachGrantServerArgs),
    Token(GenerateTokenArgs),
}

/// Creates a grant: a token, and the server that it can reach.
///
/// The token is printed only now, alone on standard output; only its hash is stored.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  gatelodge grant create ci --server books --policy books
  GATELODGE_TOKEN=$(gatelodge grant create me --server books --policy books --expires 7d)")]
pub struct CreateGrantArgs {
    /// Label of the grant.
    pub label: String,
    /// Server that the grant can reach.
    #[arg(long, value_name = "NAME")]
    pub server: Option<String>,
    /// Policy for the server. Without one, every call is refused.
    #[arg(long, value_name = "NAME", requires = "server")]
    pub policy: Option<String>,
    /// Observe only: record what the policy would refuse, but send the call anyway.
    #[arg(long, requires = "policy")]
    pub observe: bool,
    /// Value that policies can use as `grant.labels.<key>`. Can be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    pub labels: Vec<String>,
    /// Refuse clients with an older protocol revision than this, for example `2025-11-25`.
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

/// When a token expires.
#[derive(Debug, Args)]
pub struct TokenLifetimeArgs {
    /// When the token expires: after a duration (`90d`) or on a date (`2027-01-31`).
    #[arg(long, value_name = "WHEN", default_value = "90d")]
    pub expires: String,
    /// The token does not expire.
    #[arg(long, conflicts_with = "expires")]
    pub no_expiry: bool,
}

/// Replaces the token of a grant. The grant keeps its counters.
#[derive(Debug, Args)]
pub struct RotateGrantArgs {
    /// Label or id of the grant.
    pub name: String,
    #[command(flatten)]
    pub lifetime: TokenLifetimeArgs,
    /// Print the grant with its token as JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub store: StoreArgs,
}

/// Lets a grant reach a server under a policy, or replaces the policy and mode it has for the server.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  gatelodge grant attach ci --server books --policy books
  gatelodge grant attach ci --server books --policy stricter --observe    only record what would be refused")]
pub struct AttachGrantServerArgs {
    /// Label or id of the grant.
    pub name: String,
    /// Server that the grant can reach.
    #[arg(long, value_name = "NAME")]
    pub server: String,
    /// Policy for the server. Without one, every call is refused.
    #[arg(long, value_name = "NAME")]
    pub policy: Option<String>,
    /// Observe only: record what the policy would refuse, but send the call anyway.
    #[arg(long, requires = "policy")]
    pub observe: bool,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub store: StoreArgs,
}

/// Removes a server from a grant.
#[derive(Debug, Args)]
pub struct DetachGrantServerArgs {
    /// Label or id of the grant.
    pub name: String,
    /// Server to remove.
    #[arg(long, value_name = "NAME")]
    pub server: String,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub store: StoreArgs,
}

/// Generates a token. Prints it to standard output and its hash to standard error; stores nothing.
///
/// In a configuration file, set `token_env` to an environment variable that holds the token, or `token_hash` to the
/// hash.
#[derive(Debug, Args)]
pub struct GenerateTokenArgs {
    /// Print `{"token", "token_hash"}`.
    #[arg(long)]
    pub json: bool,
}
