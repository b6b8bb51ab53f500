//! `gatelodge call`: calls one of a server's tools as an agent would, or lists the tools.

use std::time::Duration;

use anyhow::Result;
use gatelodge_admin::server_url;
use gatelodge_server::process_environment;
use http::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use serde_json::Value;

use crate::cli::CallArgs;
use crate::diagnostic_report::{escape_for_terminal, print_stderr};
use crate::exit_code::{CommandExitCode, UsageError};
use crate::mcp_client::{McpClient, McpClientError};
use crate::stdout_output;

/// Error message prefixes by which refused and failed calls are recognized, and the exit code for each prefix.
const REFUSAL_EXIT_CODES: &[(&str, CommandExitCode)] = &[
    ("[POLICY DENIED]", CommandExitCode::Denied),
    ("[GATEWAY]", CommandExitCode::InternalError),
    ("[UPSTREAM]", CommandExitCode::Unreachable),
];

pub fn run(args: &CallArgs) -> Result<CommandExitCode> {
    let url = server_url::parse_server_url(&args.url)
        .map_err(|error| UsageError(format!("{}; {}", error.message(), error.help())))?;
    let arguments: Value = serde_json::from_str(&args.arguments).ok().filter(Value::is_object).ok_or_else(|| {
        UsageError("the arguments are not a JSON object; write them like '{\"name\": \"plans\"}'".to_owned())
    })?;
    let mut headers = HeaderMap::new();
    if let Some(token) = process_environment::find_variable(&args.token_env) {
        let value = HeaderValue::try_from(format!("Bearer {}", token.trim()));
        let mut value = value.map_err(|_| UsageError(format!("the value of `{}` is not a token", args.token_env)))?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let opened = McpClient::open(url, headers, args.protocol, Duration::from_secs(args.timeout)).await;
        let mut client = match opened {
            Ok(client) => client,
            Err(error) => return report_failure(&error, args),
        };
        let exit = match &args.tool {
            Some(tool) => call_tool(&mut client, tool, &arguments, args).await,
            None => list_tools(&mut client, args).await,
        };
        client.close().await;
        exit
    })
}

async fn call_tool(client: &mut McpClient, tool: &str, arguments: &Value, args: &CallArgs) -> Result<CommandExitCode> {
    for _ in 0..args.times {
        let result = match client.call(tool, arguments).await {
            Ok(result) => result,
            Err(error) => return report_failure(&error, args),
        };
        if args.json {
            stdout_output::print_json(&result)?;
        } else {
            stdout_output::print(&format!("{}\n", result_text(&result)))?;
        }
        let exit = result_exit_code(&result);
        if exit != CommandExitCode::Success {
            return Ok(exit);
        }
    }
    Ok(CommandExitCode::Success)
}

async fn list_tools(client: &mut McpClient, args: &CallArgs) -> Result<CommandExitCode> {
    let tools = match client.list_tools().await {
        Ok(tools) => tools,
        Err(error) => return report_failure(&error, args),
    };
    if args.json {
        stdout_output::print_json(&tools)?;
        return Ok(CommandExitCode::Success);
    }
    let text =
        |tool: &Value, name: &str| escape_for_terminal(tool.get(name).and_then(Value::as_str).unwrap_or_default());
    let rows: Vec<_> = tools.iter().map(|tool| vec![text(tool, "name"), text(tool, "description")]).collect();
    stdout_output::print(&stdout_output::format_table(&rows))?;
    Ok(CommandExitCode::Success)
}

/// Prints why the call returned no result, and returns the exit code.
fn report_failure(error: &McpClientError, args: &CallArgs) -> Result<CommandExitCode> {
    let url = server_url::redact_url(&args.url);
    let why = escape_for_terminal(&error.to_string());
    let (what, exit) = match error {
        McpClientError::Unreachable(_) => (format!("error: cannot reach {url}: {why}"), CommandExitCode::Unreachable),
        McpClientError::Status(401, why) => {
            let variable = &args.token_env;
            let help = format!("put the token of a grant into `{variable}`: export {variable}=…");
            (format!("error: not authenticated: {}\nhelp: {help}", escape_for_terminal(why)), CommandExitCode::Denied)
        }
        McpClientError::Rpc(refused) if refused.message.starts_with("[POLICY DENIED]") => {
            (escape_for_terminal(&refused.message), CommandExitCode::Denied)
        }
        McpClientError::Rpc(_) => (why, CommandExitCode::Findings),
        McpClientError::Status(..) | McpClientError::Protocol(_) => {
            let is_client_error = matches!(error, McpClientError::Status(400..=499, _));
            (
                format!("error: {url}: {why}"),
                if is_client_error { CommandExitCode::Findings } else { CommandExitCode::InternalError },
            )
        }
    };
    print_stderr(&what);
    if args.json {
        stdout_output::print_error_json(what.trim_start_matches("error: "), exit)?;
    }
    Ok(exit)
}

fn result_exit_code(result: &Value) -> CommandExitCode {
    if result.get("isError") != Some(&Value::Bool(true)) {
        return CommandExitCode::Success;
    }
    let text = result_text(result);
    let known = REFUSAL_EXIT_CODES.iter().find(|(mark, _)| text.starts_with(mark));
    known.map_or(CommandExitCode::Findings, |(_, exit)| *exit)
}

/// Returns the text content of a tool result. Other content is represented by its type in brackets.
fn result_text(result: &Value) -> String {
    let content = result.get("content").and_then(Value::as_array).cloned().unwrap_or_default();
    let blocks = content.iter().map(|item| match item.get("text").and_then(Value::as_str) {
        Some(text) => text.lines().map(escape_for_terminal).collect::<Vec<_>>().join("\n"),
        None => format!("[{}]", escape_for_terminal(item.get("type").and_then(Value::as_str).unwrap_or("content"))),
    });
    blocks.collect::<Vec<_>>().join("\n")
}
