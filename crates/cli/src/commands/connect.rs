//! `gatelodge connect`: a client's configuration, printed or written.

mod first_request;
pub mod gateway_target;
mod undo_connect;
mod write_entry;

use std::path::{Path, PathBuf};

use anyhow::Result;
use gatelodge_store::GrantToken;
use serde_json::{Map, Value, json};

use crate::cli::ConnectArgs;
use crate::client_config::{
    self, ClientConfigLocation, ClientProfile, ConnectionMethod, GatewayEntry, OperatingSystem, UserDirectories,
    config_snippet, shorten_home,
};
use crate::diagnostic_report::{escape_for_terminal, print_stderr};
use crate::exit_code::{CommandExitCode, UsageError};
use crate::{process_environment, server_url, stdout_output};
use gateway_target::GatewayTarget;

pub fn run(args: &ConnectArgs) -> Result<CommandExitCode> {
    let client =
        client_config::find_client(&args.client).ok_or_else(|| UsageError("there is no such client".into()))?;
    let home = home_directory(args.home.as_deref())?;
    let peek = GatewayTarget::load(&args.store)?;
    if args.undo {
        return undo_connect::run(args, &choose_location(args, client, home)?, &peek.data);
    }
    check_token_env(&args.token_env)?;
    let (server, url) = peek.resolve_server(args)?;
    let name = args.name.clone().or_else(|| server.clone()).unwrap_or_else(|| "gatelodge".to_owned());
    let program = args.program.clone().unwrap_or_else(own_program_path);
    let token_file = resolve_token_file(args, client, &peek, server.as_deref())?;
    let link = GatewayEntry { name, url, token_env: args.token_env.clone(), token_file, program };
    let mut told = connection_json(client, &link, args, &home);
    // Taken before anything is written, so that no request is missed.
    let watch = if args.wait { Some(first_request::FirstRequestWatch::start(args, server, &peek)?) } else { None };
    if args.write {
        told.extend(write_entry::run(args, client, &link, &choose_location(args, client, home)?, &peek.data)?);
    } else if !args.json {
        print_snippet(client, &link, args, &home)?;
    }
    if let Some(watch) = watch {
        watch.wait(client, &mut told)?;
    }
    if args.json {
        stdout_output::print_json(&told)?;
    }
    Ok(CommandExitCode::Success)
}

/// Some clients hand the name to a shell, and some people hand us the token itself.
fn check_token_env(name: &str) -> Result<(), UsageError> {
    if GrantToken::parse(name).is_ok() {
        return Err(UsageError(
            "this is the token itself; put it into a variable, and name that as `--token-env`".into(),
        ));
    }
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let starts_well = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    if starts_well && name.bytes().all(is_letter) {
        Ok(())
    } else {
        Err(UsageError("a variable's name has letters, digits and `_`, and begins with a letter".into()))
    }
}

/// The file from which the bridge shall take the token: as asked, else the one that `init` made for this client.
fn resolve_token_file(
    args: &ConnectArgs,
    client: &ClientProfile,
    peek: &GatewayTarget,
    server: Option<&str>,
) -> Result<Option<String>> {
    let is_bridge = client.connection_method() == ConnectionMethod::Bridge;
    let file = match &args.token_file {
        Some(_) if !is_bridge => {
            let message = format!("{} reads no file for the token: name a variable with `--token-env`", client.name);
            return Err(UsageError(message).into());
        }
        Some(file) => Some(file.clone()),
        None if is_bridge && args.token_env == client_config::DEFAULT_TOKEN_ENV => peek.token_file(client.id, server),
        None => None,
    };
    Ok(file.map(std::path::absolute).transpose()?.map(|file| file.display().to_string()))
}

/// The home directory to look in; one that was named stands alone.
pub fn home_directory(named: Option<&Path>) -> Result<(PathBuf, bool)> {
    if let Some(home) = named {
        return Ok((std::path::absolute(home)?, true));
    }
    let home =
        etcetera::home_dir().map_err(|_| UsageError("there is no home directory; name one with `--home`".into()))?;
    Ok((home, false))
}

/// Where clients have their files, below a home that was named or by what the environment says.
pub fn user_directories((home, is_named): (PathBuf, bool), project: Option<&Path>) -> Result<UserDirectories> {
    let project = project.map(std::path::absolute).transpose()?;
    Ok(if is_named {
        UserDirectories::under_home(OperatingSystem::current(), home, project)
    } else {
        UserDirectories::of(OperatingSystem::current(), home, project, &process_environment::find_variable)
    })
}

/// The place in the file that is meant: the first one there is, else the most usual.
fn choose_location(
    args: &ConnectArgs,
    client: &'static ClientProfile,
    home: (PathBuf, bool),
) -> Result<ClientConfigLocation> {
    let mut spots = user_directories(home.clone(), args.project.as_deref())?.config_locations(client);
    if spots.is_empty() {
        // It has files in projects only; the one at hand is meant.
        spots = user_directories(home, Some(Path::new(".")))?.config_locations(client);
    }
    if let Some(project) = &args.project {
        // Whoever names a project means its file; it may be that the client has none.
        let project = std::path::absolute(project)?;
        spots.sort_by_key(|spot| !spot.file.starts_with(&project));
    }
    spots.retain(|spot| spot.servers_path == client.servers_path);
    let chosen = spots.iter().find(|spot| args.project.is_some() || spot.file.exists()).or(spots.first()).cloned();
    match (chosen, &args.file) {
        (Some(spot), Some(file)) => Ok(ClientConfigLocation { file: file.clone(), ..spot }),
        (Some(spot), None) => Ok(spot),
        (None, _) => {
            Err(UsageError(format!("{} has no file; leave `--write` out to see what to do", client.name)).into())
        }
    }
}

fn print_snippet(
    client: &'static ClientProfile,
    link: &GatewayEntry,
    args: &ConnectArgs,
    home: &(PathBuf, bool),
) -> Result<()> {
    stdout_output::print(&config_snippet(client, link))?;
    if let Ok(spot) = choose_location(args, client, home.clone()) {
        print_stderr(&format!(
            "{}: this goes into {}",
            client.name,
            escape_for_terminal(&shorten_home(&spot.file, &home.0))
        ));
    } else {
        print_stderr(&format!("{}: this is what it takes", client.name));
    }
    if let Some(install) = link.install_command(client) {
        print_stderr(&format!("or: {install}"));
    }
    connection_notes(client, link).iter().for_each(|note| print_stderr(note));
    Ok(())
}

/// What has to be known beside the entry.
fn connection_notes(client: &ClientProfile, link: &GatewayEntry) -> Vec<String> {
    let mut notes = Vec::new();
    let local = server_url::parse_server_url(&link.url).ok().filter(server_url::is_loopback);
    match client.connection_method() {
        ConnectionMethod::Bridge if let Some(file) = &link.token_file => {
            notes.push(format!("the bridge takes the token from {}", escape_for_terminal(file)));
        }
        ConnectionMethod::Http | ConnectionMethod::Bridge if client.can_read_token_env() => {
            notes.push(format!("set {} to the token where {} starts", link.token_env, client.name));
        }
        ConnectionMethod::Http | ConnectionMethod::Bridge => {}
        ConnectionMethod::PublicHttps if local.is_some() || !link.url.starts_with("https://") => notes.push(format!(
            "it calls from elsewhere: the address must be https and reachable from the internet, and {} is not",
            escape_for_terminal(&link.url)
        )),
        ConnectionMethod::PublicHttps => {}
    }
    if local.is_none() && link.url.starts_with("http://") {
        notes.push("the token travels without encryption to another machine: use https".to_owned());
    }
    if !client.note.is_empty() {
        notes.push(client.note.to_owned());
    }
    notes
}

fn connection_json(
    client: &'static ClientProfile,
    link: &GatewayEntry,
    args: &ConnectArgs,
    home: &(PathBuf, bool),
) -> Map<String, Value> {
    let file = choose_location(args, client, home.clone()).ok().map(|spot| spot.file);
    let told = json!({
        "client": client.id, "file": file, "url": link.url, "token_env": link.token_env, "token_file": link.token_file, "entry": link.client_entry(client),
        "snippet": config_snippet(client, link), "install": link.install_command(client), "notes": connection_notes(client, link),
    });
    if let Value::Object(told) = told { told } else { Map::new() }
}

/// This program, by its full path: programs of the desktop look in other places than a shell.
pub fn own_program_path() -> String {
    std::env::current_exe().map_or_else(|_| "gatelodge".to_owned(), |path| path.display().to_string())
}
