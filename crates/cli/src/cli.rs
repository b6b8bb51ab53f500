//! What can be asked on the command line. The comments here are the help texts.

mod audit_args;
mod call_args;
mod catalogue_args;
mod connect_args;
mod gateway_args;
mod grant_args;
mod index_args;
mod init_args;
mod pharo_args;
mod policy_args;
mod server_args;
mod stack_args;
mod stdio_args;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};

pub use audit_args::{
    AuditCommand, AuditLogArg, CallsArgs, DoctorArgs, ExportLogArgs, LogHeadArgs, PruneLogArgs, StatusArgs,
    VerifyLogArgs,
};
pub use call_args::CallArgs;
pub use catalogue_args::{CatalogueCommand, ClassifyToolsArgs, MovedArgs, PostureArg, ScanArgs};
pub use connect_args::ConnectArgs;
pub use gateway_args::{ServeArgs, UpArgs};
pub use grant_args::{
    AttachServerArgs, CreateGrantArgs, DetachServerArgs, GenerateTokenArgs, GrantCommand, RotateGrantArgs,
    TokenLifetimeArgs,
};
pub use index_args::{
    AttackPatternsArgs, CatalogueMcpArgs, IndexChangesArgs, IndexSourceArgs, SearchIndexArgs, ShowPackageArgs,
    UpdateIndexArgs,
};
pub use init_args::InitArgs;
pub use pharo_args::PharoArgs;
pub use policy_args::{
    CheckPolicyArgs, DraftPolicyArgs, ExplainPolicyArgs, FormatPolicyArgs, ImportPolicyArgs, PolicyCommand,
    PolicyFormatArg, PutPolicyArgs, RollbackPolicyArgs, ShowPolicyArgs, TestPolicyArgs,
};
pub use server_args::{AcceptToolsArgs, AddServerArgs, ListArgs, NamedItemArgs, OverrideCategoryArgs, ServerCommand};
pub use stack_args::{PrecheckArgs, StackArgs, StackFormat};
pub use stdio_args::{BridgeArgs, WrapArgs};

/// Gatelodge: what AI agents may ask of MCP servers.
///
/// Agents reach MCP servers through the gateway, and nothing reaches a server without passing the rules.
/// A policy says which tools an agent may call, with which arguments, how often, and when a person must agree.
#[derive(Debug, Parser)]
#[command(version, propagate_version = true, disable_help_subcommand = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: CliCommand,
}

/// The commands, by noun. Where a verb has arguments of its own, the comment on those is its help.
#[derive(Debug, Subcommand)]
pub enum CliCommand {
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
pub fn parse_arguments() -> Result<(Cli, bool), clap::Error> {
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
pub fn is_json_requested() -> bool {
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
