//! `gatelodge calls`, `audit`, `status` and `doctor`: what can be asked.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use gatelodge_store::ChainHead;

use super::StoreArgs;

/// Shows what agents did, and why it was refused.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  gatelodge calls --refused
  gatelodge calls --grant ci --tool create_charge --last 100
  gatelodge calls --follow --json | jq .code

Handshakes, lists and notifications are left out unless you ask for `--all`.
With `--follow`, a call that lasts longer than two seconds is shown twice: once without its outcome.")]
pub struct CallsArgs {
    /// Go on with calls as they come.
    #[arg(long)]
    pub follow: bool,
    /// Only of the grant with this label or id.
    #[arg(long, value_name = "LABEL")]
    pub grant: Option<String>,
    /// Only to this server.
    #[arg(long, value_name = "NAME")]
    pub server: Option<String>,
    /// Only of this tool, resource or prompt.
    #[arg(long, value_name = "NAME")]
    pub tool: Option<String>,
    /// Only what was refused, or would have been.
    #[arg(long)]
    pub refused: bool,
    /// Only this call, by the id that a refusal quotes.
    #[arg(long, value_name = "ID")]
    pub call: Option<String>,
    /// How many at most: the newest.
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub last: usize,
    /// Everything, also what no rule speaks of.
    #[arg(long)]
    pub all: bool,
    /// Print each call as one JSON object a line: its row of the log, with how it ended. `audit export` has all rows.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub store: StoreArgs,
}

/// The verbs of `audit`.
#[derive(Debug, Subcommand)]
pub enum AuditCommand {
    Verify(VerifyLogArgs),
    Export(ExportLogArgs),
    Head(LogHeadArgs),
    Prune(PruneLogArgs),
}

/// Which of the two logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AuditLogArg {
    /// What agents did.
    Calls,
    /// What people changed.
    Admin,
}

/// Walks both logs from end to end. Each row's hash covers the row and the hash before it.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  gatelodge audit head > head.txt                       keep it on another machine
  gatelodge audit verify --head \"$(cat head.txt)\"       later: was anything before it changed?

Exit code: 0 both hold, 1 one does not, or its head was missing; the row where it breaks is named.")]
pub struct VerifyLogArgs {
    /// A head of the call log that was kept elsewhere; may be given many times.
    #[arg(long = "head", value_name = "SEQ:HASH")]
    pub heads: Vec<ChainHead>,
    /// A head of the admin log that was kept elsewhere.
    #[arg(long, value_name = "SEQ:HASH")]
    pub admin_head: Option<ChainHead>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub store: StoreArgs,
}

/// Prints a log, oldest row first, one JSON object a line.
///
/// Each has its number, its hash and the hash before, so that a copy can be verified elsewhere; docs/operations.md says how.
#[derive(Debug, Args)]
pub struct ExportLogArgs {
    /// Which log.
    #[arg(long, value_name = "LOG", default_value = "calls")]
    pub log: AuditLogArg,
    /// Only rows behind this number.
    #[arg(long, value_name = "SEQ")]
    pub after: Option<u64>,
    #[command(flatten)]
    pub store: StoreArgs,
}

/// Prints the number and the hash of the last row. Whoever keeps it elsewhere can tell later that nothing was changed.
#[derive(Debug, Args)]
pub struct LogHeadArgs {
    /// Which log.
    #[arg(long, value_name = "LOG", default_value = "calls")]
    pub log: AuditLogArg,
    /// Print both heads as JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub store: StoreArgs,
}

/// Removes rows of the call log that are older than a time. The last one's hash stays as the anchor of the chain.
#[derive(Debug, Args)]
pub struct PruneLogArgs {
    /// Older than this: `90d`.
    #[arg(long, value_name = "TIME")]
    pub older: String,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub store: StoreArgs,
}

/// Shows what there is and whether a gateway runs.
#[derive(Debug, Args)]
#[command(after_help = "Exit code: 0 fine, 1 the configuration has faults or a change was not taken up.")]
pub struct StatusArgs {
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub store: StoreArgs,
}

/// Looks for what could be wrong, and says what to do about it.
#[derive(Debug, Args)]
#[command(after_help = "Exit code: 0 nothing is wrong, 1 something is.")]
pub struct DoctorArgs {
    /// The home directory where clients' files are, in place of yours.
    #[arg(long, value_name = "DIR")]
    pub home: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub store: StoreArgs,
}
