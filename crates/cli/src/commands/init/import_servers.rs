//! Converts the chosen client entries to servers for the gateway's configuration. Entries with the same definition
//! become one server, and names are made valid.

use std::collections::BTreeSet;
use std::path::Path;

use gatelodge_admin::{header_template, server_url};
use gatelodge_clients::{ClientConfigEntryValue, ClientServerEntry};
use gatelodge_server::process_environment::find_program_problem;

use gatelodge_store::ServerName;

use super::client_scan::{ClientConfigProblem, ClientScanEntry};
use super::server_env_variables::ServerEnvVariables;
use crate::client_config_redaction::is_likely_secret;
use crate::diagnostic_report::escape_for_terminal;

/// Maximum length of a server name, not counting the number that is appended to make it unique.
const MAX_NAME_STEM_BYTES: usize = 60;

/// A server to be added to the gateway's configuration.
#[derive(Debug)]
pub struct ImportedServer {
    /// Name of the server in the gateway's configuration.
    pub name: String,
    /// The server's command or URL.
    pub entry: ClientServerEntry,
    /// The server's environment variables or headers, with `${NAME}` references as in the gateway's configuration.
    pub values: Vec<(String, String)>,
    /// Indices of the scanned client entries that have this definition.
    pub scanned_indices: Vec<usize>,
}

/// Imported servers, with notes and problems found during the import.
#[derive(Debug, Default)]
pub struct ServerImport {
    /// Imported servers.
    pub servers: Vec<ImportedServer>,
    /// Environment variables that the gateway needs.
    pub variables: ServerEnvVariables,
    /// Notes for the user, for example about changed names.
    pub notes: Vec<String>,
    /// Servers that were skipped, with the reasons.
    pub problems: Vec<ClientConfigProblem>,
}

/// Options for an import.
#[derive(Debug, Clone, Copy)]
pub struct ServerImportOptions<'a> {
    /// Whether secrets in clients' files may be copied to the gateway's files.
    pub copy_secrets: bool,
    /// The project folder, if one was scanned.
    pub project: Option<&'a Path>,
}

/// Imports the chosen servers. `taken` contains the names that are already used in the configuration.
pub fn import_servers(
    scanned: &[ClientScanEntry],
    chosen: &[usize],
    mut taken: BTreeSet<String>,
    options: ServerImportOptions<'_>,
) -> ServerImport {
    let mut import = ServerImport::default();
    let mut known: Vec<(ClientServerEntry, Vec<(String, ClientConfigEntryValue)>)> = Vec::new();
    for &at in chosen {
        let Some(server) = scanned.get(at) else { continue };
        let Some(entry) = &server.named_entry.entry else { continue };
        if let Err(message) = check_importable(server, entry, options.copy_secrets) {
            import.problems.push(ClientConfigProblem::new(server.description(), message));
            continue;
        }
        let definition =
            (with_working_directory(entry, server, options.project), read_values(server, entry, &mut import.notes));
        if let Some(same) = known.iter().position(|other| *other == definition) {
            import.servers.get_mut(same).into_iter().for_each(|server| server.scanned_indices.push(at));
            continue;
        }
        if let ClientServerEntry::Command { argv: words, cwd, .. } = &definition.0
            && let Some(why) = words
                .first()
                .and_then(|program| find_program_problem(program, Path::new(cwd.as_deref().unwrap_or_default())))
        {
            // The client cannot run it either, so it is imported unchanged.
            import.notes.push(format!("{}: {why}", server.description()));
        }
        let name = unique_name(&server.named_entry.name, &mut taken, &mut import.notes);
        let values = import.variables.add_server_values(&name, &definition.0, &definition.1);
        import.servers.push(ImportedServer { name, entry: definition.0.clone(), values, scanned_indices: vec![at] });
        known.push(definition);
    }
    import
}

/// Checks whether a server can be imported. The error says why not.
fn check_importable(server: &ClientScanEntry, entry: &ClientServerEntry, copy_secrets: bool) -> Result<(), String> {
    let is_reference =
        |text: &str| !matches!(server.location.client.env_syntax.read(text), ClientConfigEntryValue::Literal(_));
    match entry {
        ClientServerEntry::Command { argv: words, .. } => {
            let before = [""].into_iter().chain(words.iter().map(String::as_str));
            if before.zip(words).any(|(before, word)| is_likely_secret(before, word)) && !copy_secrets {
                return Err(
                    "its command seems to contain a secret; move it into a variable, or add `--copy-secrets`".into()
                );
            }
            if words.iter().any(|word| is_reference(word)) {
                return Err(
                    "its command has a `${…}` that only the client can expand; write the value and run `init` again"
                        .into(),
                );
            }
            Ok(())
        }
        ClientServerEntry::Remote { is_sse: true, .. } => Err("it uses the deprecated HTTP+SSE transport".into()),
        ClientServerEntry::Remote { url, .. } if is_reference(url) => {
            Err("its URL has a `${…}` that only the client can expand; write the value and run `init` again".into())
        }
        ClientServerEntry::Remote { url, .. } => {
            server_url::parse_server_url(url).map_err(|error| format!("{}; {}", error.message(), error.help()))?;
            if is_likely_secret("", url) && !copy_secrets {
                return Err("its URL seems to contain a secret; send it as a header, or add `--copy-secrets`".into());
            }
            Ok(())
        }
    }
}

/// Sets the working directory of a server to the project folder if the server is defined in a project's file. Clients
/// also start such servers in the project folder.
fn with_working_directory(
    entry: &ClientServerEntry,
    server: &ClientScanEntry,
    project: Option<&Path>,
) -> ClientServerEntry {
    match (entry, project) {
        (ClientServerEntry::Command { argv: words, env, cwd: None }, Some(project))
            if server.location.file.starts_with(project) =>
        {
            let cwd = Some(project.display().to_string());
            ClientServerEntry::Command { argv: words.clone(), env: env.clone(), cwd }
        }
        _ => entry.clone(),
    }
}

/// Parses the entry's environment variables or headers. Drops headers that the gateway sets itself.
fn read_values(
    server: &ClientScanEntry,
    entry: &ClientServerEntry,
    notes: &mut Vec<String>,
) -> Vec<(String, ClientConfigEntryValue)> {
    let mut values = Vec::new();
    for (name, value) in entry.variables_or_headers() {
        if matches!(entry, ClientServerEntry::Remote { .. }) && header_template::check_header(name, "x").is_err() {
            notes.push(format!(
                "{}: the header `{}` is not imported; the gateway sets its own",
                server.description(),
                escape_for_terminal(name)
            ));
            continue;
        }
        if value.contains(":-") && value.contains("${") {
            notes.push(format!(
                "{}: `{}` has a default, which is not imported; set the variable",
                server.description(),
                escape_for_terminal(name)
            ));
        }
        // Codex has separate fields for variable names; the reader has already converted them to `${NAME}`.
        let read = match server.location.client.id {
            "codex" if header_template::has_variable(value) => ClientConfigEntryValue::EnvReference(value.clone()),
            _ => server.location.client.env_syntax.read(value),
        };
        values.push((name.clone(), read));
    }
    values
}

/// Returns a valid server name that is not in `taken`.
fn unique_name(written: &str, taken: &mut BTreeSet<String>, notes: &mut Vec<String>) -> String {
    let plain = normalize_name(written);
    let numbered = (2..).map(|number| format!("{plain}-{number}"));
    let free = [plain.clone()].into_iter().chain(numbered).find(|name| !taken.contains(name)).unwrap_or_default();
    if free != plain {
        notes.push(format!("`{}` is imported as `{free}`: another server has its name", escape_for_terminal(written)));
    } else if free != written {
        notes.push(format!(
            "`{}` is imported as `{free}`: names consist of a-z, 0-9 and `-`",
            escape_for_terminal(written)
        ));
    }
    taken.insert(free.clone());
    free
}

/// Converts any string to a valid server name.
fn normalize_name(written: &str) -> String {
    let letters = written.to_lowercase();
    let letters = letters.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' });
    let parts: String = letters.collect();
    let joined = parts.split('-').filter(|part| !part.is_empty()).collect::<Vec<_>>().join("-");
    let short = joined.get(..joined.len().min(MAX_NAME_STEM_BYTES)).unwrap_or_default().trim_end_matches('-');
    if short.parse::<ServerName>().is_ok() { short.to_owned() } else { "server".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_text_is_normalized_to_a_valid_server_name() {
        for (written, expected) in [
            ("github", "github"),
            ("My Server_2", "my-server-2"),
            ("Ünïcode", "n-code"),
            ("@scope/pkg", "scope-pkg"),
            ("…", "server"),
            ("", "server"),
        ] {
            assert_eq!(normalize_name(written), expected, "{written}");
        }
        assert!(normalize_name(&"a-".repeat(99)).parse::<ServerName>().is_ok());
    }

    #[test]
    fn taken_name_gets_a_number_and_a_note() {
        let mut taken = BTreeSet::from(["a".to_owned()]);
        let mut notes = Vec::new();
        assert_eq!(unique_name("a", &mut taken, &mut notes), "a-2");
        assert_eq!(unique_name("A", &mut taken, &mut notes), "a-3");
        assert_eq!(unique_name("b", &mut taken, &mut notes), "b");
        assert_eq!(notes.len(), 2);
    }
}
