//! Command line arguments. The doc comments are the help texts.

mod argument_values;
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
mod server_risk_args;
mod stdio_args;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};

pub use audit_args::{
    AuditChainHeadArgs, AuditLogChoice, AuditSubcommand, CallsArgs, DoctorArgs, ExportLogArgs, PruneLogArgs,
    StatusArgs, VerifyLogArgs,
};
pub use call_args::CallArgs;
pub use catalogue_args::{CatalogueSubcommand, ClassifyToolsArgs, LegacyCommandArgs, ScanServerArgs, StrictnessArg};
pub use connect_args::ConnectArgs;
pub use gateway_args::{ServeArgs, UpArgs};
pub use grant_args::{
    AttachGrantServerArgs, CreateGrantArgs, DetachGrantServerArgs, GenerateTokenArgs, GrantSubcommand, RotateGrantArgs,
    TokenLifetimeArgs,
};
pub use index_args::{
    AttackPatternsArgs, CatalogueMcpArgs, IndexChangesArgs, IndexSourceArgs, SearchIndexArgs, ShowPackageArgs,
    UpdateIndexArgs,
};
pub use init_args::InitArgs;
pub use pharo_args::PharoArgs;
pub use policy_args::{
    CheckPolicyArgs, DraftPolicyArgs, ExplainPolicyArgs, FormatPolicyArgs, ImportInterceptPolicyArgs, PolicyFormatArg,
    PolicySubcommand, PutPolicyArgs, RollbackPolicyArgs, ShowPolicyArgs, TestPolicyArgs,
};
pub use server_args::{
    AcceptToolsArgs, AddServerArgs, ListArgs, NamedItemArgs, OverrideCategoryArgs, ServerSubcommand,
};
pub use server_risk_args::{PrecheckArgs, ServerStackArgs, StackReportFormat};
pub use stdio_args::{BridgeArgs, WrapArgs};

/// Gatelodge: a policy gateway between AI agents and MCP servers.
///
/// Agents reach MCP servers only through the gateway, which checks every call against a policy.
/// A policy says which tools an agent may call, with which arguments, how often, and when a person must approve.
#[derive(Debug, Parser)]
#[command(version, propagate_version = true)]
pub struct Cli {
    /// The command.
    #[command(subcommand)]
    pub command: CliCommand,
}

/// The commands. If a command has its own arguments type, the doc comment on that type is its help text.
#[derive(Debug, Subcommand)]
pub enum CliCommand {
    Up(UpArgs),
    Serve(ServeArgs),
    Wrap(WrapArgs),
    Bridge(BridgeArgs),
    Init(InitArgs),
    Connect(ConnectArgs),
    Call(CallArgs),
    /// Manages servers: add, list, remove, test, and review their tools.
    #[command(subcommand)]
    Server(ServerSubcommand),
    /// Manages grants: tokens and the servers they can reach.
    #[command(subcommand)]
    Grant(GrantSubcommand),
    /// Checks, tests, explains and stores policies.
    #[command(subcommand)]
    Policy(PolicySubcommand),
    /// Shows published MCP servers and their tools: what each can do, the evidence, and a suitable policy.
    #[command(subcommand)]
    Catalogue(CatalogueSubcommand),
    Scan(ScanServerArgs),
    Precheck(PrecheckArgs),
    Stack(ServerStackArgs),
    Calls(CallsArgs),
    /// Verifies, exports and prunes the call log and the admin log.
    #[command(subcommand)]
    Audit(AuditSubcommand),
    Pharo(PharoArgs),
    Status(StatusArgs),
    Doctor(DoctorArgs),
    #[command(hide = true)]
    Docs(DocsArgs),
}

/// Parses the command line. Also returns whether JSON output is requested.
pub fn parse_arguments() -> Result<(Cli, bool), clap::Error> {
    let matches = Cli::command().try_get_matches()?;
    let mut subcommand = &matches;
    while let Some((_, nested)) = subcommand.subcommand() {
        subcommand = nested;
    }
    let is_json = subcommand.try_get_one::<bool>("json").ok().flatten().copied().unwrap_or(false);
    let json = is_json || matches!(subcommand.try_get_one("format"), Ok(Some(StackReportFormat::Json)));
    Ok((Cli::from_arg_matches(&matches)?, json))
}

/// Returns whether an invalid command line requests JSON output.
pub fn is_json_requested() -> bool {
    let words: Vec<OsString> = std::env::args_os().skip(1).take_while(|word| word != "--").collect();
    // In other commands `--format` is the format of a document, not of the report.
    let is_stack = words.first().is_some_and(|word| word == "stack");
    let is_format = |pair: &[OsString]| matches!(pair, [option, format] if option == "--format" && format == "json");
    words.iter().any(|word| word == "--json" || is_stack && word == "--format=json")
        || is_stack && words.windows(2).any(is_format)
}

/// Location of the store.
#[derive(Debug, Clone, Args)]
pub struct StoreArgs {
    /// The gateway's configuration file.
    #[arg(long, value_name = "FILE", env = "GATELODGE_CONFIG", hide_env_values = true)]
    pub config: Option<PathBuf>,
    /// Data directory. Overrides the one in the configuration.
    #[arg(long, value_name = "DIR", env = "GATELODGE_DATA", hide_env_values = true)]
    pub data: Option<PathBuf>,
}

/// Prints a generated documentation page.
#[derive(Debug, Args)]
pub struct DocsArgs {
    /// Page to print.
    pub page: DocsPage,
}

/// The generated documentation pages.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum DocsPage {
    /// `docs/config.md`.
    Config,
    /// `docs/cli.md`.
    Cli,
    /// `docs/clients.md`.
    Clients,
}
