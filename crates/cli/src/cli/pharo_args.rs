//! `gatelodge pharo`: what can be asked.

use std::net::SocketAddr;
use std::time::Duration;

use clap::Args;

use crate::config::{DURATION_SYNTAX, parse_duration};

/// Serves a Pharo Smalltalk image as an MCP server: 22 tools to read, search, change and run what is in it.
///
/// The image runs PharoSmalltalkInteropServer, which listens on port 8086.
/// The server speaks over its standard streams, for a client or a gateway that starts it, or over HTTP.
/// It has no rules of its own: `eval` and others run any code in the image. Put a gateway before it.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  gatelodge pharo                                    over the standard streams
  gatelodge pharo --port 8087 --timeout 2m
  gatelodge pharo --http 127.0.0.1:8090              at http://127.0.0.1:8090/mcp
  gatelodge wrap --policy eval.json -- gatelodge pharo

In a client's configuration, behind a policy:
  {\"mcpServers\": {\"pharo\": {\"command\": \"gatelodge\", \"args\": [\"wrap\", \"--policy\", \"/home/ada/pharo.json\", \"--\", \"gatelodge\", \"pharo\"]}}}

How to set it up, and policies for it: docs/pharo.md.

Exit code: 0 the client is done, 2 usage, 5 a fault.")]
pub struct PharoArgs {
    /// The machine of the image: a name or an address.
    /// Pictures of its screen are read only if it is this one.
    #[arg(long, value_name = "HOST", default_value = "localhost")]
    pub host: String,
    /// The port of the interop server in the image [default: what the variable PHARO_SIS_PORT says, else 8086]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub port: Option<u16>,
    /// How long the image may take for an answer: 500ms, 30s, 2m.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_timeout)]
    pub timeout: Duration,
    /// The same for imports, exports, installations and test runs. With `--compat` there is one time for all.
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = parse_timeout, conflicts_with = "compat")]
    pub long_timeout: Duration,
    /// Listen for clients at this address, in place of the standard streams.
    #[arg(long, value_name = "ADDRESS")]
    pub http: Option<SocketAddr>,
    /// A name by which clients reach that address; it may be given again for another. Loopback has its usual names.
    #[arg(long, value_name = "NAME", requires = "http")]
    pub known_as: Vec<String>,
    /// Give results in the shape of the Python server of the same tools, where a failure is no error.
    #[arg(long)]
    pub compat: bool,
    /// Allow `--http` an address, and `--host` a name or an address, that is not of this machine.
    /// Neither side asks who is there. `localhost` and loopback addresses stay this machine.
    #[arg(long)]
    pub beyond_loopback: bool,
}

/// The timer cannot count much further, and nobody waits that long.
const MAX_TIMEOUT: Duration = Duration::from_secs(86_400);

fn parse_timeout(text: &str) -> Result<Duration, String> {
    let time = parse_duration(text).ok_or_else(|| format!("write {DURATION_SYNTAX}"))?;
    if time > MAX_TIMEOUT { Err("the longest is `24h`".to_owned()) } else { Ok(time) }
}
