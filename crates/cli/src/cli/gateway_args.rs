//! Arguments of `gatelodge up` and `gatelodge serve`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

use super::argument_values::socket_address;
use crate::logging::LoggingArgs;

/// Starts a demo: a gateway with a small MCP server, a policy and a grant.
///
/// Prints the address, the token, and commands to paste into another terminal.
/// Counters and logs are stored, so limits hold across restarts. The token is new each time.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  gatelodge up
  gatelodge up --listen 127.0.0.1:0    on any free port

Stop it with Ctrl-C.")]
pub struct UpArgs {
    /// Data directory for counters and logs [default: `gatelodge-demo` in the user's data directory]
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Address for clients.
    #[arg(long, value_name = "ADDRESS", value_parser = socket_address)]
    #[arg(default_value_t = gatelodge_server::config::DEFAULT_GATEWAY_ADDRESS)]
    pub listen: SocketAddr,
    /// Address of the health, readiness and metrics endpoints.
    #[arg(long, value_name = "ADDRESS", value_parser = socket_address)]
    #[arg(default_value_t = gatelodge_server::config::DEFAULT_ADMIN_ADDRESS)]
    pub admin: SocketAddr,
    #[command(flatten)]
    pub log: LoggingArgs,
}

/// Runs a gateway with a configuration file, until SIGTERM or SIGINT.
///
/// The file is reloaded when it changes and on SIGHUP; an invalid file changes nothing.
/// Servers, policies and grants that commands add or change are applied within a second.
/// When it stops, the gateway accepts no new calls and lets running calls finish.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  gatelodge serve --config gatelodge.toml
  gatelodge serve --config gatelodge.toml --check    only check it

All settings are in docs/config.md.

Exit code: 0 stopped by a signal, 1 the configuration is invalid, 2 it cannot be read, 5 the gateway cannot listen or \
                  store data.")]
pub struct ServeArgs {
    /// Configuration file.
    #[arg(long, value_name = "FILE", env = "GATELODGE_CONFIG", hide_env_values = true)]
    pub config: Option<PathBuf>,
    /// Only check the configuration and the files it refers to.
    #[arg(long)]
    pub check: bool,
    /// With `--check`: print the findings as JSON.
    #[arg(long, requires = "check")]
    pub json: bool,
    #[command(flatten)]
    pub log: LoggingArgs,
}
