//! Arguments of `gatelodge pharo`.

use std::net::SocketAddr;
use std::time::Duration;

use clap::Args;
use gatelodge_server::config::{DURATION_SYNTAX, parse_duration};

use super::argument_values::{socket_address, whole_number};

/// Serves a Pharo Smalltalk image as an MCP server, with 22 tools to read, search, change and run its code.
///
/// The image runs PharoSmalltalkInteropServer, which listens on port 8086.
/// The server speaks stdio, for a client or a gateway that starts it, or HTTP.
/// It has no access control of its own: `eval` and other tools run any code in the image. Put a gateway in front of it.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  gatelodge pharo                                    over stdio
  gatelodge pharo --port 8087 --timeout 2m
  gatelodge pharo --http 127.0.0.1:8090              at http://127.0.0.1:8090/mcp
  gatelodge wrap --policy eval.json -- gatelodge pharo

In a client's configuration, behind a policy:
  {\"mcpServers\": {\"pharo\": {\"command\": \"gatelodge\", \"args\": [\"wrap\", \"--policy\", \"/home/ada/pharo.json\", \"--\", \"gatelodge\", \"pharo\"]}}}

docs/pharo.md describes the set-up and has policies.

Exit code: 0 the client disconnected, 2 usage, 5 internal error.")]
pub struct PharoArgs {
    /// Host of the image: a name or an address.
    /// Screenshots are returned only if it is this machine.
    #[arg(long, value_name = "HOST", default_value = "localhost")]
    pub host: String,
    /// Port of the interop server in the image [default: the variable PHARO_SIS_PORT, or 8086]
    #[arg(long, value_name = "PORT", value_parser = whole_number::<u16, 1, 65_535>)]
    pub port: Option<u16>,
    /// Timeout for a response from the image: 500ms, 30s, 2m.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_timeout)]
    pub timeout: Duration,
    /// Timeout for imports, exports, installations and test runs. With `--compat`, `--timeout` applies to all calls.
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = parse_timeout, conflicts_with = "compat")]
    pub long_timeout: Duration,
    /// Listen for HTTP clients at this address, instead of using stdio.
    #[arg(long, value_name = "ADDRESS", value_parser = socket_address)]
    pub http: Option<SocketAddr>,
    /// Host name under which clients reach that address. Can be repeated. The usual loopback names are always accepted.
    #[arg(long, value_name = "NAME", requires = "http")]
    pub known_as: Vec<String>,
    /// Return results in the format of the Python server with the same tools, where a failure is not an error.
    #[arg(long)]
    pub compat: bool,
    /// Allow other machines in `--http` and `--host`. Neither side authenticates its peer.
    /// Without this flag, only `localhost` and loopback addresses are allowed.
    #[arg(long)]
    pub beyond_loopback: bool,
}

/// Upper limit for timeouts. Larger values would approach the timer's maximum, and serve no purpose.
const MAX_TIMEOUT: Duration = Duration::from_secs(86_400);

fn parse_timeout(text: &str) -> Result<Duration, String> {
    let timeout = parse_duration(text).ok_or_else(|| format!("write {DURATION_SYNTAX}"))?;
    if timeout > MAX_TIMEOUT { Err("the maximum is `24h`".to_owned()) } else { Ok(timeout) }
}
