//! Plans the content of all of the gateway's files before any of them is written.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use gatelodge_clients::DEFAULT_TOKEN_ENV;
use gatelodge_store::GrantToken;

use super::client_scan::ClientScanEntry;
use super::import_servers::ServerImport;
use super::render_init_files;
use super::server_env_variables::variable_name;
use crate::client_files::{ClientFileSnapshot, PlannedWrite};
use crate::exit_code::UsageError;

/// A grant for one client and one server. In the configuration file, a grant can have only one server.
#[derive(Debug)]
pub struct PlannedGrant {
    /// Label of the grant, which is also the name of its token file.
    pub label: String,
    /// Id of the client that gets the grant.
    pub client: &'static str,
    /// Name of the server in the gateway's configuration.
    pub server: String,
    /// Environment variable from which the client reads the token.
    pub variable: String,
}

/// The gateway's files that `init` will write.
#[derive(Debug)]
pub struct InitPlan {
    /// Grants to create.
    pub grants: Vec<PlannedGrant>,
    /// Files to write. The configuration comes last, after the files that it refers to.
    pub writes: Vec<PlannedWrite>,
    /// Folders to create.
    pub folders: Vec<PathBuf>,
    /// Directory that contains the token files.
    pub token_directory: PathBuf,
}

/// The existing configuration file, parsed.
#[derive(Debug)]
pub struct ExistingConfig {
    snapshot: ClientFileSnapshot,
    text: String,
    table: toml::Table,
}

impl ExistingConfig {
    /// Reads and parses the configuration. A missing file is treated as empty.
    pub fn read(path: &Path) -> Result<Self> {
        let path = &std::path::absolute(path)?;
        let bad = |what: String| UsageError(format!("`{}`: {what}", path.display()));
        let snapshot = ClientFileSnapshot::read(path).map_err(|error| bad(error.0))?;
        let text = String::from_utf8(snapshot.bytes().unwrap_or_default().to_vec())
            .map_err(|_| bad("it is not UTF-8".into()))?;
        let table = toml::from_str(&text)
            .map_err(|_| bad("it is not TOML; `gatelodge serve --check` shows the errors".into()))?;
        Ok(Self { snapshot, text, table })
    }

    /// Returns the values of `field` in all sections named `section`.
    pub fn section_names(&self, section: &str, field: &str) -> BTreeSet<String> {
        let sections = self.table.get(section).and_then(toml::Value::as_array);
        sections.into_iter().flatten().filter_map(|one| one.get(field)?.as_str().map(str::to_owned)).collect()
    }

    /// Returns the names that a new server cannot have. These include policy names, because each server gets a policy
    /// of the same name.
    pub fn reserved_names(&self) -> BTreeSet<String> {
        self.section_names("servers", "name").into_iter().chain(self.section_names("policies", "name")).collect()
    }
}

/// Plans the grants and files for the imported servers.
pub fn plan_files(
    existing: ExistingConfig,
    import: &ServerImport,
    scanned: &[ClientScanEntry],
    copy_secrets: bool,
) -> Result<InitPlan> {
    let home = existing.snapshot.path().parent().unwrap_or(Path::new("/")).to_owned();
    let grants = plan_grants(import, scanned, &existing.section_names("grants", "label"), &home.join("tokens"));
    let mut outputs = Vec::new();
    let mut put = |name: &str, text: String| -> Result<()> {
        let snapshot = ClientFileSnapshot::read(&home.join(name)).with_context(|| format!("cannot write `{name}`"))?;
        if snapshot.bytes().is_some() {
            return Err(UsageError(format!(
                "`{}` already exists; move it, or name another `--config`",
                snapshot.path().display()
            ))
            .into());
        }
        outputs.push(PlannedWrite::own_file(snapshot, text));
        Ok(())
    };
    let mut sections =
        if existing.text.is_empty() { render_init_files::CONFIG_HEADER.to_owned() } else { existing.text.clone() };
    for server in &import.servers {
        let file = format!("policies/{}.json", server.name);
        put(&file, render_init_files::starter_policy(&server.name))?;
        sections.push_str(&render_init_files::server_section(server, &file));
    }
    for grant in &grants {
        put(&format!("tokens/{}", grant.label), format!("{}\n", GrantToken::random()?.reveal()))?;
        sections.push_str(&render_init_files::grant_section(grant));
    }
    put("tokens/export.sh", render_init_files::export_script(&grants, &home.join("tokens")))?;
    if copy_secrets && import.variables.known_values().next().is_some() {
        put(
            "gatelodge.env",
            render_init_files::env_file_text(
                import.variables.known_values().map(|(name, secret)| (name, secret.0.as_str())),
            ),
        )?;
    }
    toml::from_str::<toml::Table>(&sections)
        .map_err(|_| UsageError("the configuration writes its sections in a form that `init` cannot extend".into()))?;
    let text =
        if existing.text.contains("\r\n") { sections.replace("\r\n", "\n").replace('\n', "\r\n") } else { sections };
    outputs.push(PlannedWrite::own_file(existing.snapshot, text));
    let tokens = home.join("tokens");
    let folders = [home.clone(), home.join("policies"), tokens.clone()];
    Ok(InitPlan {
        grants,
        writes: outputs,
        folders: folders.into_iter().filter(|folder| !folder.exists()).collect(),
        token_directory: tokens,
    })
}

/// Plans one grant for each pair of client and server. Each grant gets a label that is not in use yet.
fn plan_grants(
    import: &ServerImport,
    scanned: &[ClientScanEntry],
    taken: &BTreeSet<String>,
    tokens: &Path,
) -> Vec<PlannedGrant> {
    let mut grants: Vec<PlannedGrant> = Vec::new();
    for server in &import.servers {
        for client in server.scanned_indices.iter().filter_map(|&at| scanned.get(at)).map(|one| one.location.client) {
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
