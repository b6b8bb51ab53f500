//! `gatelodge bridge`: a way to a gateway for clients that speak over their standard streams.
//!
//! It is a gateway of its own that allows everything and keeps nothing: the rules are at the other end.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use gatelodge_gateway::{Accepting, Door, HttpConfig, LivePolicy, UpstreamConfig, Way};
use gatelodge_policy::{Format, parse};
use gatelodge_store::{Ledger, MemoryStore, Mode, PolicyVersion};

use crate::cli::BridgeArgs;
use crate::exit::{Exit, Usage};
use crate::wire::{self, Local};
use crate::{address, environment, headers};

const NAME: &str = "gateway";
const ALL: &str =
    r#"{"version":"1","default":"allow","client_requests":{"sampling":"allow","roots":"allow","elicitation":"allow"}}"#;
/// What was done is written down at the gateway; here it goes after this long.
const KEPT: Duration = Duration::from_secs(60);

pub fn run(args: BridgeArgs) -> Result<Exit> {
    wire::start_log(&args.log)?;
    let url = address::parse(&args.url).map_err(|fault| Usage(format!("{}; {}", fault.message(), fault.help())))?;
    if environment::variable(&args.token_env).is_none_or(|token| token.is_empty()) {
        let variable = crate::report::shown(&args.token_env);
        return Err(Usage(format!("the variable `{variable}` is not set; it must hold the token of a grant")).into());
    }
    let bearer = format!("Bearer ${{{}}}", args.token_env);
    let token = headers::expand("authorization", &bearer, &environment::variable)
        .map_err(|fault| Usage(format!("{}; {}", fault.message("authorization"), fault.help())))?;
    let policy = parse(ALL.as_bytes(), Format::Json).map_err(|_| anyhow::anyhow!("the built-in policy is broken"))?;
    let policy = LivePolicy { name: NAME.parse()?, version: PolicyVersion(0), policy };
    let door = Door { policy: Some(Arc::new(policy)), mode: Mode::Observe };
    // What is withheld is withheld there; in observe mode nothing is here.
    let accepting = Accepting::default();
    let way = Way::Http(HttpConfig { url, headers: vec![token] });
    let server = UpstreamConfig { name: NAME.parse()?, way, log_arguments: false, accepting };
    let clock = wire::system_clock();
    let ledger = Arc::new(MemoryStore::new(Arc::clone(&clock)));
    let local = Local {
        ledger: ledger.clone(),
        pins: ledger.clone(),
        clock: Arc::clone(&clock),
        server,
        door,
        label: NAME.to_owned(),
    };
    wire::run_local(local, async {
        loop {
            tokio::time::sleep(KEPT).await;
            if let Ok(before) = clock.now().checked_sub(KEPT) {
                let _ = ledger.prune(before).await;
            }
        }
    })?;
    Ok(Exit::Fine)
}
