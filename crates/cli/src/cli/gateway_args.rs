//! `gatelodge up` and `gatelodge serve`: what can be asked.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

use crate::app::LogArgs;

/// Starts a gateway with everything it needs to be tried: a small MCP server, a policy for it, and a grant.
///
/// Prints the address, the token, and commands to paste into another terminal.
/// Counters and logs are kept, so a limit still holds after a restart; the token is new each time.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  gatelodge up
  gatelodge up --listen 127.0.0.1:0    on any free port

Stop it with Ctrl-C.")]
pub struct UpArgs {
    /// Where counters and logs are kept [default: `gatelodge-demo` in the user's data directory]
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Where agents connect.
    #[arg(long, value_name = "ADDRESS", default_value_t = crate::config::DEFAULT_GATEWAY_ADDRESS)]
    pub listen: SocketAddr,
    /// Where health, readiness and figures are.
    #[arg(long, value_name = "ADDRESS", default_value_t = crate::config::DEFAULT_ADMIN_ADDRESS)]
    pub admin: SocketAddr,
    #[command(flatten)]
    pub log: LogArgs,
}

/// Runs a gateway by a configuration, until it is told to stop.
///
/// The file is read again when it changes and on SIGHUP; a broken one changes nothing.
/// Servers, policies and grants from the command line are taken up within a second.
/// On SIGTERM and SIGINT no new calls are taken, and those under way may end.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  gatelodge serve --config gatelodge.toml
  gatelodge serve --config gatelodge.toml --check    only tell what is wrong with it

All settings are in docs/config.md.

Exit code: 0 stopped as told, 1 the configuration has faults, 2 it cannot be read, 5 it cannot listen or keep data.")]
pub struct ServeArgs {
    /// The configuration.
    #[arg(long, value_name = "FILE", env = "GATELODGE_CONFIG", hide_env_values = true)]
    pub config: Option<PathBuf>,
    /// Only check the configuration and everything it names.
    #[arg(long)]
    pub check: bool,
    /// With `--check`: print the findings as JSON.
    #[arg(long, requires = "check")]
    pub json: bool,
    #[command(flatten)]
    pub log: LogArgs,
}
