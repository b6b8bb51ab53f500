//! `gatelodge wrap`: runs one local server behind a policy, over stdio.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use data_encoding::HEXLOWER;
use gatelodge_admin::header_template;
use gatelodge_gateway::{
    ActivePolicy, GrantServerAccess, PinningSettings, UpstreamConfig, UpstreamProcessConfig, UpstreamTransport,
};
use gatelodge_policy::Policy;
use gatelodge_server::{StdioGateway, process_environment};
use gatelodge_store::{EnforcementMode, PolicyName, PolicyVersionNumber, ServerName};
use sha2::{Digest, Sha256};

use super::policy::file_diagnostics::FileDiagnostics;
use crate::cli::WrapArgs;
use crate::exit_code::{CommandExitCode, UsageError};
use crate::{logging, store_command_context};

/// Prefix of the environment variables that are not passed on to the server.
const OWN_VARIABLE_PREFIX: &str = "GATELODGE_";
/// Programs that only start another program and therefore do not identify the server.
const LAUNCHERS: [&str; 12] =
    ["npx", "uvx", "uv", "run", "exec", "node", "python", "bunx", "bun", "pnpm", "deno", "docker"];
/// Maximum length of a server name that is derived from a command, not counting the hash at its end.
const MAX_NAME_STEM_CHARS: usize = 40;
/// How long the server has to exit on shutdown. This is short because clients do not wait long for a server to exit.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(1);

pub fn run(args: WrapArgs) -> Result<CommandExitCode> {
    let mut diagnostics = FileDiagnostics::default();
    let policy = diagnostics.read(&args.policy).and_then(|source| diagnostics.load(&source, None));
    let Some(policy) = policy else {
        diagnostics.print(false)?;
        return Ok(diagnostics.exit_code());
    };
    let server = server_from_command(&args.command, args.name.as_deref())?;
    refuse_missing_program(&args.command)?;
    logging::start_logging(&args.log)?;
    let Ok(config) = store_command_context::load_config(&args.store)? else {
        return Err(store_command_context::invalid_config_error());
    };
    let store_config = store_command_context::resolve_store_config(&args.store, config.as_ref())?;
    let clock = gatelodge_server::system_clock();
    let mode = if args.observe { EnforcementMode::Observe } else { EnforcementMode::Enforce };
    let access = GrantServerAccess { policy: Some(Arc::new(active_policy(&args.policy, policy)?)), mode };
    // A clone, so that the store is closed here, after the gateway: closing it writes the queued rows.
    let mut opened = None;
    let prepare = async {
        let store = gatelodge_server::open_store(&store_config, &clock).await;
        let store = opened.insert(store.map_err(store_command_context::open_store_error)?).clone();
        anyhow::Ok(StdioGateway { store, clock, server, server_access: access, client_label: args.label })
    };
    gatelodge_server::run_stdio_gateway(prepare, std::future::pending())?;
    Ok(CommandExitCode::Success)
}

/// Returns an error if the program does not exist. Without this check, the client would only see that the server is
/// unreachable.
pub fn refuse_missing_program(command: &[String]) -> Result<(), UsageError> {
    let Some(program) = command.first() else { return Ok(()) };
    process_environment::find_program_problem(program, Path::new("")).map_or(Ok(()), |why| Err(UsageError(why)))
}

fn active_policy(path: &Path, policy: Policy) -> Result<ActivePolicy> {
    let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let name: PolicyName =
        normalize_name(&stem).parse().map_err(|error| UsageError(format!("the file name of the policy: {error}")))?;
    Ok(ActivePolicy { name, version: PolicyVersionNumber(0), policy })
}

/// Returns the configuration of a server that runs `command`. If no name is given, one is derived from the command.
pub fn server_from_command(command: &[String], name: Option<&str>) -> Result<UpstreamConfig> {
    let Some((program, arguments)) = command.split_first() else {
        return Err(UsageError("write the server's command after `--`".to_owned()).into());
    };
    let name = name.map_or_else(|| default_name(command), str::to_owned);
    let name: ServerName = name.parse().map_err(|error| {
        UsageError(format!(
            "`{}` is not a server name: {error}; give one with `--name`",
            crate::diagnostic_report::escape_for_terminal(&name)
        ))
    })?;
    let environment = process_environment::variables_without_prefix(OWN_VARIABLE_PREFIX);
    let secrets = environment.iter().filter(|(name, _)| header_template::is_secret_variable(name));
    let child = UpstreamProcessConfig {
        program: program.clone(),
        arguments: arguments.to_vec(),
        secrets: secrets.map(|(_, value)| value.clone()).collect(),
        env: environment,
        directory: None,
        grace: SHUTDOWN_GRACE,
    };
    Ok(UpstreamConfig {
        name,
        transport: UpstreamTransport::Process(child),
        log_arguments: false,
        pinning: PinningSettings::default(),
    })
}

/// Derives a server name from a command: the program, followed by a few digits of a hash of the whole command. The hash
/// keeps similar commands from sharing pinned tool definitions.
fn default_name(command: &[String]) -> String {
    let is_launcher = |word: &str| LAUNCHERS.iter().any(|launcher| word.starts_with(launcher));
    let stem = |word: &String| {
        Path::new(word).file_stem().map(|stem| normalize_name(&stem.to_string_lossy())).unwrap_or_default()
    };
    let words = command.iter().filter(|word| !word.starts_with('-')).map(stem).filter(|word| !word.is_empty());
    let mut words = words.skip_while(|word| is_launcher(word));
    let name: String = words.next().unwrap_or_else(|| "server".to_owned()).chars().take(MAX_NAME_STEM_CHARS).collect();
    let digits = HEXLOWER.encode(&Sha256::digest(command.join("\0").as_bytes()));
    format!("{}-{}", name.trim_matches('-'), digits.get(..6).unwrap_or_default())
}

/// Converts a name to lower case and replaces all characters other than letters and digits with `-`.
fn normalize_name(text: &str) -> String {
    let plain = |character: char| if character.is_ascii_alphanumeric() { character.to_ascii_lowercase() } else { '-' };
    text.chars().map(plain).collect::<String>().trim_matches('-').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_with_the_same_launcher_get_different_names() {
        let name = |line: &str| default_name(&line.split(' ').map(str::to_owned).collect::<Vec<_>>());
        let files = name("npx -y @modelcontextprotocol/server-filesystem /srv");
        assert!(files.starts_with("server-filesystem-") && files.parse::<ServerName>().is_ok(), "{files}");
        assert_ne!(files, name("npx -y @modelcontextprotocol/server-filesystem /home"));
        assert_eq!(files, name("npx -y @modelcontextprotocol/server-filesystem /srv"));
        assert!(name("uvx mcp-server-git").starts_with("mcp-server-git-"));
        assert!(name("/usr/bin/python3 /opt/notes.py").starts_with("notes-"));
        assert!(name("npx").parse::<ServerName>().is_ok());
        assert!(name(&"x".repeat(500)).parse::<ServerName>().is_ok());
    }
}
