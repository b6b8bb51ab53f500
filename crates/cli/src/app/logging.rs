//! Where log lines go: standard error, as text for people or as JSON for programs.

use std::io::IsTerminal;

use clap::{Args, ValueEnum};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, fmt};

use crate::exit_code::UsageError;

/// How a running gateway logs.
#[derive(Debug, Clone, Args)]
pub struct LogArgs {
    /// How log lines are written to standard error.
    #[arg(long, value_name = "FORM", default_value = "text")]
    log: LogFormat,
    /// Which lines: a level (error, warn, info, debug, trace), or levels by module: `info,gatelodge_gateway=debug`.
    #[arg(long, value_name = "FILTER", default_value = "info")]
    log_level: String,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Starts logging.
pub fn start_logging(args: &LogArgs) -> Result<(), UsageError> {
    let filter = parse_filter(&args.log_level).ok_or_else(|| {
        let help = "write `info`, or `info,gatelodge_gateway=debug`";
        UsageError(format!("`{}` is not a level or a list of them; {help}", args.log_level))
    })?;
    let layer = match args.log {
        LogFormat::Json => fmt::layer().json().flatten_event(true).with_writer(std::io::stderr).boxed(),
        LogFormat::Text => {
            let is_terminal = std::io::stderr().is_terminal();
            fmt::layer().with_target(false).with_ansi(is_terminal).with_writer(std::io::stderr).boxed()
        }
    };
    // An error means that somebody has set one up already, which only tests do.
    let _ = tracing_subscriber::registry().with(layer.with_filter(filter)).try_init();
    Ok(())
}

/// A word alone must be a level: else it would name a module, and a misspelt level would log everything.
fn parse_filter(text: &str) -> Option<Targets> {
    let is_level = |word: &str| word.parse::<LevelFilter>().is_ok();
    let is_good = text.split(',').all(|part| part.contains('=') || is_level(part));
    text.parse().ok().filter(|_| is_good)
}
