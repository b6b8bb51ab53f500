//! What becomes of the servers that were chosen: one of ours for each definition, under a name that can be one.

use std::collections::BTreeSet;
use std::path::Path;

use gatelodge_store::ServerName;

use super::client_scan::{ClientConfigProblem, ScannedServer};
use super::server_variables::ServerVariables;
use crate::client_config::{EntryValue, ServerEntry, is_likely_secret};
use crate::diagnostic_report::escape_for_terminal;
use crate::process_environment::find_program_problem;
use crate::{header_template, server_url};

/// The longest part of a name that leaves room for a number behind it.
const MAX_NAME_STEM_BYTES: usize = 60;

/// A server as it will stand in our configuration.
#[derive(Debug)]
pub struct ImportedServer {
    /// Its name with us.
    pub name: String,
    /// How it is reached.
    pub entry: ServerEntry,
    /// Its variables or headers, in our own way to write them.
    pub values: Vec<(String, String)>,
    /// Which of the seen it stands for.
    pub scanned_indices: Vec<usize>,
}

/// The servers, and what is to be said about them.
#[derive(Debug, Default)]
pub struct ServerImport {
    /// The servers.
    pub servers: Vec<ImportedServer>,
    /// What the gateway has to find in its environment.
    pub variables: ServerVariables,
    /// What happened on the way that nobody has to mend.
    pub notes: Vec<String>,
    /// What was left out.
    pub problems: Vec<ClientConfigProblem>,
}

/// What an import may do.
#[derive(Debug, Clone, Copy)]
pub struct ImportOptions<'a> {
    /// Secrets may be copied.
    pub copy_secrets: bool,
    /// The folder of the project whose files were looked at.
    pub project: Option<&'a Path>,
}

/// Takes the chosen servers over. `taken` are the names that the configuration has already.
pub fn import_servers(
    seen: &[ScannedServer],
    chosen: &[usize],
    mut taken: BTreeSet<String>,
    leave: ImportOptions<'_>,
) -> ServerImport {
    let mut import = ServerImport::default();
    let mut known: Vec<(ServerEntry, Vec<(String, EntryValue)>)> = Vec::new();
    for &at in chosen {
        let Some(one) = seen.get(at) else { continue };
        let Some(entry) = &one.named_entry.entry else { continue };
        if let Err(message) = check_importable(one, entry, leave.copy_secrets) {
            import.problems.push(ClientConfigProblem::new(one.description(), message));
            continue;
        }
        let definition =
            (with_working_directory(entry, one, leave.project), read_values(one, entry, &mut import.notes));
        if let Some(same) = known.iter().position(|other| *other == definition) {
            import.servers.get_mut(same).into_iter().for_each(|server| server.scanned_indices.push(at));
            continue;
        }
        if let ServerEntry::Command { argv: words, cwd, .. } = &definition.0
            && let Some(why) = words
                .first()
                .and_then(|program| find_program_problem(program, Path::new(cwd.as_deref().unwrap_or_default())))
        {
            // The client cannot run it either, so it is taken over as it is.
            import.notes.push(format!("{}: {why}", one.description()));
        }
        let name = unique_name(&one.named_entry.name, &mut taken, &mut import.notes);
        let values = import.variables.add_server_values(&name, &definition.0, &definition.1);
        import.servers.push(ImportedServer { name, entry: definition.0.clone(), values, scanned_indices: vec![at] });
        known.push(definition);
    }
    import
}

/// Why a server cannot be taken over.
fn check_importable(one: &ScannedServer, entry: &ServerEntry, copy_secrets: bool) -> Result<(), String> {
    let is_reference = |text: &str| !matches!(one.location.client.env_syntax.read(text), EntryValue::Literal(_));
    match entry {
        ServerEntry::Command { argv: words, .. } => {
            let before = [""].into_iter().chain(words.iter().map(String::as_str));
            if before.zip(words).any(|(before, word)| is_likely_secret(before, word)) && !copy_secrets {
                return Err(
                    "its command seems to hold a secret; put that into a variable, or add `--copy-secrets`".into()
                );
            }
            if words.iter().any(|word| is_reference(word)) {
                return Err("its command has a `${…}` that only the client knows; write it out, and come again".into());
            }
            Ok(())
        }
        ServerEntry::Remote { is_sse: true, .. } => Err("it speaks the old transport with two event streams".into()),
        ServerEntry::Remote { url, .. } if is_reference(url) => {
            Err("its address has a `${…}` that only the client knows; write it out, and come again".into())
        }
        ServerEntry::Remote { url, .. } => {
            server_url::parse_server_url(url).map_err(|fault| format!("{}; {}", fault.message(), fault.help()))?;
            if is_likely_secret("", url) && !copy_secrets {
                return Err("its address seems to hold a secret; send that as a header, or add `--copy-secrets`".into());
            }
            Ok(())
        }
    }
}

/// The entry with the folder it is run in: a project's servers are started in the project.
fn with_working_directory(entry: &ServerEntry, one: &ScannedServer, project: Option<&Path>) -> ServerEntry {
    match (entry, project) {
        (ServerEntry::Command { argv: words, env, cwd: None }, Some(project))
            if one.location.file.starts_with(project) =>
        {
            let cwd = Some(project.display().to_string());
            ServerEntry::Command { argv: words.clone(), env: env.clone(), cwd }
        }
        _ => entry.clone(),
    }
}

/// What the values mean. A header that the gateway sets itself is dropped.
fn read_values(one: &ScannedServer, entry: &ServerEntry, remarks: &mut Vec<String>) -> Vec<(String, EntryValue)> {
    let mut values = Vec::new();
    for (name, value) in entry.variables_or_headers() {
        if matches!(entry, ServerEntry::Remote { .. }) && header_template::check_header(name, "x").is_err() {
            remarks.push(format!(
                "{}: the header `{}` is left out; the gateway sets its own",
                one.description(),
                escape_for_terminal(name)
            ));
            continue;
        }
        if value.contains(":-") && value.contains("${") {
            remarks.push(format!(
                "{}: `{}` has a default, which is left out; set the variable",
                one.description(),
                escape_for_terminal(name)
            ));
        }
        // Codex names variables in fields of their own, which were read in our way to write them.
        let read = match one.location.client.id {
            "codex" if header_template::has_variable(value) => EntryValue::EnvReference(value.clone()),
            _ => one.location.client.env_syntax.read(value),
        };
        values.push((name.clone(), read));
    }
    values
}

/// A name that a server can have, and that no other has.
fn unique_name(written: &str, taken: &mut BTreeSet<String>, remarks: &mut Vec<String>) -> String {
    let plain = normalize_name(written);
    let numbered = (2..).map(|number| format!("{plain}-{number}"));
    let free = [plain.clone()].into_iter().chain(numbered).find(|name| !taken.contains(name)).unwrap_or_default();
    if free != plain {
        remarks
            .push(format!("`{}` is called `{free}` here: another server has the name", escape_for_terminal(written)));
    } else if free != written {
        remarks
            .push(format!("`{}` is called `{free}` here: names have a-z, 0-9 and `-`", escape_for_terminal(written)));
    }
    taken.insert(free.clone());
    free
}

/// The nearest text that can be a name.
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
    fn every_text_becomes_a_name_that_a_server_can_have() {
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
    fn names_that_are_taken_get_a_number_and_a_word() {
        let mut taken = BTreeSet::from(["a".to_owned()]);
        let mut remarks = Vec::new();
        assert_eq!(unique_name("a", &mut taken, &mut remarks), "a-2");
        assert_eq!(unique_name("A", &mut taken, &mut remarks), "a-3");
        assert_eq!(unique_name("b", &mut taken, &mut remarks), "b");
        assert_eq!(remarks.len(), 2);
    }
}
