//! Arguments of `gatelodge call`.

use clap::Args;

use super::argument_values::whole_number;
use crate::mcp_client::McpProtocolChoice;

/// Calls a tool of an MCP server over HTTP, as an agent would, and prints the result.
#[derive(Debug, Args)]
#[command(after_help = r#"Examples:
  export GATELODGE_TOKEN=…    the token of a grant
  gatelodge call http://127.0.0.1:7420/mcp/demo list_notes
  gatelodge call http://127.0.0.1:7420/mcp/demo read_note '{"name": "plans"}'
  gatelodge call http://127.0.0.1:7420/mcp/demo    without a tool: lists the tools

Exit code: 0 success, 1 the tool reported an error, 2 usage, 3 refused by the gateway, 4 unreachable, 5 internal error."#)]
pub struct CallArgs {
    /// URL of the server; through the gateway, `http://127.0.0.1:7420/mcp/<server>`.
    pub url: String,
    /// Tool to call. Without one, the tools are listed.
    pub tool: Option<String>,
    /// Arguments for the tool, as a JSON object.
    #[arg(default_value = "{}")]
    pub arguments: String,
    /// Environment variable that holds the token.
    #[arg(long, value_name = "NAME", default_value = "GATELODGE_TOKEN")]
    pub token_env: String,
    /// Protocol generation to use.
    #[arg(long, value_name = "GENERATION", default_value = "auto")]
    pub protocol: McpProtocolChoice,
    /// Former name of `--protocol`.
    #[arg(long = "era", value_name = "GENERATION", hide = true, value_parser = refuse_former_name)]
    pub former_protocol: Option<String>,
    /// Repeat the call this many times, one after the other, until one is refused.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole_number::<u32, 1, 10_000>)]
    pub times: u32,
    /// Seconds to wait for a response.
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = whole_number::<u64, 1, 86_400>)]
    pub timeout: u64,
    /// Print each result as JSON.
    #[arg(long)]
    pub json: bool,
}

fn refuse_former_name(_: &str) -> Result<String, &'static str> {
    Err("the option is called `--protocol` now; use `--protocol auto`, `stateful` or `stateless`")
}
