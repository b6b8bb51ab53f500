//! What can be asked on the command line. The comments here are the help texts.

mod call;
mod policy;
mod run;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

pub use call::CallArgs;
pub use policy::{CheckArgs, ExplainArgs, FmtArgs, FormatName, ImportArgs, PolicyCommand, TestArgs};
pub use run::{ServeArgs, UpArgs};

/// Gatelodge: what AI agents may ask of MCP servers.
///
/// Agents reach MCP servers through the gateway, and nothing reaches a server without passing the rules.
/// A policy says which tools an agent may call, with which arguments, how often, and when a person must agree.
#[derive(Debug, Parser)]
#[command(version, propagate_version = true, disable_help_subcommand = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands, by noun.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Try it: a gateway with a built-in server, a policy and a grant.
    Up(UpArgs),
    /// Run a gateway by a configuration.
    Serve(ServeArgs),
    /// Call a tool, as an agent would.
    Call(CallArgs),
    /// Check, test, explain and convert policies.
    #[command(subcommand)]
    Policy(PolicyCommand),
}

/// Where things are kept: what the configuration says, a directory, or the usual one.
#[derive(Debug, Clone, Args)]
pub struct StoreArgs {
    /// The configuration of the gateway.
    #[arg(long, value_name = "FILE", env = "GATELODGE_CONFIG", hide_env_values = true)]
    pub config: Option<PathBuf>,
    /// The data directory, in place of what the configuration says.
    #[arg(long, value_name = "DIR", env = "GATELODGE_DATA", hide_env_values = true)]
    pub data: Option<PathBuf>,
}
