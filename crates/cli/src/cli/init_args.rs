//! `gatelodge init`: what can be asked.

use std::path::PathBuf;

use clap::Args;

/// Finds the servers that your MCP clients run, and moves those you choose behind the gateway.
///
/// It shows them, writes a configuration with a grant for each client and server, and offers to rewrite the clients.
/// The policies it writes allow everything and record it; tighten them once you have seen what agents do.
/// Values of variables and headers are not shown, and not copied unless you say so.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  gatelodge init                              only look
  gatelodge init --all --rewrite              move everything, after asking
  gatelodge init --servers github,files --clients cursor,codex
  gatelodge init --undo                       every file as it was, byte for byte

Exit code: 0 done, 1 a file or server could not be used (the others were), 2 not agreed to or not asked rightly.")]
pub struct InitArgs {
    /// Only these clients, by their words in docs/clients.md.
    #[arg(long, value_name = "CLIENT", value_delimiter = ',')]
    pub clients: Vec<String>,
    /// Import these servers, by their names in the clients' files.
    #[arg(long, value_name = "NAME", value_delimiter = ',', conflicts_with = "all")]
    pub servers: Vec<String>,
    /// Import all servers.
    #[arg(long)]
    pub all: bool,
    /// The configuration to write; what it has stays.
    #[arg(
        long,
        value_name = "FILE",
        env = "GATELODGE_CONFIG",
        hide_env_values = true,
        default_value = "gatelodge.toml"
    )]
    pub config: PathBuf,
    /// Let the clients' entries point to the gateway.
    #[arg(long, conflicts_with = "no_rewrite")]
    pub rewrite: bool,
    /// Leave the clients' files as they are.
    #[arg(long)]
    pub no_rewrite: bool,
    /// Copy values of variables and headers, and commands that seem to hold a secret, into files of ours that only you
    /// can read.
    #[arg(long)]
    pub copy_secrets: bool,
    /// Do not ask.
    #[arg(long)]
    pub yes: bool,
    /// Take back everything that `init` wrote.
    #[arg(long, conflicts_with_all = ["servers", "all", "rewrite", "copy_secrets"])]
    pub undo: bool,
    /// With `--undo`: also where files were changed since; the changes stay.
    #[arg(long, requires = "undo")]
    pub force: bool,
    /// A folder whose own configurations of clients are looked at, too.
    #[arg(long, value_name = "DIR")]
    pub project: Option<PathBuf>,
    /// The home directory to look in, in place of yours.
    #[arg(long, value_name = "DIR")]
    pub home: Option<PathBuf>,
    /// How clients start the bridge [default: this program]
    #[arg(long, value_name = "PATH")]
    pub program: Option<String>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}
