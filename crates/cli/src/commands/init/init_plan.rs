//! What will be written, all of it, before anything is.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use gatelodge_store::GrantToken;

use super::client_scan::ScannedServer;
use super::import_servers::ServerImport;
use super::render_config;
use super::server_variables::variable_name;
use crate::client_config::{DEFAULT_TOKEN_ENV, FileSnapshot, PlannedWrite};
use crate::exit_code::UsageError;

/// A grant for one client at one server. A grant in the file has one server.
#[derive(Debug)]
pub struct PlannedGrant {
    /// What people call it, and what the file of its token is called.
    pub label: String,
    /// The client, by its word.
    pub client: &'static str,
    /// The server, by our name.
    pub server: String,
    /// The variable from which the client takes the token.
    pub variable: String,
}

/// Our own files.
#[derive(Debug)]
pub struct InitPlan {
    /// The grants.
    pub grants: Vec<PlannedGrant>,
    /// The files; the configuration is the last, so that what it names is there before it.
    pub writes: Vec<PlannedWrite>,
    /// Folders that are not there yet.
    pub folders: Vec<PathBuf>,
    /// Where the tokens are.
    pub token_directory: PathBuf,
}

/// A configuration as it is, and the names in it.
#[derive(Debug)]
pub struct ExistingConfig {
    snapshot: FileSnapshot,
    text: String,
    table: toml::Table,
}

impl ExistingConfig {
    /// Reads the configuration; one that is not there has nothing in it.
    pub fn read(path: &Path) -> Result<Self> {
        let path = &std::path::absolute(path)?;
        let bad = |what: String| UsageError(format!("`{}`: {what}", path.display()));
        let held = FileSnapshot::read(path).map_err(|trouble| bad(trouble.0))?;
        let text =
            String::from_utf8(held.bytes().unwrap_or_default().to_vec()).map_err(|_| bad("it is not UTF-8".into()))?;
        let table =
            toml::from_str(&text).map_err(|_| bad("it is not TOML; `gatelodge serve --check` tells more".into()))?;
        Ok(Self { snapshot: held, text, table })
    }

    /// The names that a kind of section has.
    pub fn section_names(&self, section: &str, field: &str) -> BTreeSet<String> {
        let sections = self.table.get(section).and_then(toml::Value::as_array);
        sections.into_iter().flatten().filter_map(|one| one.get(field)?.as_str().map(str::to_owned)).collect()
    }

    /// The names that a server cannot have: each gets a policy of the same name.
    pub fn reserved_names(&self) -> BTreeSet<String> {
        self.section_names("servers", "name").into_iter().chain(self.section_names("policies", "name")).collect()
    }
}

/// Plans our own files.
pub fn plan_files(
    present: ExistingConfig,
    import: &ServerImport,
    seen: &[ScannedServer],
    copy_secrets: bool,
) -> Result<InitPlan> {
    let home = present.snapshot.path().parent().unwrap_or(Path::new("/")).to_owned();
    let grants = plan_grants(import, seen, &present.section_names("grants", "label"), &home.join("tokens"));
    let mut outputs = Vec::new();
    let mut put = |name: &str, text: String| -> Result<()> {
        let held = FileSnapshot::read(&home.join(name)).with_context(|| format!("cannot write `{name}`"))?;
        if held.bytes().is_some() {
            return Err(UsageError(format!(
                "`{}` is there already; move it, or name another `--config`",
                held.path().display()
            ))
            .into());
        }
        outputs.push(PlannedWrite::own_file(held, text));
        Ok(())
    };
    let mut sections =
        if present.text.is_empty() { render_config::CONFIG_HEADER.to_owned() } else { present.text.clone() };
    for server in &import.servers {
        let file = format!("policies/{}.json", server.name);
        put(&file, render_config::starter_policy(&server.name))?;
        sections.push_str(&render_config::server_section(server, &file));
    }
    for grant in &grants {
        put(&format!("tokens/{}", grant.label), format!("{}\n", GrantToken::random()?.reveal()))?;
        sections.push_str(&render_config::grant_section(grant));
    }
    put("tokens/export.sh", render_config::export_script(&grants, &home.join("tokens")))?;
    if copy_secrets && import.variables.known_values().next().is_some() {
        put(
            "gatelodge.env",
            render_config::env_file_text(
                import.variables.known_values().map(|(name, secret)| (name, secret.0.as_str())),
            ),
        )?;
    }
    toml::from_str::<toml::Table>(&sections)
        .map_err(|_| UsageError("the configuration has its sections in a form that cannot be added to".into()))?;
    let text =
        if present.text.contains("\r\n") { sections.replace("\r\n", "\n").replace('\n', "\r\n") } else { sections };
    outputs.push(PlannedWrite::own_file(present.snapshot, text));
    let tokens = home.join("tokens");
    let folders = [home.clone(), home.join("policies"), tokens.clone()];
    Ok(InitPlan {
        grants,
        writes: outputs,
        folders: folders.into_iter().filter(|folder| !folder.exists()).collect(),
        token_directory: tokens,
    })
}

/// One for each client and server, under labels that are free.
fn plan_grants(
    import: &ServerImport,
    seen: &[ScannedServer],
    taken: &BTreeSet<String>,
    tokens: &Path,
) -> Vec<PlannedGrant> {
    let mut grants: Vec<PlannedGrant> = Vec::new();
    for server in &import.servers {
        for client in server.scanned_indices.iter().filter_map(|&at| seen.get(at)).map(|one| one.location.client) {
            if grants.iter().any(|grant| grant.client == client.id && grant.server == server.name) {
                continue;
            }
            let plain = format!("{}-{}", client.id, server.name);
            let numbered = (2..).map(|number| format!("{plain}-{number}"));
            let is_free = |label: &String| {
                !taken.contains(label)
                    && !tokens.join(label).exists()
                    && grants.iter().all(|grant| grant.label != *label)
            };
            let label = [plain.clone()].into_iter().chain(numbered).find(is_free).unwrap_or_default();
            let variable = format!("{DEFAULT_TOKEN_ENV}_{}", variable_name(&label));
            grants.push(PlannedGrant { label, client: client.id, server: server.name.clone(), variable });
        }
    }
    grants
}
