//! `server add`: stores a server and its headers. Headers refer to environment variables for secrets, which are not
//! stored.

use anyhow::Result;
use gatelodge_admin::{NewServer, NewServerError};
use gatelodge_server::process_environment;

use crate::cli::AddServerArgs;
use crate::diagnostic_report::print_stderr;
use crate::exit_code::{CommandExitCode, UsageError};
use crate::stdout_output;
use crate::store_command_context::{self, StoreCreationMode};

pub fn run(args: AddServerArgs) -> Result<CommandExitCode> {
    let server = read_server(&args)?;
    store_command_context::with_store(&args.store, StoreCreationMode::CreateIfMissing, async |ctx| {
        let name = server.name();
        ctx.administration().add_server(&server).await.map_err(super::change_server_error)?;
        if args.json {
            let servers = super::all_servers(&ctx).await?;
            stdout_output::print_json(&super::require_server(servers, name.as_str())?)?;
        }
        print_stderr(&format!("added server `{name}`; a running gateway serves it at /mcp/{name} within a second"));
        for variable in server.unset_variables(&process_environment::find_variable) {
            print_stderr(&format!("warning: `{variable}` is not set here; the gateway needs it where it starts"));
        }
        if server.sends_headers_in_clear_text() {
            print_stderr("warning: the headers are sent to this server unencrypted; use `https://`");
        }
        print_stderr(&format!("next: gatelodge grant create LABEL --server {name} --policy NAME"));
        Ok(CommandExitCode::Success)
    })
}

fn read_server(args: &AddServerArgs) -> Result<NewServer, UsageError> {
    let usage_error = |error: NewServerError| UsageError(error.to_string());
    let mut server = NewServer::new(super::parse_server_name(&args.name)?, &args.url).map_err(usage_error)?;
    for header in &args.headers {
        // The error does not repeat the text, which may be a secret.
        let (name, value) =
            header.split_once(':').ok_or_else(|| UsageError("write a header as 'Name: value'".to_owned()))?;
        server.add_header(name.trim(), value.trim()).map_err(usage_error)?;
    }
    server.log_arguments = args.log_arguments;
    server.review = args.review;
    server.accept_new = args.accept_new;
    Ok(server)
}
