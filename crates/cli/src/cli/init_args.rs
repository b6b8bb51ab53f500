//! Arguments of `gatelodge init`.

use std::path::PathBuf;

use clap::Args;

/// Finds the MCP servers configured in your clients, and moves those you choose behind the gateway.
///
/// It lists the servers, writes a configuration with a grant for each client and server, and offers to change the
/// clients' files so that they use the gateway.
/// The policies it writes allow every call and record it; make them stricter once you have seen what agents do.
/// Values of environment variables and headers are not shown, and are copied only with `--copy-secrets`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  gatelodge init                              only list the servers
  gatelodge init --all --rewrite              move all servers, after asking
  gatelodge init --servers github,files --clients cursor,codex
  gatelodge init --undo                       restore every file, byte for byte

Exit code: 0 done, 1 a file or server could not be used (the others were), 2 not confirmed or usage error.")]
pub struct InitArgs {
    /// Only these clients. docs/clients.md lists their names.
    #[arg(long, value_name = "CLIENT", value_delimiter = ',')]
    pub clients: Vec<String>,
    /// Import these servers, by the names they have in the clients' files.
    #[arg(long, value_name = "NAME", value_delimiter = ',', conflicts_with = "all")]
    pub servers: Vec<String>,
    /// Import all servers.
    #[arg(long)]
    pub all: bool,
    /// Configuration file to write. Existing entries are kept.
    #[arg(
        long,
        value_name = "FILE",
        env = "GATELODGE_CONFIG",
        hide_env_values = true,
        default_value = "gatelodge.toml"
    )]
    pub config: PathBuf,
    /// Change the clients' files so that they use the gateway.
    #[arg(long, conflicts_with = "no_rewrite")]
    pub rewrite: bool,
    /// Do not change the clients' files.
    #[arg(long)]
    pub no_rewrite: bool,
    /// Copy the values of environment variables and headers, and commands that seem to contain a secret, into files
    /// that only you can read.
    #[arg(long)]
    pub copy_secrets: bool,
    /// Do not ask for confirmation.
    #[arg(long)]
    pub yes: bool,
    /// Undo everything that `init` wrote.
    #[arg(long, conflicts_with_all = ["servers", "all", "rewrite", "copy_secrets"])]
    pub undo: bool,
    /// With `--undo`: also undo in files that have changed since then, and keep those changes.
    #[arg(long, requires = "undo")]
    pub force: bool,
    /// Project directory whose client configurations are also read.
    #[arg(long, value_name = "DIR")]
    pub project: Option<PathBuf>,
    /// Home directory to search instead of yours.
    #[arg(long, value_name = "DIR")]
    pub home: Option<PathBuf>,
    /// Program that clients start as the bridge [default: this program]
    #[arg(long, value_name = "PATH")]
    pub program: Option<String>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}
