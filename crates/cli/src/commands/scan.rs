//! `gatelodge scan`: connects to a server, classifies its tools and writes a policy for them.

use std::time::Duration;

use anyhow::Result;
use gatelodge_admin::server_url;
use gatelodge_catalogue::{
    Classification, ReadToolError, ServerContext, StarterPolicyStrictness, ToolListEntry, classify, policy_scaffold,
    read_tools,
};
use gatelodge_gateway::UpstreamConfig;
use gatelodge_server::process_environment;
use http::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use serde_json::json;

use super::catalogue::classification_io;
use super::server::test_server_connection;
use super::wrap;
use crate::cli::{ScanServerArgs, StrictnessArg};
use crate::diagnostic_report::{count_noun, escape_for_terminal, print_stderr};
use crate::exit_code::{CommandExitCode, ExitError, UsageError};
use crate::mcp_client::{McpClient, McpClientError, McpProtocolChoice, ServerProbe};
use crate::{file_output, stdout_output, store_command_context};

/// How long the server has to respond.
const PROBE_TIMEOUT: Duration = Duration::from_secs(30);

pub fn run(args: ScanServerArgs) -> Result<CommandExitCode> {
    if let Some(url) = &args.url {
        return store_command_context::block_on(async {
            print_scan(&probe_url(url, &args).await?, &args, str::to_owned)
        });
    }
    if let Some(name) = &args.name {
        return test_server_connection::with_server(&args.store, name, async |server| {
            scan_server(&server, &args).await
        });
    }
    wrap::refuse_missing_program(&args.command)?;
    let server = wrap::server_from_command(&args.command, None)?;
    store_command_context::block_on(scan_server(&server, &args))
}

async fn scan_server(server: &UpstreamConfig, args: &ScanServerArgs) -> Result<CommandExitCode> {
    let mut probe = test_server_connection::probe_server(server)
        .await
        .map_err(|error| test_server_connection::probe_error(server, &error))?;
    probe.server = server.name.to_string();
    let secrets = server.secret_redactor();
    print_scan(&probe, args, |text| secrets.redact_text(text))
}

async fn probe_url(url: &str, args: &ScanServerArgs) -> Result<ServerProbe> {
    let address = server_url::parse_server_url(url)
        .map_err(|error| UsageError(format!("{}; {}", error.message(), error.help())))?;
    let mut headers = HeaderMap::new();
    if let Some(variable) = &args.token_env {
        let token = process_environment::find_variable(variable)
            .ok_or_else(|| UsageError(format!("`{variable}` is not set")))?;
        let value = HeaderValue::try_from(format!("Bearer {}", token.trim()));
        let mut value = value.map_err(|_| UsageError(format!("the value of `{variable}` is not a token")))?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    let probing = async {
        let mut client = McpClient::open(address, headers, McpProtocolChoice::Auto, PROBE_TIMEOUT).await?;
        let tools = client.list_tools().await?;
        let probe = ServerProbe { server: client.server_label.clone(), revision: client.revision.clone(), tools };
        client.close().await;
        Ok(probe)
    };
    probing.await.map_err(|error: McpClientError| {
        let exit = if matches!(error, McpClientError::Unreachable(_)) {
            CommandExitCode::Unreachable
        } else {
            CommandExitCode::Findings
        };
        let needs_token = matches!(error, McpClientError::Status(401, _)) && args.token_env.is_none();
        let help = if needs_token { "; `--token-env NAME` names the variable that holds the token" } else { "" };
        ExitError(exit, format!("{}: {}{help}", server_url::redact_url(url), escape_for_terminal(&error.to_string())))
            .into()
    })
}

/// Classifies a server's tools and prints the result or a policy. `redact` removes secrets from what is printed.
fn print_scan(probe: &ServerProbe, args: &ScanServerArgs, redact: impl Fn(&str) -> String) -> Result<CommandExitCode> {
    // Redacted before anything is parsed, so that no later step can print a secret.
    let list = redact(&json!({"server": probe.server, "tools": probe.tools}).to_string());
    let documents = read_tools(list.as_bytes());
    let (mut items, mut errors): (Vec<ToolListEntry<'_>>, Vec<ReadToolError>) = (Vec::new(), Vec::new());
    for (number, document) in &documents {
        match document {
            Ok(document) => ToolListEntry::read_all(document, *number).into_iter().for_each(|item| match item {
                Ok(item) => items.push(item),
                Err(error) => errors.push(error),
            }),
            Err(error) => errors.push(error.clone()),
        }
    }
    let server = ServerContext::new(&probe.server, None, items.iter().map(|item| &*item.tool.name));
    let mut known: Vec<(&ToolListEntry<'_>, Classification)> =
        items.iter().map(|item| (item, classify(&item.tool, &server))).collect();
    known.sort_by(|(one, first), (other, second)| {
        second.level.cmp(&first.level).then_with(|| one.tool.name.cmp(&other.tool.name))
    });
    match args.policy {
        Some(strictness) => write_policy(&probe.server, &known, strictness, args)?,
        None => print_tools(&probe.server, &known, args.json)?,
    }
    let exit = if errors.is_empty() { CommandExitCode::Success } else { CommandExitCode::Findings };
    classification_io::report_messages(errors.into_iter().map(|error| error.why).collect());
    Ok(exit)
}

fn print_tools(server: &str, known: &[(&ToolListEntry<'_>, Classification)], json: bool) -> Result<()> {
    if json {
        let lines = known.iter().map(|(item, known)| {
            stdout_output::json_line(&classification_io::classification_json(server, &item.tool, known)?)
        });
        return stdout_output::print(&lines.collect::<Result<String>>()?);
    }
    let rows: Vec<_> =
        known.iter().map(|(item, known)| classification_io::classification_row(&item.tool, known)).collect();
    stdout_output::print(&stdout_output::format_table(&rows))?;
    print_stderr(&format!("{}; `--policy recommended` writes a policy for them", count_noun(known.len(), "tool")));
    Ok(())
}

fn write_policy(
    server: &str,
    known: &[(&ToolListEntry<'_>, Classification)],
    strictness: StrictnessArg,
    args: &ScanServerArgs,
) -> Result<()> {
    let strictness = match strictness {
        StrictnessArg::Recommended => StarterPolicyStrictness::Recommended,
        StrictnessArg::Strict => StarterPolicyStrictness::Strict,
        StrictnessArg::Permissive => StarterPolicyStrictness::Permissive,
    };
    let tools: Vec<_> = known.iter().map(|(item, known)| (&item.tool, known)).collect();
    let text = policy_scaffold(server, &tools, strictness)
        .map_err(|error| ExitError(CommandExitCode::Findings, error.to_string()))?;
    match &args.out {
        Some(path) => {
            file_output::write_new_file(path, &text)?;
            print_stderr(&format!("wrote `{}`; read it, then `gatelodge policy put NAME {0}`", path.display()));
            Ok(())
        }
        None => stdout_output::print(&text),
    }
}
