//! Logging to standard error, as text or JSON.

use std::io::IsTerminal;

use clap::{Args, ValueEnum};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, fmt};

use crate::exit_code::UsageError;

/// Logging options of a running gateway.
#[derive(Debug, Clone, Args)]
pub struct LoggingArgs {
    /// Format of the log on standard error.
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    log: LoggingFormat,
    /// Which messages to log: a level (error, warn, info, debug, trace), or levels per module, as in
    /// `info,gatelodge_gateway=debug`.
    #[arg(long, value_name = "FILTER", default_value = "info")]
    log_level: String,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum LoggingFormat {
    /// Text for people
    Text,
    /// One JSON object per line
    Json,
}

/// Installs the log subscriber.
pub fn start_logging(args: &LoggingArgs) -> Result<(), UsageError> {
    let filter = parse_filter(&args.log_level).ok_or_else(|| {
        let help = "write `info`, or `info,gatelodge_gateway=debug`";
        UsageError(format!("`{}` is not a log level or a list of levels; {help}", args.log_level))
    })?;
    let layer = match args.log {
        LoggingFormat::Json => fmt::layer().json().flatten_event(true).with_writer(std::io::stderr).boxed(),
        LoggingFormat::Text => {
            let is_terminal = std::io::stderr().is_terminal();
            fmt::layer().with_target(false).with_ansi(is_terminal).with_writer(std::io::stderr).boxed()
        }
    };
    // An error means that a subscriber is installed already, which happens only in tests.
    let _ = tracing_subscriber::registry().with(layer.with_filter(filter)).try_init();
    Ok(())
}

/// Parses a log filter, in which a part without `=` must be a level. `Targets` would interpret any other word as a
/// module name and log everything from that module, so a misspelt level would log too much.
fn parse_filter(text: &str) -> Option<Targets> {
    let is_level = |word: &str| word.parse::<LevelFilter>().is_ok();
    let is_valid = text.split(',').all(|part| part.contains('=') || is_level(part));
    text.parse().ok().filter(|_| is_valid)
}
