//! `gatelodge up`: starts a gateway with a demo server, so that users can try out an allowed call, a refused call and a
//! call that exceeds a limit.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, Result};
use gatelodge_server::config::{self, ConfigFileEntries, GatewaySection, StoreSection};
use gatelodge_server::{GatewayStartup, RunGatewayError, process_environment};
use gatelodge_store::{
    EnforcementMode, GrantServerAttachment, GrantToken, NewGrant, PolicyVersionNumber, StoreError, StoredPolicy,
};
use serde_json::json;

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
    let stores = gatelodge_server::open_store(&store, &clock).map_err(store_command_context::open_store_error)?;
    let ctx = StoreCommandContext { stores, clock, store_config: store, config: None };
    let listen = GatewaySection { listen: args.listen, admin_listen: args.admin, ..GatewaySection::default() };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    runtime.block_on(async {
        let demo = DemoServer::bind().await?;
        let entries = ConfigFileEntries { servers: vec![demo.upstream_config()?], ..ConfigFileEntries::default() };
        ensure_policy(&ctx).await.context("cannot store the policy")?;
        let token = renew_grant(&ctx).await.context("cannot create the grant")?;
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
async fn ensure_policy(ctx: &StoreCommandContext) -> Result<()> {
    let name = demo_server::DEMO_NAME.parse()?;
    match ctx.stores.policies.get(&name, None).await {
        Ok(_) => Ok(()),
        Err(StoreError::NotFound(_)) => {
            let policy = StoredPolicy {
                name,
                version: PolicyVersionNumber(0),
                text: demo_server::DEMO_POLICY.to_owned(),
                is_yaml: false,
                restores: None,
                created_at: ctx.clock.now(),
                created_by: process_environment::current_user(),
            };
            ctx.stores
                .policies
                .put(policy, ctx.admin_log_entry("policy.put", demo_server::DEMO_NAME, json!({})))
                .await?;
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}

/// Creates the demo grant or, if it exists, gives it a new token. An existing grant keeps its counters.
async fn renew_grant(ctx: &StoreCommandContext) -> Result<GrantToken> {
    let token = GrantToken::random()?;
    let (server, policy) = (demo_server::DEMO_NAME.parse()?, Some(demo_server::DEMO_NAME.parse()?));
    match ctx.stores.grants.get(demo_server::DEMO_NAME).await {
        Ok(grant) => {
            let entry = ctx.admin_log_entry("grant.rotate", demo_server::DEMO_NAME, json!({"id": grant.id}));
            ctx.stores.grants.rotate(&grant.id, token.hash(), None, entry).await?;
        }
        Err(StoreError::NotFound(_)) => {
            let grant = NewGrant {
                label: demo_server::DEMO_NAME.to_owned(),
                labels: Default::default(),
                token: token.hash(),
                attachments: vec![GrantServerAttachment { server, policy, mode: EnforcementMode::Enforce }],
                created_at: ctx.clock.now(),
                expires_at: None,
                minimum_revision: None,
            };
            ctx.stores
                .grants
                .create(grant, ctx.admin_log_entry("grant.create", demo_server::DEMO_NAME, json!({})))
                .await?;
        }
        Err(error) => return Err(error.into()),
    }
    Ok(token)
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
