//! `gatelodge serve`: a gateway by a configuration.

use anyhow::{Context, Result};

use crate::cli::ServeArgs;
use crate::config::{self, Loaded};
use crate::exit::Exit;
use crate::wire::{self, Plan};
use crate::{environment, output, report};

pub fn run(args: ServeArgs) -> Result<Exit> {
    let Loaded { config, findings, .. } = config::load(&args.config, &environment::variable)?;
    if args.check && args.json {
        output::json(&findings.told())?;
    } else {
        findings.print();
    }
    let Some(config) = config else {
        let errors = findings.errors();
        let what = if errors == 1 { "1 error".to_owned() } else { format!("{errors} errors") };
        report::say(&format!("{}: {what}; nothing was started", report::shown(&args.config.display().to_string())));
        return Ok(Exit::Findings);
    };
    if args.check {
        return Ok(Exit::Fine);
    }
    wire::start_log(&args.log)?;
    let clock = wire::system_clock();
    let stores = wire::open(&config.store, &clock).context("cannot open the data directory")?;
    let file = Some((args.config, config.files));
    let plan = Plan { listen: config.listen, store: config.store, entries: config.entries, file };
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(wire::run(plan, stores, clock, |_| ()))?;
    Ok(Exit::Fine)
}
