//! `gatelodge up`: everything needed to see a call allowed, one refused and one stopped by a limit.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, Result};
use gatelodge_store::{Attachment, Clock, Mode, NewGrant, PolicyVersion, StoreError, StoredPolicy, Token};

use crate::cli::UpArgs;
use crate::config::{self, Entries, Listen, StoreConfig};
use crate::demo::{self, Demo};
use crate::exit::{Exit, Usage};
use crate::wire::{self, Plan, Stores};
use crate::{environment, output};

pub fn run(args: UpArgs) -> Result<Exit> {
    wire::start_log(&args.log)?;
    let usual = || config::default_data().map(|data| data.with_file_name("gatelodge-demo"));
    let data = args
        .data
        .or_else(usual)
        .ok_or_else(|| Usage("there is no home directory to keep data in; name one with `--data`".to_owned()))?;
    let clock = wire::system_clock();
    let store = StoreConfig::at(data);
    let stores = wire::open(&store, &clock).context("cannot open the data directory")?;
    let listen = Listen { callers: args.listen, admin: args.admin, ..Listen::default() };
    tokio::runtime::Runtime::new()?.block_on(async {
        let demo = Demo::bind().await?;
        let entries = Entries { servers: vec![demo.upstream()?], ..Entries::default() };
        put_policy(&stores, clock.as_ref()).await.context("cannot keep the policy")?;
        let token = put_grant(&stores, clock.as_ref()).await.context("cannot make the grant")?;
        let plan = Plan { listen, store: store.clone(), entries, file: None };
        let serving = wire::run(plan, stores, Arc::clone(&clock), |address| tell(address, &token, &store));
        tokio::select! {
            ended = serving => ended,
            () = demo.serve() => Ok(()),
        }
    })?;
    Ok(Exit::Fine)
}

/// Puts the policy where it is not yet; whoever changed it since keeps the change.
async fn put_policy(stores: &Stores, clock: &dyn Clock) -> Result<()> {
    let name = demo::NAME.parse()?;
    match stores.policies.get(&name, None).await {
        Ok(_) => Ok(()),
        Err(StoreError::NotFound(_)) => {
            let policy = StoredPolicy {
                name,
                version: PolicyVersion(0),
                text: demo::POLICY.to_owned(),
                is_yaml: false,
                restores: None,
                created_at: clock.now(),
                created_by: environment::user(),
            };
            stores.policies.put(policy).await?;
            Ok(())
        }
        Err(fault) => Err(fault.into()),
    }
}

/// Gives the grant a new token; it stays the same grant, so what it has used stays used.
async fn put_grant(stores: &Stores, clock: &dyn Clock) -> Result<Token> {
    let token = Token::random()?;
    let (server, policy) = (demo::NAME.parse()?, Some(demo::NAME.parse()?));
    match stores.grants.get(demo::NAME).await {
        Ok(grant) => stores.grants.rotate(&grant.id, token.hash(), None).await?,
        Err(StoreError::NotFound(_)) => {
            let grant = NewGrant {
                label: demo::NAME.to_owned(),
                labels: Default::default(),
                token: token.hash(),
                attachments: vec![Attachment { server, policy, mode: Mode::Enforce }],
                created_at: clock.now(),
                expires_at: None,
            };
            stores.grants.create(grant).await?;
        }
        Err(fault) => return Err(fault.into()),
    }
    Ok(token)
}

fn tell(address: SocketAddr, token: &Token, store: &StoreConfig) {
    let (program, token) = (environment::program(), token.reveal());
    let url = format!("http://{address}/mcp/{}", demo::NAME);
    let data = environment::quoted(&store.data.display().to_string());
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
    let _ = output::print(&text);
}
