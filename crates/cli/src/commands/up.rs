//! `gatelodge up`: everything needed to see a call allowed, one refused and one stopped by a limit.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, Result};
use gatelodge_store::{
    EnforcementMode, GrantAttachment, GrantToken, NewGrant, PolicyVersion, StoreError, StoredPolicy,
};
use serde_json::json;

use crate::admin_context::{self, AdminContext};
use crate::app::{self, GatewayStartup};
use crate::cli::UpArgs;
use crate::config::{self, ConfigEntries, GatewaySection, StoreSection};
use crate::demo_server::{self, DemoServer};
use crate::exit_code::{CommandExitCode, UsageError};
use crate::{process_environment, stdout_output};

pub fn run(args: UpArgs) -> Result<CommandExitCode> {
    for (flag, address) in [("--listen", args.listen), ("--admin", args.admin)] {
        if !address.ip().is_loopback() {
            let what = format!("others can reach {address}, and `up` is for this machine alone");
            let help = "`gatelodge serve` with `hosts` in its configuration is for others";
            let port = address.port();
            return Err(UsageError(format!("{what}; say `{flag} 127.0.0.1:{port}`; {help}")).into());
        }
    }
    app::start_log(&args.log)?;
    let usual = || config::default_data_directory().map(|data| data.with_file_name("gatelodge-demo"));
    let data = args
        .data
        .or_else(usual)
        .ok_or_else(|| UsageError("there is no home directory to keep data in; name one with `--data`".to_owned()))?;
    let clock = app::system_clock();
    // What is printed below is pasted elsewhere.
    let store = StoreSection::in_directory(std::path::absolute(data)?);
    let stores = app::open(&store, &clock).map_err(admin_context::open_store_error)?;
    let desk = AdminContext { stores, clock, store_config: store, config: None };
    let listen = GatewaySection { listen: args.listen, admin_listen: args.admin, ..GatewaySection::default() };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    runtime.block_on(async {
        let demo = DemoServer::bind().await?;
        let entries = ConfigEntries { servers: vec![demo.upstream_config()?], ..ConfigEntries::default() };
        ensure_policy(&desk).await.context("cannot keep the policy")?;
        let token = renew_grant(&desk).await.context("cannot make the grant")?;
        let plan = GatewayStartup { gateway: listen, store: desk.store_config.clone(), entries, file: None };
        let ready = |address| print_instructions(address, &token, &desk.store_config);
        let serving = app::run_gateway(plan, desk.stores.clone(), Arc::clone(&desk.clock), ready);
        tokio::select! {
            ended = serving => ended,
            () = demo.serve() => Ok(()),
        }
    })?;
    Ok(CommandExitCode::Success)
}

/// Puts the policy where it is not yet; whoever changed it since keeps the change.
async fn ensure_policy(desk: &AdminContext) -> Result<()> {
    let name = demo_server::DEMO_NAME.parse()?;
    match desk.stores.policies.get(&name, None).await {
        Ok(_) => Ok(()),
        Err(StoreError::NotFound(_)) => {
            let policy = StoredPolicy {
                name,
                version: PolicyVersion(0),
                text: demo_server::DEMO_POLICY.to_owned(),
                is_yaml: false,
                restores: None,
                created_at: desk.clock.now(),
                created_by: process_environment::current_user(),
            };
            desk.stores
                .policies
                .put(policy, desk.admin_log_entry("policy.put", demo_server::DEMO_NAME, json!({})))
                .await?;
            Ok(())
        }
        Err(fault) => Err(fault.into()),
    }
}

/// Gives the grant a new token; it stays the same grant, so what it has used stays used.
async fn renew_grant(desk: &AdminContext) -> Result<GrantToken> {
    let token = GrantToken::random()?;
    let (server, policy) = (demo_server::DEMO_NAME.parse()?, Some(demo_server::DEMO_NAME.parse()?));
    match desk.stores.grants.get(demo_server::DEMO_NAME).await {
        Ok(grant) => {
            let entry = desk.admin_log_entry("grant.rotate", demo_server::DEMO_NAME, json!({"id": grant.id}));
            desk.stores.grants.rotate(&grant.id, token.hash(), None, entry).await?;
        }
        Err(StoreError::NotFound(_)) => {
            let grant = NewGrant {
                label: demo_server::DEMO_NAME.to_owned(),
                labels: Default::default(),
                token: token.hash(),
                attachments: vec![GrantAttachment { server, policy, mode: EnforcementMode::Enforce }],
                created_at: desk.clock.now(),
                expires_at: None,
                minimum_revision: None,
            };
            desk.stores
                .grants
                .create(grant, desk.admin_log_entry("grant.create", demo_server::DEMO_NAME, json!({})))
                .await?;
        }
        Err(fault) => return Err(fault.into()),
    }
    Ok(token)
}

fn print_instructions(address: SocketAddr, token: &GrantToken, store: &StoreSection) {
    let (program, token) = (process_environment::own_program_command(), token.reveal());
    let url = format!("http://{address}/mcp/{}", demo_server::DEMO_NAME);
    let data = process_environment::quote_for_shell(&store.data.display().to_string());
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

  # limited: 100 a day, so the third 40 finds no room
  {program} call --times 3 {url} send_payment '{{"to": "ada", "amount": 40}}'

Claude Code:

  claude mcp add --transport http gatelodge-demo {url} --header "Authorization: Bearer {token}"

What happened, and why:

  {program} calls --data {data}

Stop with Ctrl-C.
"#
    );
    // Nobody listening is no reason not to serve.
    let _ = stdout_output::print(&text);
}
