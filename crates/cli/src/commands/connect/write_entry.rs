//! The client's file with our entry in it: shown, agreed to, kept, replaced.

use std::path::{Path, PathBuf};

use anyhow::Result;
use serde_json::{Map, Value, json};

use super::connection_notes;
use crate::cli::ConnectArgs;
use crate::client_config::{
    ClientConfigDocument, ClientConfigLocation, ClientFileError, ClientProfile, EntryChange, FileSnapshot,
    GatewayEntry, PlannedWrite, UndoJournal, config_snippet, entry_diff,
};
use crate::diagnostic_report::{escape_for_terminal, print_stderr};
use crate::exit_code::UsageError;
use crate::prompt;
use crate::stdout_output;

/// Where it is noted what `connect` wrote, in the data directory.
pub const UNDO_JOURNAL_NAME: &str = "connect.json";

/// Writes the entry.
pub fn run(
    args: &ConnectArgs,
    client: &'static ClientProfile,
    link: &GatewayEntry,
    spot: &ClientConfigLocation,
    data: &Path,
) -> Result<Map<String, Value>> {
    let path = std::path::absolute(&spot.file)?;
    let name = escape_for_terminal(&path.display().to_string());
    if !client.is_writable() {
        stdout_output::print(&config_snippet(client, link))?;
        return Err(UsageError(format!(
            "this goes into `{name}` by hand: nobody can change such a file and keep all of it"
        ))
        .into());
    }
    let held = FileSnapshot::read(&path).map_err(|trouble| file_error(&name, &trouble))?;
    let document = match held.bytes() {
        Some(bytes) => ClientConfigDocument::read(client.format, bytes)
            .map_err(|what| file_error(&name, &ClientFileError(what)))?,
        None => ClientConfigDocument::new(client.format),
    };
    let old = document.find_entry(&spot.servers_path, &link.name);
    let entry = link.merged_entry(client, old);
    if old == Some(&entry) {
        print_stderr(&format!("`{name}` says so already"));
        return Ok(Map::from_iter([("written".to_owned(), Value::Null)]));
    }
    let shown_change = entry_diff(old, &entry, &link.client_entry(client));
    let change = EntryChange {
        servers_path: spot.servers_path.clone(),
        name: link.name.clone(),
        entry: Some(entry),
        vscode_input: link.vscode_input(client),
    };
    let bytes = document
        .apply_changes(std::slice::from_ref(&change))
        .map_err(|what| file_error(&name, &ClientFileError(what)))?;
    held.check_writable().map_err(|trouble| file_error(&name, &trouble))?;
    print_stderr(&format!(
        "{name}: `{}.{}`\n{}",
        spot.servers_path.join("."),
        escape_for_terminal(&link.name),
        shown_change
    ));
    if !prompt::confirm(args.yes, "Write it?")? {
        return Err(UsageError("nothing was written".to_owned()).into());
    }
    let output = PlannedWrite { snapshot: held, new_bytes: bytes, client: Some(client), entries: vec![change.path()] };
    let backup = write_with_undo(&output, data).map_err(|trouble| file_error(&name, &trouble))?;
    print_stderr(&format!("wrote `{name}`; `gatelodge connect {} --undo` takes it back", client.id));
    connection_notes(client, link).iter().for_each(|note| print_stderr(note));
    Ok(Map::from_iter([("written".to_owned(), json!(path)), ("backup".to_owned(), json!(backup))]))
}

/// Keeps the old text, notes what is done, and does it. If it cannot be done, nothing stays behind.
fn write_with_undo(output: &PlannedWrite, data: &Path) -> Result<Option<PathBuf>, ClientFileError> {
    let journal_file = data.join(UNDO_JOURNAL_NAME);
    let mut journal = UndoJournal::load(&journal_file)?.unwrap_or_default();
    let step = output.prepare_undo_step()?;
    let backup = step.backup.clone();
    journal.steps.push(step);
    let done = journal.save(&journal_file).and_then(|()| output.snapshot.replace(&output.new_bytes));
    if let Err(trouble) = done {
        backup.iter().for_each(|backup| drop(std::fs::remove_file(backup)));
        journal.steps.pop();
        let _ = journal.save(&journal_file);
        return Err(trouble);
    }
    Ok(backup)
}

/// The error for a file that cannot be used as it is.
pub fn file_error(name: &str, trouble: &ClientFileError) -> anyhow::Error {
    ClientFileError(format!("`{name}`: {trouble}")).into()
}
