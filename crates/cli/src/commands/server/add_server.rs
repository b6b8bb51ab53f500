//! `server add`: stores a server and its headers. Headers refer to environment variables for secrets, which are not
//! stored.

use std::collections::BTreeMap;

use anyhow::Result;
use gatelodge_server::{header_template, process_environment, server_url};
use gatelodge_store::StoredServer;
use serde_json::json;

use crate::cli::AddServerArgs;
use crate::diagnostic_report::print_stderr;
use crate::exit_code::{CommandExitCode, UsageError};
use crate::stdout_output;
use crate::store_command_context::{self, StoreCreationMode};

pub fn run(args: AddServerArgs) -> Result<CommandExitCode> {
    let name = super::parse_server_name(&args.name)?;
    let url = server_url::parse_server_url(&args.url)
        .map_err(|error| UsageError(format!("{}; {}", error.message(), error.help())))?;
    let headers = parse_headers(&args.headers)?;
    store_command_context::with_store(&args.store, StoreCreationMode::CreateIfMissing, async |ctx| {
        if ctx.config_entries().servers.iter().any(|server| server.name == name) {
            return Err(store_command_context::defined_in_file_error("server", name.as_str()));
        }
        let names: Vec<&String> = headers.keys().collect();
        let log_arguments = args.log_arguments;
        let detail =
            json!({"url": server_url::redact_url(&args.url), "headers": names, "log_arguments": log_arguments});
        let created_at = ctx.clock.now();
        let (url_text, stored_headers) = (args.url.clone(), headers.clone());
        let (review, accept_new) = (args.review, args.accept_new);
        let server = StoredServer {
            name: name.clone(),
            url: url_text,
            headers: stored_headers,
            log_arguments,
            review,
            accept_new,
            created_at,
        };
        ctx.stores.servers.add(server, ctx.admin_log_entry("server.add", name.as_str(), detail)).await?;
        if args.json {
            let servers = super::all_servers(&ctx).await?;
            stdout_output::print_json(&super::require_server(servers, name.as_str())?)?;
        }
        print_stderr(&format!("added server `{name}`; a running gateway serves it at /mcp/{name} within a second"));
        for variable in headers.values().flat_map(|value| header_template::referenced_variables(value)) {
            if process_environment::find_variable(&variable).is_none() {
                print_stderr(&format!("warning: `{variable}` is not set here; the gateway needs it where it starts"));
            }
        }
        if !headers.is_empty() && url.scheme_str() == Some("http") && !server_url::is_loopback(&url) {
            print_stderr("warning: the headers are sent to this server unencrypted; use `https://`");
        }
        print_stderr(&format!("next: gatelodge grant create LABEL --server {name} --policy NAME"));
        Ok(CommandExitCode::Success)
    })
}

fn parse_headers(written: &[String]) -> Result<BTreeMap<String, String>, UsageError> {
    let mut read = BTreeMap::new();
    for header in written {
        // The error does not repeat the text, which may be a secret.
        let (name, value) = header
            .split_once(':')
            .map(|(name, value)| (name.trim(), value.trim()))
            .ok_or_else(|| UsageError("write a header as 'Name: value'".to_owned()))?;
        header_template::check_header(name, value)
            .map_err(|error| UsageError(format!("{}; {}", error.message(name), error.help())))?;
        if header_template::is_credential_header(name) && !header_template::has_variable(value) {
            let help = "put the credential into the environment of the gateway and write ${NAME} here";
            return Err(UsageError(format!("the header `{name}` would store its credential in the database; {help}")));
        }
        if read.insert(name.to_ascii_lowercase(), value.to_owned()).is_some() {
            return Err(UsageError(format!("the header `{name}` is given twice")));
        }
    }
    Ok(read)
}
