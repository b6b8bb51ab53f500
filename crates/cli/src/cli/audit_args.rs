//! Arguments of `gatelodge calls`, `audit`, `status` and `doctor`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use gatelodge_store::ChainHead;

use super::StoreArgs;
use super::argument_values::any_whole_number;

/// Shows agents' calls, and why calls were refused.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  gatelodge calls --refused
  gatelodge calls --grant ci --tool create_charge --last 100
  gatelodge calls --follow --json | jq .code

Handshakes, lists and notifications are shown only with `--all`.
With `--follow`, a call that takes longer than two seconds is shown twice, first without its outcome.")]
pub struct CallsArgs {
    /// Continue with new calls as they arrive.
    #[arg(long)]
    pub follow: bool,
    /// Only calls made with the grant of this label or id.
    #[arg(long, value_name = "LABEL")]
    pub grant: Option<String>,
    /// Only calls to this server.
    #[arg(long, value_name = "NAME")]
    pub server: Option<String>,
    /// Only calls to this tool, resource or prompt.
    #[arg(long, value_name = "NAME")]
    pub tool: Option<String>,
    /// Only calls that were refused, or would have been in enforce mode.
    #[arg(long)]
    pub refused: bool,
    /// Only the call with this id. Refusals contain the id of the call.
    #[arg(long, value_name = "ID")]
    pub call: Option<String>,
    /// Number of newest calls to show.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = any_whole_number::<usize>)]
    pub last: usize,
    /// Also show requests that no policy rule applies to.
    #[arg(long)]
    pub all: bool,
    /// Print one JSON object per line: the call's log row and outcome. `audit export` prints all rows.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub store: StoreArgs,
}

/// Subcommands of `audit`.
#[derive(Debug, Subcommand)]
pub enum AuditSubcommand {
    Verify(VerifyLogArgs),
    Export(ExportLogArgs),
    Head(AuditChainHeadArgs),
    Prune(PruneLogArgs),
}

/// The two audit logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AuditLogChoice {
    /// Calls by clients
    Calls,
    /// Changes by operators
    Admin,
}

/// Verifies the hash chains of both logs. Each row's hash covers the row and the previous hash.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  gatelodge audit head > head.txt                       store it on another machine
  gatelodge audit verify --head \"$(cat head.txt)\"       later: was any earlier row changed?

Exit code: 0 both are intact, 1 one is broken or its chain head is missing; the first broken row is reported.")]
pub struct VerifyLogArgs {
    /// Chain head of the call log that was stored elsewhere. Can be repeated.
    #[arg(long = "head", value_name = "SEQ:HASH")]
    pub heads: Vec<ChainHead>,
    /// Chain head of the admin log that was stored elsewhere.
    #[arg(long, value_name = "SEQ:HASH")]
    pub admin_head: Option<ChainHead>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub store: StoreArgs,
}

/// Prints a log as one JSON object per line, oldest row first.
///
/// Each row has its number, its hash and the previous hash, so that a copy can be verified elsewhere; see
/// docs/operations.md.
#[derive(Debug, Args)]
pub struct ExportLogArgs {
    /// Log to print.
    #[arg(long, value_name = "LOG", default_value = "calls")]
    pub log: AuditLogChoice,
    /// Only rows after this number.
    #[arg(long, value_name = "SEQ", value_parser = any_whole_number::<u64>)]
    pub after: Option<u64>,
    #[command(flatten)]
    pub store: StoreArgs,
}

/// Prints the chain head: number and hash of the newest row. With a copy stored elsewhere, `audit verify` detects later
/// changes.
#[derive(Debug, Args)]
pub struct AuditChainHeadArgs {
    /// Log to print.
    #[arg(long, value_name = "LOG", default_value = "calls")]
    pub log: AuditLogChoice,
    /// Print the chain heads of both logs as JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub store: StoreArgs,
}

/// Removes old rows from the call log. The hash of the last removed row is kept as an anchor, so that the rest can be
/// verified.
#[derive(Debug, Args)]
pub struct PruneLogArgs {
    /// Minimum age of the rows to remove, for example `90d`.
    #[arg(long, value_name = "TIME")]
    pub older: String,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub store: StoreArgs,
}

/// Shows servers, policies and grants, and whether a gateway is running.
#[derive(Debug, Args)]
#[command(after_help = "Exit code: 0 fine, 1 the configuration is invalid or a change was not applied.")]
pub struct StatusArgs {
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub store: StoreArgs,
}

/// Checks for problems, and says how to fix them.
#[derive(Debug, Args)]
#[command(after_help = "Exit code: 0 no problems, 1 problems.")]
pub struct DoctorArgs {
    /// Home directory with the clients' files, instead of yours.
    #[arg(long, value_name = "DIR")]
    pub home: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub store: StoreArgs,
}
