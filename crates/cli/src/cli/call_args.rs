//! `gatelodge call`: what can be asked.

use clap::Args;

use crate::mcp_client::ProtocolChoice;

/// Calls a tool of an MCP server over HTTP, as an agent would, and prints what it answers.
#[derive(Debug, Args)]
#[command(after_help = r#"Examples:
  export GATELODGE_TOKEN=…    the token of a grant
  gatelodge call http://127.0.0.1:7420/mcp/demo list_notes
  gatelodge call http://127.0.0.1:7420/mcp/demo read_note '{"name": "plans"}'
  gatelodge call http://127.0.0.1:7420/mcp/demo    without a tool: lists those there are

Exit code: 0 answered, 1 the tool says it failed, 2 usage, 3 refused by the gateway, 4 unreachable, 5 a fault."#)]
pub struct CallArgs {
    /// Where the server is: `http://127.0.0.1:7420/mcp/<server>` through the gateway.
    pub url: String,
    /// The tool; without one, the tools are listed.
    pub tool: Option<String>,
    /// Its arguments, a JSON object.
    #[arg(default_value = "{}")]
    pub arguments: String,
    /// The variable of the environment that holds the token.
    #[arg(long, value_name = "NAME", default_value = "GATELODGE_TOKEN")]
    pub token_env: String,
    /// The protocol generation to speak.
    #[arg(long, value_name = "GENERATION", default_value = "auto")]
    pub protocol: ProtocolChoice,
    /// Former name of `--protocol`.
    #[arg(long, hide = true, value_parser = refuse_former_name)]
    pub era: Option<String>,
    /// Call it so many times, one after the other, until one is refused.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub times: u32,
    /// Seconds to wait for an answer.
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub timeout: u64,
    /// Print each result as JSON.
    #[arg(long)]
    pub json: bool,
}

fn refuse_former_name(_: &str) -> Result<String, &'static str> {
    Err("the option is called `--protocol` now; use `--protocol auto`, `stateful` or `stateless`")
}
