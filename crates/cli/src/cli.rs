//! What can be asked on the command line. The comments here are the help texts.

mod call;
mod catalogue;
mod connect;
mod grant;
mod index;
mod init;
mod local;
mod log;
mod pharo;
mod policy;
mod run;
mod server;
mod stack;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};

pub use call::CallArgs;
pub use catalogue::{CatalogueCommand, ClassifyArgs, MovedArgs, PostureName, ScanArgs};
pub use connect::ConnectArgs;
pub use grant::{AttachArgs, CreateArgs, DetachArgs, GrantCommand, LifeArgs, RotateArgs, TokenArgs};
pub use index::{AttacksArgs, CatalogueMcpArgs, ChangesArgs, FromArgs, SearchArgs, ShowArgs, UpdateArgs};
pub use init::InitArgs;
pub use local::{BridgeArgs, WrapArgs};
pub use log::{AuditCommand, CallsArgs, DoctorArgs, ExportArgs, HeadArgs, LogName, PruneArgs, StatusArgs, VerifyArgs};
pub use pharo::PharoArgs;
pub use policy::{
    CheckArgs, DraftArgs, ExplainArgs, FmtArgs, FormatName, ImportArgs, PolicyCommand, PutArgs, RollbackArgs,
    ShowPolicyArgs, TestArgs,
};
pub use run::{ServeArgs, UpArgs};
pub use server::{AcceptArgs, AddServerArgs, ClassArgs, ListArgs, NamedArgs, ServerCommand};
pub use stack::{PrecheckArgs, StackArgs, StackFormat};

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

/// The commands, by noun. Where a verb has arguments of its own, the comment on those is its help.
#[derive(Debug, Subcommand)]
pub enum Command {
    Up(UpArgs),
    Serve(ServeArgs),
    Wrap(WrapArgs),
    Bridge(BridgeArgs),
    Init(InitArgs),
    Connect(ConnectArgs),
    Call(CallArgs),
    /// Adds, lists, removes and tests the servers that agents reach.
    #[command(subcommand)]
    Server(ServerCommand),
    /// Makes and ends grants: tokens, and what they reach.
    #[command(subcommand)]
    Grant(GrantCommand),
    /// Checks, tests and explains policies; keeps them as versions.
    #[command(subcommand)]
    Policy(PolicyCommand),
    /// Knows published servers and their tools: what each can do, how sure that is, why, and which rule fits.
    #[command(subcommand)]
    Catalogue(CatalogueCommand),
    Scan(ScanArgs),
    Precheck(PrecheckArgs),
    Stack(StackArgs),
    Calls(CallsArgs),
    /// Verifies, exports and prunes the logs.
    #[command(subcommand)]
    Audit(AuditCommand),
    Pharo(PharoArgs),
    Status(StatusArgs),
    Doctor(DoctorArgs),
    #[command(hide = true)]
    Docs(DocsArgs),
}

/// Reads the command line, and whether it asks for JSON.
pub fn read() -> Result<(Cli, bool), clap::Error> {
    let matches = Cli::command().try_get_matches()?;
    let mut verb = &matches;
    while let Some((_, below)) = verb.subcommand() {
        verb = below;
    }
    let is_asked = verb.try_get_one::<bool>("json").ok().flatten().copied().unwrap_or(false);
    let json = is_asked || matches!(verb.try_get_one("format"), Ok(Some(StackFormat::Json)));
    Ok((Cli::from_arg_matches(&matches)?, json))
}

/// Whether JSON is asked for on a command line that cannot be read.
pub fn is_json_written() -> bool {
    let words: Vec<OsString> = std::env::args_os().skip(1).take_while(|word| word != "--").collect();
    // Other commands have formats of what they write, not of what they tell.
    let is_stack = words.first().is_some_and(|word| word == "stack");
    let is_format = |pair: &[OsString]| matches!(pair, [option, form] if option == "--format" && form == "json");
    words.iter().any(|word| word == "--json" || is_stack && word == "--format=json")
        || is_stack && words.windows(2).any(is_format)
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

/// Prints a page of the documentation, from what the program knows of itself.
#[derive(Debug, Args)]
pub struct DocsArgs {
    /// Which page.
    pub page: DocsPage,
}

/// The pages.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum DocsPage {
    /// `docs/config.md`.
    Config,
    /// `docs/cli.md`.
    Cli,
    /// `docs/clients.md`.
    Clients,
}
