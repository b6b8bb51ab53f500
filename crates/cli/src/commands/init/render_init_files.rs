//! Generates the content of the files that `init` writes: configuration sections, starter policies and shell scripts.

use std::path::Path;

use gatelodge_clients::{ClientServerEntry, quote_for_shell};
use toml_edit::{Key, Value};

use super::import_servers::ImportedServer;
use super::init_plan::PlannedGrant;

/// First line of a new configuration file.
pub const CONFIG_HEADER: &str = "# Written by `gatelodge init`; all settings are in docs/config.md.\n";

/// Returns the configuration sections for a server and its policy.
pub fn server_section(server: &ImportedServer, policy_file: &str) -> String {
    let name = toml_string(&server.name);
    let mut out = format!("\n[[servers]]\nname = {name}\n");
    let values = match &server.entry {
        ClientServerEntry::Command { argv: words, cwd, .. } => {
            let words: Vec<String> = words.iter().map(|word| toml_string(word)).collect();
            out.push_str(&format!("command = [{}]\n", words.join(", ")));
            cwd.iter().for_each(|cwd| out.push_str(&format!("directory = {}\n", toml_string(cwd))));
            "env"
        }
        ClientServerEntry::Remote { url, .. } => {
            out.push_str(&format!("url = {}\n", toml_string(url)));
            "headers"
        }
    };
    if !server.values.is_empty() {
        let fields: Vec<String> = server
            .values
            .iter()
            .map(|(name, value)| format!("{} = {}", Key::new(name).display_repr(), toml_string(value)))
            .collect();
        out.push_str(&format!("{values} = {{ {} }}\n", fields.join(", ")));
    }
    out.push_str(&format!(
        "\n[[policies]]\nname = {name}\n# Everything is allowed and recorded, until you tighten it.\nfile = {}\n",
        toml_string(policy_file)
    ));
    out
}

/// Returns the configuration section for a grant.
pub fn grant_section(grant: &PlannedGrant) -> String {
    let (label, file) = (toml_string(&grant.label), toml_string(&format!("tokens/{}", grant.label)));
    let server = toml_string(&grant.server);
    format!("\n[[grants]]\nlabel = {label}\ntoken_file = {file}\nserver = {server}\npolicy = {server}\n")
}

/// Returns the initial policy for an imported server. It denies no tool, because denied calls would break agents that
/// have worked so far, and it is not known yet which tools they need.
pub fn starter_policy(server: &str) -> String {
    format!(
        r#"// The first policy of `{server}`: EVERYTHING IS ALLOWED, and everything is recorded.
// Once agents have worked for a while, draft a policy from their calls:
//   gatelodge policy draft --from-calls --server {server} --grant LABEL
{{
  "version": "1",
  "description": "everything is allowed and recorded; tighten it",
  "default": "allow",
  "all_tools": {{ "limits": [{{ "counter": "calls", "window": "minute", "max": 120 }}] }}
}}
"#
    )
}

/// Returns a shell script that exports each token, read from its file, in the environment variable that the client
/// uses.
pub fn export_script(grants: &[PlannedGrant], tokens: &Path) -> String {
    let mut out = "# Written by `gatelodge init`. Where clients start: . tokens/export.sh\n".to_owned();
    for grant in grants {
        let file = quote_for_shell(&tokens.join(&grant.label).display().to_string());
        out.push_str(&format!("export {}=\"$(cat {file})\"\n", grant.variable));
    }
    out
}

/// Returns the gateway's environment file, a shell script that sets the variables whose values were in the clients'
/// files.
pub fn env_file_text<'v>(values: impl Iterator<Item = (&'v str, &'v str)>) -> String {
    let mut out =
        "# Written by `gatelodge init --copy-secrets`. Where the gateway starts: set -a; . gatelodge.env\n".to_owned();
    for (name, value) in values {
        out.push_str(&format!("{name}='{}'\n", value.replace('\'', r"'\''")));
    }
    out
}

/// Quotes a string as a TOML value.
fn toml_string(value: &str) -> String {
    Value::from(value).to_string()
}
