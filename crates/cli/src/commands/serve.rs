//! `gatelodge serve`: runs the gateway with a configuration file.

use anyhow::Result;
use gatelodge_server::config::{self, ConfigFileEntries, LoadedConfig};
use gatelodge_server::{GatewayConfigFile, GatewayStartup, PolicyCache, process_environment};

use crate::cli::ServeArgs;
use crate::commands::time_text::local_time;
use crate::exit_code::{CommandExitCode, UsageError};
use crate::{diagnostic_report, logging, stdout_output, store_command_context};

pub fn run(args: ServeArgs) -> Result<CommandExitCode> {
    let path = args.config.ok_or_else(|| {
        UsageError("name the configuration with `--config gatelodge.toml`, or set `GATELODGE_CONFIG`".to_owned())
    })?;
    let shown = diagnostic_report::escape_for_terminal(&path.display().to_string());
    let mut policies = PolicyCache::default();
    let LoadedConfig { config, diagnostics, .. } =
        config::load_config_file(&path, &process_environment::find_variable, &mut policies)?;
    if args.check && args.json {
        stdout_output::print_json(&diagnostics.to_json_diagnostics())?;
    } else {
        diagnostic_report::print_config_diagnostics(&diagnostics);
    }
    let Some(config) = config else {
        let errors = diagnostics.error_count();
        let what = if errors == 1 { "1 error".to_owned() } else { format!("{errors} errors") };
        diagnostic_report::print_stderr(&format!("{shown}: {what}; nothing was started"));
        return Ok(CommandExitCode::Findings);
    };
    if args.check {
        for (label, end) in
            gatelodge_server::expired_grants(&config.entries.grants, gatelodge_server::system_clock().now())
        {
            diagnostic_report::print_stderr(&format!(
                "warning: grant `{}` expired at {}: its token is refused",
                diagnostic_report::escape_for_terminal(label),
                local_time(end)
            ));
        }
        let ConfigFileEntries { servers, policies, grants } = &config.entries;
        let counts = [(servers.len(), "server"), (policies.len(), "policy"), (grants.len(), "grant")];
        let counts = counts.map(|(count, noun)| diagnostic_report::count_noun(count, noun)).join(", ");
        let warnings = match diagnostics.warning_count() {
            0 => String::new(),
            count => format!(", {}", diagnostic_report::count_noun(count, "warning")),
        };
        diagnostic_report::print_stderr(&format!("{shown}: no errors{warnings}; {counts}"));
        return Ok(CommandExitCode::Success);
    }
    logging::start_logging(&args.log)?;
    let clock = gatelodge_server::system_clock();
    let file = Some(GatewayConfigFile { path, files: config.files, policies });
    let plan = GatewayStartup { gateway: config.gateway, store: config.store, entries: config.entries, file };
    // Connections are served by the workers' own threads; this runtime is for the rest.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    runtime.block_on(async {
        let stores = gatelodge_server::open_store(&plan.store, &clock).await;
        let stores = stores.map_err(store_command_context::open_store_error)?;
        anyhow::Ok(gatelodge_server::run_gateway(plan, stores, clock, |_| ()).await?)
    })?;
    Ok(CommandExitCode::Success)
}
