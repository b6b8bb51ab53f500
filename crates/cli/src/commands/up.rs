//! `gatelodge up`: starts a gateway with a demo server, so that users can try out an allowed call, a refused call and a
//! call that exceeds a limit.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, Result};
use gatelodge_admin::{Administration, ChangeGrantError, GrantRequest, NewPolicyVersion};
use gatelodge_policy::DocumentFormat;
use gatelodge_server::config::{self, ConfigFileEntries, GatewaySection, StoreSection};
use gatelodge_server::{GatewayStartup, RunGatewayError};
use gatelodge_store::{EnforcementMode, GrantServerAttachment, GrantToken, PolicyName, StoreError};

use super::grant::change_grant_error;
use super::policy::put_policy::put_policy_error;
use crate::cli::UpArgs;
use crate::demo_server::{self, DemoServer};
use crate::exit_code::{CommandExitCode, UsageError};
use crate::store_command_context::{self, StoreCommandContext};
use crate::{logging, own_program, stdout_output};

pub fn run(args: UpArgs) -> Result<CommandExitCode> {
    for (flag, address) in [("--listen", args.listen), ("--admin", args.admin)] {
        if !address.ip().is_loopback() {
            let what = format!("other machines can reach {address}, and `up` is for this machine only");
            let help = "to serve other machines, use `gatelodge serve` with `hosts` in its configuration";
            let port = address.port();
            return Err(UsageError(format!("{what}; use `{flag} 127.0.0.1:{port}`; {help}")).into());
        }
    }
    logging::start_logging(&args.log)?;
    let default = || config::default_data_directory().map(|data| data.with_file_name("gatelodge-demo"));
    let data = args.data.or_else(default).ok_or_else(|| {
        UsageError("there is no home directory for the data; name a directory with `--data`".to_owned())
    })?;
    let clock = gatelodge_server::system_clock();
    // Absolute, because the printed commands are pasted into other shells.
    let store = StoreSection::in_directory(std::path::absolute(data)?);
    let listen = GatewaySection { listen: args.listen, admin_listen: args.admin, ..GatewaySection::default() };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    runtime.block_on(async {
        let stores = gatelodge_server::open_store(&store, &clock).await;
        let stores = stores.map_err(store_command_context::open_store_error)?;
        let ctx = StoreCommandContext { stores, clock, store_config: store, config: None };
        let demo = DemoServer::bind().await?;
        let entries = ConfigFileEntries { servers: vec![demo.upstream_config()?], ..ConfigFileEntries::default() };
        let administration = ctx.administration();
        ensure_policy(&administration).await.context("cannot store the policy")?;
        let token = renew_grant(&administration).await.context("cannot create the grant")?;
        let plan = GatewayStartup { gateway: listen, store: ctx.store_config.clone(), entries, file: None };
        let ready = |address| print_instructions(address, &token, &ctx.store_config);
        let serving = gatelodge_server::run_gateway(plan, ctx.stores.clone(), Arc::clone(&ctx.clock), ready);
        tokio::select! {
            ended = serving => ended.map_err(explain_bind_error),
            () = demo.serve() => Ok(()),
        }
    })?;
    Ok(CommandExitCode::Success)
}

/// Names the option that sets the address: `up` has no configuration file.
fn explain_bind_error(error: RunGatewayError) -> anyhow::Error {
    let RunGatewayError::Bind { address, section, source } = error else { return error.into() };
    let option = if section == "[admin]" { "--admin" } else { "--listen" };
    let port = "port 0 takes any free port";
    anyhow::Error::from(source).context(format!("cannot listen on {address} (use `{option} 127.0.0.1:0`: {port})"))
}

/// Stores the demo policy unless it already exists, so that the user's changes to it are kept.
async fn ensure_policy(administration: &Administration) -> Result<()> {
    let name: PolicyName = demo_server::DEMO_NAME.parse()?;
    match administration.stores.policies.get(&name, None).await {
        Ok(_) => Ok(()),
        Err(StoreError::NotFound(_)) => {
            let (text, format) = (demo_server::DEMO_POLICY.to_owned(), DocumentFormat::Json);
            let new_version = NewPolicyVersion { name, text, format, restores: None };
            administration.put_policy(new_version, "policy.put").await.map_err(put_policy_error)?;
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}

/// Creates the demo grant or, if it exists, gives it a new token. An existing grant keeps its counters.
async fn renew_grant(administration: &Administration) -> Result<GrantToken> {
    match administration.find_editable_grant(demo_server::DEMO_NAME).await {
        Ok(grant) => administration.rotate_grant(&grant, None).await.map_err(change_grant_error),
        Err(ChangeGrantError::Store(StoreError::NotFound(_)) | ChangeGrantError::Revoked { .. }) => {
            // The server is not in the store: only this process serves it.
            let (server, policy) = (demo_server::DEMO_NAME.parse()?, Some(demo_server::DEMO_NAME.parse()?));
            let request = GrantRequest {
                label: demo_server::DEMO_NAME.to_owned(),
                labels: BTreeMap::new(),
                attachments: vec![GrantServerAttachment { server, policy, mode: EnforcementMode::Enforce }],
                expires_at: None,
                minimum_revision: None,
            };
            let created = administration.create_grant(request).await.map_err(change_grant_error)?;
            Ok(created.token)
        }
        Err(error) => Err(change_grant_error(error)),
    }
}

fn print_instructions(address: SocketAddr, token: &GrantToken, store: &StoreSection) {
    let (program, token) = (own_program::own_program_command(), token.reveal());
    let url = format!("http://{address}/mcp/{}", demo_server::DEMO_NAME);
    let data = gatelodge_clients::quote_for_shell(&store.data.display().to_string());
    let text = format!(
        r#"Gatelodge is up.

  URL    {url}
  token  {token}

Paste into another terminal:

  export GATELODGE_TOKEN={token}

  # allowed
  {program} call {url} read_note '{{"name": "plans"}}'

  # refused
  {program} call {url} delete_note '{{"name": "plans"}}'

  # limited: 100 a day, so the third payment of 40 is refused
  {program} call --times 3 {url} send_payment '{{"to": "ada", "amount": 40}}'

Claude Code:

  claude mcp add --transport http gatelodge-demo {url} --header "Authorization: Bearer {token}"

What happened, and why:

  {program} calls --data {data}

Stop with Ctrl-C.
"#
    );
    // A closed standard output must not stop the gateway.
    let _ = stdout_output::print(&text);
}
