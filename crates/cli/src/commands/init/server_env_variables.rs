//! Collects the values of imported servers' environment variables and headers, and assigns an environment variable of
//! the gateway to each value. The names may be printed, but never the values.

use std::collections::BTreeMap;
use std::fmt;

use gatelodge_admin::header_template;
use gatelodge_clients::{ClientConfigEntryValue, ClientServerEntry};

/// Environment variables that affect most programs. If a server sets one of them, its value is kept in a variable with
/// a different name, so that the gateway's own environment does not change.
const COMMON_VARIABLES: &[&str] = &["PATH", "HOME", "USER", "SHELL", "LANG", "PWD", "TMPDIR", "TMP", "TEMP"];

/// A value that may be a secret; `Debug` does not print it.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretValue(pub String);

impl fmt::Debug for SecretValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// Environment variables by name, each with its value from a client's file, or `None` if the file does not contain the
/// value.
#[derive(Debug, Default)]
pub struct ServerEnvVariables(BTreeMap<String, Option<SecretValue>>);

impl ServerEnvVariables {
    /// Adds the values of a server's variables or headers, and returns `${NAME}` references that replace the values.
    pub fn add_server_values(
        &mut self,
        server: &str,
        entry: &ClientServerEntry,
        values: &[(String, ClientConfigEntryValue)],
    ) -> Vec<(String, String)> {
        let mut references = Vec::new();
        for (name, value) in values {
            let text = match value {
                ClientConfigEntryValue::EnvReference(text) => {
                    for variable in header_template::referenced_variables(text) {
                        self.0.entry(variable).or_insert(None);
                    }
                    text.clone()
                }
                ClientConfigEntryValue::Literal(text) => {
                    self.allocate_reference(server, entry, name, Some(SecretValue(text.clone())))
                }
                ClientConfigEntryValue::ClientOnly => self.allocate_reference(server, entry, name, None),
            };
            references.push((name.clone(), text));
        }
        references
    }

    /// Returns the sorted names of the variables that the user has to set. If known values are copied, only the
    /// variables without a known value are returned.
    pub fn required_names(&self, are_copied: bool) -> Vec<&str> {
        let is_left = |secret: &Option<SecretValue>| !are_copied || secret.is_none();
        self.0.iter().filter(|(_, secret)| is_left(secret)).map(|(name, _)| name.as_str()).collect()
    }

    /// Returns the variables whose values are known.
    pub fn known_values(&self) -> impl Iterator<Item = (&str, &SecretValue)> {
        self.0.iter().filter_map(|(name, secret)| Some((name.as_str(), secret.as_ref()?)))
    }

    /// Returns a reference to a new variable, or to an existing one that has the same value.
    fn allocate_reference(
        &mut self,
        server: &str,
        entry: &ClientServerEntry,
        name: &str,
        secret: Option<SecretValue>,
    ) -> String {
        let own = variable_name(name);
        let long = variable_name(&format!("{server}_{name}"));
        // The name of a header does not say which server it belongs to.
        let is_usable = matches!(entry, ClientServerEntry::Command { .. }) && !COMMON_VARIABLES.contains(&own.as_str());
        let numbered = (2..).map(|number| format!("{long}_{number}"));
        let names = is_usable.then_some(own).into_iter().chain([long.clone()]).chain(numbered);
        let is_free = |name: &String| match self.0.get(name) {
            None => true,
            Some(known) => secret.is_some() && *known == secret,
        };
        let name = names.into_iter().find(is_free).unwrap_or_default();
        let reference = format!("${{{name}}}");
        self.0.insert(name, secret);
        reference
    }
}

/// Converts any string to a valid environment variable name.
pub fn variable_name(text: &str) -> String {
    let letter = |letter: char| if letter.is_ascii_alphanumeric() { letter.to_ascii_uppercase() } else { '_' };
    let name: String = text.chars().map(letter).collect();
    if name.starts_with(|first: char| first.is_ascii_digit()) || name.is_empty() { format!("_{name}") } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_value_gets_a_variable_and_equal_values_share_one() {
        let command = ClientServerEntry::Command { argv: Vec::new(), env: Vec::new(), cwd: None };
        let remote = ClientServerEntry::Remote { url: String::new(), headers: Vec::new(), is_sse: false };
        let value = |name: &str, text: &str| vec![(name.to_owned(), ClientConfigEntryValue::Literal(text.to_owned()))];
        let mut variables = ServerEnvVariables::default();
        assert_eq!(variables.add_server_values("a", &command, &value("KEY", "1"))[0].1, "${KEY}");
        assert_eq!(variables.add_server_values("b", &command, &value("KEY", "1"))[0].1, "${KEY}");
        assert_eq!(variables.add_server_values("c", &command, &value("KEY", "2"))[0].1, "${C_KEY}");
        assert_eq!(variables.add_server_values("d", &command, &value("PATH", "/x"))[0].1, "${D_PATH}");
        assert_eq!(variables.add_server_values("e-f", &remote, &value("X-Key", "1"))[0].1, "${E_F_X_KEY}");
        let references =
            vec![("Authorization".to_owned(), ClientConfigEntryValue::EnvReference("Bearer ${KEY2}".to_owned()))];
        assert_eq!(variables.add_server_values("g", &remote, &references)[0].1, "Bearer ${KEY2}");
        assert_eq!(variables.required_names(false), ["C_KEY", "D_PATH", "E_F_X_KEY", "KEY", "KEY2"]);
        assert_eq!(variables.required_names(true), ["KEY2"]);
        assert_eq!(variables.known_values().count(), 4);
        assert!(!format!("{variables:?}").contains("/x"));
    }
}
