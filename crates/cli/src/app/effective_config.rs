//! What is in force: what the file says together with what the store has. Where both have a name, the file's counts.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use gatelodge_gateway::{
    ActivePolicy, GrantConfig, PinningSettings, ServerAccess, UpstreamConfig, UpstreamHttpConfig, UpstreamTransport,
};
use gatelodge_policy::{DocumentFormat, parse};
use gatelodge_store::{EnforcementMode, Grant, GrantAttachment, StoreError, StoredPolicy, StoredServer};
use jiff::Timestamp;

use super::StoreHandles;
use crate::config::ConfigEntries;
use crate::header_template::{self, EnvironmentLookup};
use crate::server_url;

/// What the store has.
#[derive(Debug, Default)]
pub struct StoredConfig {
    /// Its servers.
    pub servers: Vec<StoredServer>,
    /// Its policies, at the versions in force.
    pub policies: Vec<StoredPolicy>,
    /// Its grants, ended ones too.
    pub grants: Vec<Grant>,
}

/// What the gateway is to put in force, and what people should know about it.
#[derive(Debug, Default)]
pub struct EffectiveConfig {
    /// The servers.
    pub servers: Vec<UpstreamConfig>,
    /// The grants.
    pub grants: Vec<GrantConfig>,
    /// What was left out or overruled, and why.
    pub warnings: Vec<String>,
}

/// Reads what the store has.
pub async fn load_stored_config(stores: &StoreHandles) -> Result<StoredConfig, StoreError> {
    let mut policies = Vec::new();
    for summary in stores.policies.list().await? {
        policies.push(stores.policies.get(&summary.name, Some(summary.version)).await?);
    }
    Ok(StoredConfig { servers: stores.servers.list().await?, policies, grants: stores.grants.list().await? })
}

/// Puts the two together.
pub fn merge_config(
    entries: &ConfigEntries,
    stored: &StoredConfig,
    environment: EnvironmentLookup<'_>,
) -> EffectiveConfig {
    let mut picture =
        EffectiveConfig { servers: entries.servers.clone(), grants: entries.grants.clone(), warnings: Vec::new() };
    let mut taken: HashSet<String> = entries.servers.iter().map(|server| server.name.to_string()).collect();
    for server in &stored.servers {
        if taken.insert(server.name.to_string()) {
            picture.add_server(server, environment);
        } else {
            picture.warnings.push(duplicate_warning("server", server.name.as_str()));
        }
    }
    let policies = picture.merge_policies(entries, stored);
    let labels: HashSet<&str> = entries.grants.iter().map(|grant| grant.label.as_ref()).collect();
    let tokens: HashSet<_> = entries.grants.iter().map(|grant| grant.token).collect();
    for grant in stored.grants.iter().filter(|grant| grant.revoked_at.is_none()) {
        if labels.contains(grant.label.as_str()) {
            picture.warnings.push(duplicate_warning("grant", &grant.label));
        } else if tokens.contains(&grant.token) {
            picture
                .warnings
                .push(format!("grant `{}` has the token of a grant in the file, which counts", grant.label));
        } else {
            picture.add_grant(grant, &policies, &taken);
        }
    }
    picture
}

fn duplicate_warning(what: &str, name: &str) -> String {
    format!("{what} `{name}` is in the file and in the store; the file's counts")
}

impl EffectiveConfig {
    fn add_server(&mut self, server: &StoredServer, environment: EnvironmentLookup<'_>) {
        let name = &server.name;
        let Ok(url) = server_url::parse_server_url(&server.url) else {
            self.warnings.push(format!("server `{name}` is left out: its address cannot be used"));
            return;
        };
        let injected: Result<Vec<_>, _> = server
            .headers
            .iter()
            .map(|(header, value)| {
                header_template::expand_header(header, value, environment).map_err(|fault| fault.message(header))
            })
            .collect();
        match injected {
            Ok(headers) => {
                let (way, log_arguments) =
                    (UpstreamTransport::Http(UpstreamHttpConfig { url, headers }), server.log_arguments);
                let accepting = PinningSettings {
                    review: server.review,
                    accept_new: server.accept_new,
                    ..PinningSettings::default()
                };
                self.servers.push(UpstreamConfig {
                    name: name.clone(),
                    transport: way,
                    log_arguments,
                    pinning: accepting,
                });
            }
            // Without its credential the server would only refuse, or worse, serve as somebody else.
            Err(why) => self.warnings.push(format!("server `{name}` is left out: {why}")),
        }
    }

    fn merge_policies(&mut self, entries: &ConfigEntries, stored: &StoredConfig) -> HashMap<String, Arc<ActivePolicy>> {
        let of_file = entries.policies.iter().map(|policy| (policy.name.to_string(), Arc::clone(policy)));
        let mut policies: HashMap<_, _> = of_file.collect();
        for stored in &stored.policies {
            if policies.contains_key(stored.name.as_str()) {
                self.warnings.push(duplicate_warning("policy", stored.name.as_str()));
                continue;
            }
            let format = if stored.is_yaml { DocumentFormat::Yaml } else { DocumentFormat::Json };
            match parse(stored.text.as_bytes(), format) {
                Ok(policy) => {
                    let live = ActivePolicy { name: stored.name.clone(), version: stored.version, policy };
                    policies.insert(stored.name.to_string(), Arc::new(live));
                }
                Err(_) => self.warnings.push(format!(
                    "policy `{}` version {} does not load: grants with it are refused every call",
                    stored.name, stored.version
                )),
            }
        }
        policies
    }

    fn add_grant(&mut self, grant: &Grant, policies: &HashMap<String, Arc<ActivePolicy>>, servers: &HashSet<String>) {
        let label = &grant.label;
        let Ok(minimum_revision) = grant.minimum_revision.as_deref().map(str::parse).transpose() else {
            self.warnings.push(format!("grant `{label}` is left out: it wants a revision that is not known here"));
            return;
        };
        let mut doors = HashMap::new();
        for GrantAttachment { server, policy, mode } in &grant.attachments {
            if !servers.contains(server.as_str()) {
                self.warnings.push(format!("grant `{label}` is for a server `{server}`, which is not there"));
            }
            let found = policy.as_ref().and_then(|name| policies.get(name.as_str())).cloned();
            if found.is_none() {
                let missing = |name| format!("policy `{name}` is not there");
                let why = policy.as_ref().map_or_else(|| "it has no policy".to_owned(), missing);
                self.warnings.push(format!("grant `{label}` is refused every call to `{server}`: {why}"));
            }
            doors.insert(server.clone(), ServerAccess { policy: found, mode: *mode });
        }
        self.grants.push(GrantConfig {
            id: grant.id.clone(),
            label: label.as_str().into(),
            labels: grant.labels.clone(),
            token: grant.token,
            expires: grant.expires_at,
            minimum_revision,
            servers: doors,
        });
    }

    /// Grants that have ended, and when.
    pub fn expired_grants(&self, now: Timestamp) -> Vec<(&str, Timestamp)> {
        expired_grants(&self.grants, now)
    }

    /// Grants whose policy refuses nothing, with their servers.
    pub fn observing_grants(&self) -> Vec<(String, String)> {
        let mut names = Vec::new();
        for grant in &self.grants {
            let observing = grant.servers.iter().filter(|(_, door)| door.mode == EnforcementMode::Observe);
            names.extend(observing.map(|(server, _)| (grant.label.to_string(), server.to_string())));
        }
        names.sort();
        names
    }
}

/// Those of the grants that have ended, and when.
pub fn expired_grants(grants: &[GrantConfig], now: Timestamp) -> Vec<(&str, Timestamp)> {
    let ended = |grant: &'_ GrantConfig| grant.expires.filter(|end| *end <= now);
    grants.iter().filter_map(|grant| Some((grant.label.as_ref(), ended(grant)?))).collect()
}
