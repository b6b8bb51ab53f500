//! Builds and connects the parts of a running gateway: configuration, clock, stores and the gateway itself.
//!
//! Programs read their arguments, print, and choose an exit code; everything between is here, so that the command line is
//! only one of several front ends. [`run_gateway()`] starts a gateway and serves until it is stopped; [`run_stdio_gateway`]
//! serves one client on standard input and output. The configuration file and the store together make the
//! [`EffectiveConfig`].

pub mod config;
pub mod header_expansion;
pub mod input_file;
pub mod open_file_limit;
pub mod process_environment;
pub mod process_supervisor;

mod config_reload;
mod count_noun;
mod document_diagnostic;
mod effective_config;
mod gateway_status_file;
mod grant_call_history;
mod housekeeping;
mod open_store;
mod otel_settings;
mod policy_cache;
mod run_gateway;
mod stdio_gateway;
mod system_clock;
mod tool_drift;

pub use count_noun::count_noun;
pub use document_diagnostic::{DiagnosticJson, DiagnosticRef};
pub use effective_config::{
    EffectiveConfig, StoredConfig, expired_grants, load_stored_config, merge_config, missing_server_text,
};
pub use gateway_status_file::{GatewayStatusFile, find_running_gateway, find_status_file};
pub use grant_call_history::{CallHistoryQuery, GrantCallHistory, ServerCallHistory, collect_call_history};
pub use open_store::{has_store, open_existing_store, open_store};
pub use policy_cache::{CheckedPolicy, PolicyCache};
pub use run_gateway::{GatewayConfigFile, GatewayStartup, RunGatewayError, run_gateway};
pub use stdio_gateway::{RunStdioGatewayError, StdioGateway, run_stdio_gateway, wait_for_stop_signal};
pub use system_clock::system_clock;
pub use tool_drift::{DriftKind, LapsedOverride, ToolAccessGrant, ToolDrift, find_drifts};
