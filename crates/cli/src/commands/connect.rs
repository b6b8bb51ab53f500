//! `gatelodge connect`: prints a client's configuration for the gateway, or writes it to the client's file.

mod first_request;
pub mod gateway_target;
mod undo_connect;
mod write_client_config;

use std::path::{Path, PathBuf};

use anyhow::Result;
use gatelodge_admin::server_url;
use gatelodge_clients::{
    ClientConfigLocation, ClientConnectionMethod, ClientProfile, GatewayEntry, OperatingSystem, UserDirectories,
    config_snippet, shorten_home,
};
use gatelodge_server::process_environment;
use gatelodge_store::GrantToken;
use serde_json::{Map, Value, json};

use crate::cli::ConnectArgs;
use crate::diagnostic_report::{escape_for_terminal, print_stderr};
use crate::exit_code::{CommandExitCode, UsageError};
use crate::stdout_output;
use gateway_target::GatewayTarget;

pub fn run(args: &ConnectArgs) -> Result<CommandExitCode> {
    let client =
        gatelodge_clients::find_client(&args.client).ok_or_else(|| UsageError("there is no such client".into()))?;
    let home = home_directory(args.home.as_deref())?;
    let gateway = GatewayTarget::load(&args.store)?;
    if args.undo {
        return undo_connect::run(args, &choose_location(args, client, home)?, &gateway.data);
    }
    check_token_env(&args.token_env)?;
    let (server, url) = gateway.resolve_server(args)?;
    let name = args.name.clone().or_else(|| server.clone()).unwrap_or_else(|| "gatelodge".to_owned());
    let program = args.program.clone().unwrap_or_else(own_program_path);
    let token_file = resolve_token_file(args, client, &gateway, server.as_deref())?;
    let entry = GatewayEntry { name, url, token_env: args.token_env.clone(), token_file, program };
    let mut result = connection_json(client, &entry, args, &home);
    // Starts before the file is written, so that no request is missed.
    let watch = if args.wait { Some(first_request::FirstRequestWatch::start(args, server, &gateway)?) } else { None };
    if args.write {
        result.extend(write_client_config::run(
            args,
            client,
            &entry,
            &choose_location(args, client, home)?,
            &gateway.data,
        )?);
    } else if !args.json {
        print_snippet(client, &entry, args, &home)?;
    }
    if let Some(watch) = watch {
        watch.wait(client, &mut result)?;
    }
    if args.json {
        stdout_output::print_json(&result)?;
    }
    Ok(CommandExitCode::Success)
}

/// Checks the name of an environment variable. Rejects names that are not valid in a shell, because some clients pass
/// the name to a shell. Also rejects a token given in place of a name.
fn check_token_env(name: &str) -> Result<(), UsageError> {
    if GrantToken::parse(name).is_ok() {
        return Err(UsageError(
            "this is the token itself; put it into a variable and name the variable with `--token-env`".into(),
        ));
    }
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let starts_well = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    if starts_well && name.bytes().all(is_letter) {
        Ok(())
    } else {
        Err(UsageError("a variable name consists of letters, digits and `_`, and does not begin with a digit".into()))
    }
}

/// Returns the file from which the bridge reads the token: `--token-file`, else the file that `init` wrote for this
/// client.
fn resolve_token_file(
    args: &ConnectArgs,
    client: &ClientProfile,
    gateway: &GatewayTarget,
    server: Option<&str>,
) -> Result<Option<String>> {
    let is_bridge = client.connection_method() == ClientConnectionMethod::Bridge;
    let file = match &args.token_file {
        Some(_) if !is_bridge => {
            let message =
                format!("{} cannot read the token from a file: name a variable with `--token-env`", client.name);
            return Err(UsageError(message).into());
        }
        Some(file) => Some(file.clone()),
        None if is_bridge && args.token_env == gatelodge_clients::DEFAULT_TOKEN_ENV => {
            gateway.token_file(client.id, server)
        }
        None => None,
    };
    Ok(file.map(std::path::absolute).transpose()?.map(|file| file.display().to_string()))
}

/// Returns the home directory, and whether it was given with `--home`. In that case, the search for client files
/// ignores environment variables.
pub fn home_directory(named: Option<&Path>) -> Result<(PathBuf, bool)> {
    if let Some(home) = named {
        return Ok((std::path::absolute(home)?, true));
    }
    let home =
        etcetera::home_dir().map_err(|_| UsageError("there is no home directory; name one with `--home`".into()))?;
    Ok((home, false))
}

/// Returns the directories to search for client files. If the home directory was given with `--home`, these are the
/// default directories below it. Otherwise environment variables may specify other directories.
pub fn user_directories((home, is_named): (PathBuf, bool), project: Option<&Path>) -> Result<UserDirectories> {
    let project = project.map(std::path::absolute).transpose()?;
    Ok(if is_named {
        UserDirectories::under_home(OperatingSystem::current(), home, project)
    } else {
        UserDirectories::of(OperatingSystem::current(), home, project, &process_environment::find_variable)
    })
}

/// Chooses a client's configuration file: the first existing one or, if none exists, the one that is most commonly
/// used.
fn choose_location(
    args: &ConnectArgs,
    client: &'static ClientProfile,
    home: (PathBuf, bool),
) -> Result<ClientConfigLocation> {
    let mut locations = user_directories(home.clone(), args.project.as_deref())?.config_locations(client);
    if locations.is_empty() {
        // The client has project files only; use the current directory.
        locations = user_directories(home, Some(Path::new(".")))?.config_locations(client);
    }
    if let Some(project) = &args.project {
        // `--project` prefers the file in the project; the client may not have one.
        let project = std::path::absolute(project)?;
        locations.sort_by_key(|location| !location.file.starts_with(&project));
    }
    locations.retain(|location| location.servers_path == client.servers_path);
    let chosen = locations
        .iter()
        .find(|location| args.project.is_some() || location.file.exists())
        .or(locations.first())
        .cloned();
    match (chosen, &args.file) {
        (Some(location), Some(file)) => Ok(ClientConfigLocation { file: file.clone(), ..location }),
        (Some(location), None) => Ok(location),
        (None, _) => Err(UsageError(format!(
            "{} has no configuration file; run it without `--write` to see what to do",
            client.name
        ))
        .into()),
    }
}

fn print_snippet(
    client: &'static ClientProfile,
    entry: &GatewayEntry,
    args: &ConnectArgs,
    home: &(PathBuf, bool),
) -> Result<()> {
    stdout_output::print(&config_snippet(client, entry))?;
    if let Ok(location) = choose_location(args, client, home.clone()) {
        print_stderr(&format!(
            "{}: this goes into {}",
            client.name,
            escape_for_terminal(&shorten_home(&location.file, &home.0))
        ));
    } else {
        print_stderr(&format!("{}: use these values", client.name));
    }
    if let Some(install) = entry.install_command(client) {
        print_stderr(&format!("or: {install}"));
    }
    connection_notes(client, entry).iter().for_each(|note| print_stderr(note));
    Ok(())
}

/// Returns notes to print with an entry: where to put the token, and problems with the URL.
fn connection_notes(client: &ClientProfile, entry: &GatewayEntry) -> Vec<String> {
    let mut notes = Vec::new();
    let local = server_url::parse_server_url(&entry.url).ok().filter(server_url::is_loopback);
    match client.connection_method() {
        ClientConnectionMethod::Bridge if let Some(file) = &entry.token_file => {
            notes.push(format!("the bridge reads the token from {}", escape_for_terminal(file)));
        }
        ClientConnectionMethod::Http | ClientConnectionMethod::Bridge if client.can_read_token_env() => {
            notes.push(format!("set {} to the token where {} starts", entry.token_env, client.name));
        }
        ClientConnectionMethod::Http | ClientConnectionMethod::Bridge => {}
        ClientConnectionMethod::PublicHttps if local.is_some() || !entry.url.starts_with("https://") => {
            notes.push(format!(
                "it connects from outside: the URL must be https and reachable from the internet, and {} is not",
                escape_for_terminal(&entry.url)
            ))
        }
        ClientConnectionMethod::PublicHttps => {}
    }
    if local.is_none() && entry.url.starts_with("http://") {
        notes.push("the token is sent unencrypted to another machine: use https".to_owned());
    }
    if !client.note.is_empty() {
        notes.push(client.note.to_owned());
    }
    notes
}

fn connection_json(
    client: &'static ClientProfile,
    entry: &GatewayEntry,
    args: &ConnectArgs,
    home: &(PathBuf, bool),
) -> Map<String, Value> {
    let file = choose_location(args, client, home.clone()).ok().map(|location| location.file);
    let result = json!({
        "client": client.id, "file": file, "url": entry.url, "token_env": entry.token_env, "token_file": entry.token_file, "entry": entry.client_entry(client),
        "snippet": config_snippet(client, entry), "install": entry.install_command(client), "notes": connection_notes(client, entry),
    });
    if let Value::Object(result) = result { result } else { Map::new() }
}

/// Returns the full path of this program. Clients need it because desktop programs may not have the shell's `PATH`.
pub fn own_program_path() -> String {
    std::env::current_exe().map_or_else(|_| "gatelodge".to_owned(), |path| path.display().to_string())
}
