//! `connect --write`: shows the change to the client's file, asks for confirmation, makes a backup and writes the file.

use std::path::{Path, PathBuf};

use anyhow::Result;
use gatelodge_clients::{
    ClientConfigDocument, ClientConfigEntryChange, ClientConfigLocation, ClientProfile, GatewayEntry, config_snippet,
};
use serde_json::{Map, Value, json};

use super::connection_notes;
use crate::cli::ConnectArgs;
use crate::client_config_redaction::entry_diff;
use crate::client_files::{ClientFileError, ClientFileSnapshot, PlannedWrite, UndoJournal};
use crate::diagnostic_report::{escape_for_terminal, print_stderr};
use crate::exit_code::UsageError;
use crate::stdout_output;
use crate::terminal_prompt;

/// Name of the file in the data directory that records the changes made by `connect`.
pub const UNDO_JOURNAL_NAME: &str = "connect.json";

/// Writes the gateway's entry to the client's configuration file.
pub fn run(
    args: &ConnectArgs,
    client: &'static ClientProfile,
    gateway_entry: &GatewayEntry,
    location: &ClientConfigLocation,
    data: &Path,
) -> Result<Map<String, Value>> {
    let path = std::path::absolute(&location.file)?;
    let name = escape_for_terminal(&path.display().to_string());
    if !client.is_writable() {
        stdout_output::print(&config_snippet(client, gateway_entry))?;
        return Err(UsageError(format!(
            "add this to `{name}` by hand: a file of this format cannot be changed without losing comments or layout"
        ))
        .into());
    }
    let snapshot = ClientFileSnapshot::read(&path).map_err(|error| file_error(&name, &error))?;
    let document = match snapshot.bytes() {
        Some(bytes) => ClientConfigDocument::read(client.format, bytes)
            .map_err(|message| file_error(&name, &ClientFileError(message)))?,
        None => ClientConfigDocument::new(client.format),
    };
    let old = document.find_entry(&location.servers_path, &gateway_entry.name);
    let entry = gateway_entry.merged_entry(client, old);
    if old == Some(&entry) {
        print_stderr(&format!("`{name}` is already up to date"));
        return Ok(Map::from_iter([("written".to_owned(), Value::Null)]));
    }
    let shown_change = entry_diff(old, &entry, &gateway_entry.client_entry(client));
    let change = ClientConfigEntryChange {
        servers_path: location.servers_path.clone(),
        name: gateway_entry.name.clone(),
        entry: Some(entry),
        vscode_input: gateway_entry.vscode_input(client),
    };
    let bytes = document
        .apply_changes(std::slice::from_ref(&change))
        .map_err(|message| file_error(&name, &ClientFileError(message)))?;
    snapshot.check_writable().map_err(|error| file_error(&name, &error))?;
    print_stderr(&format!(
        "{name}: `{}.{}`\n{}",
        location.servers_path.join("."),
        escape_for_terminal(&gateway_entry.name),
        shown_change
    ));
    if !terminal_prompt::confirm(args.yes, "Write it?")? {
        return Err(UsageError("nothing was written".to_owned()).into());
    }
    let output = PlannedWrite { snapshot, new_bytes: bytes, client: Some(client), entries: vec![change.path()] };
    let backup = write_with_undo(&output, data).map_err(|error| file_error(&name, &error))?;
    print_stderr(&format!("wrote `{name}`; `gatelodge connect {} --undo` reverts it", client.id));
    connection_notes(client, gateway_entry).iter().for_each(|note| print_stderr(note));
    Ok(Map::from_iter([("written".to_owned(), json!(path)), ("backup".to_owned(), json!(backup))]))
}

/// Backs up the file, records the change in the undo journal and writes the file. If a step fails, removes the backup
/// and the journal entry again.
fn write_with_undo(output: &PlannedWrite, data: &Path) -> Result<Option<PathBuf>, ClientFileError> {
    let journal_file = data.join(UNDO_JOURNAL_NAME);
    let mut journal = UndoJournal::load(&journal_file)?.unwrap_or_default();
    let step = output.prepare_undo_step()?;
    let backup = step.backup.clone();
    journal.steps.push(step);
    let done = journal.save(&journal_file).and_then(|()| output.snapshot.replace(&output.new_bytes));
    if let Err(error) = done {
        backup.iter().for_each(|backup| drop(std::fs::remove_file(backup)));
        journal.steps.pop();
        let _ = journal.save(&journal_file);
        return Err(error);
    }
    Ok(backup)
}

/// Creates the error for a client file that cannot be read or written.
pub fn file_error(name: &str, error: &ClientFileError) -> anyhow::Error {
    ClientFileError(format!("`{name}`: {error}")).into()
}
