//! The active configuration: the entries from the configuration file merged with the stored ones. If both have an entry
//! with the same name, the one from the file takes precedence.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use gatelodge_admin::header_template::EnvironmentLookup;
use gatelodge_admin::server_url;
use gatelodge_gateway::{
    ActivePolicy, GrantConfig, GrantServerAccess, PinningSettings, UpstreamConfig, UpstreamHttpConfig,
    UpstreamTransport,
};
use gatelodge_store::{EnforcementMode, Grant, GrantServerAttachment, Store, StoreError, StoredPolicy, StoredServer};
use jiff::Timestamp;

use crate::config::ConfigFileEntries;
use crate::header_expansion;
use crate::policy_cache::PolicyCache;

/// Configuration entries read from the store.
#[derive(Debug, Default)]
pub struct StoredConfig {
    /// Stored servers.
    pub servers: Vec<StoredServer>,
    /// The active version of each stored policy.
    pub policies: Vec<StoredPolicy>,
    /// Stored grants, including revoked ones.
    pub grants: Vec<Grant>,
}

/// The active configuration, with warnings for operators.
#[derive(Debug, Default)]
pub struct EffectiveConfig {
    /// Servers that clients can reach.
    pub servers: Vec<UpstreamConfig>,
    /// Grants that are not revoked.
    pub grants: Vec<GrantConfig>,
    /// Warnings about entries that are left out, overridden or incomplete, with reasons.
    pub warnings: Vec<String>,
}

/// Reads the configuration entries from the store.
pub async fn load_stored_config(stores: &Store) -> Result<StoredConfig, StoreError> {
    let mut policies = Vec::new();
    for summary in stores.policies.list().await? {
        policies.push(stores.policies.get(&summary.name, Some(summary.version)).await?);
    }
    Ok(StoredConfig { servers: stores.servers.list().await?, policies, grants: stores.grants.list().await? })
}

/// Merges the entries from the file with the stored ones. Stored policies whose text is in `policies` are not compiled
/// again; afterwards it contains those of this configuration.
pub fn merge_config(
    entries: &ConfigFileEntries,
    stored: &StoredConfig,
    environment: EnvironmentLookup<'_>,
    policies: &mut PolicyCache,
) -> EffectiveConfig {
    let mut config =
        EffectiveConfig { servers: entries.servers.clone(), grants: entries.grants.clone(), warnings: Vec::new() };
    let mut taken: HashSet<String> = entries.servers.iter().map(|server| server.name.to_string()).collect();
    for server in &stored.servers {
        if taken.insert(server.name.to_string()) {
            config.add_server(server, environment);
        } else {
            config.warnings.push(duplicate_warning("server", server.name.as_str()));
        }
    }
    let policies = config.merge_policies(entries, stored, policies);
    let labels: HashSet<&str> = entries.grants.iter().map(|grant| grant.label.as_ref()).collect();
    let tokens: HashSet<_> = entries.grants.iter().map(|grant| grant.token).collect();
    for grant in stored.grants.iter().filter(|grant| grant.revoked_at.is_none()) {
        if labels.contains(grant.label.as_str()) {
            config.warnings.push(duplicate_warning("grant", &grant.label));
        } else if tokens.contains(&grant.token) {
            config
                .warnings
                .push(format!("grant `{}` has the token of a grant in the file, which takes precedence", grant.label));
        } else {
            config.add_grant(grant, &policies, &taken);
        }
    }
    config
}

/// Returns the end of the warning about a grant whose server does not exist. `doctor` recognizes the warning by this
/// ending, and omits it if the running gateway has that server.
pub fn missing_server_text(server: &str) -> String {
    format!(" refers to a server `{server}`, which does not exist")
}

fn duplicate_warning(what: &str, name: &str) -> String {
    format!("{what} `{name}` is in the file and in the store; the file takes precedence")
}

impl EffectiveConfig {
    fn add_server(&mut self, server: &StoredServer, environment: EnvironmentLookup<'_>) {
        let name = &server.name;
        let Ok(url) = server_url::parse_server_url(&server.url) else {
            self.warnings.push(format!("server `{name}` is left out: its URL is invalid"));
            return;
        };
        let injected: Result<Vec<_>, _> = server
            .headers
            .iter()
            .map(|(header, value)| {
                header_expansion::expand_header(header, value, environment).map_err(|error| error.message(header))
            })
            .collect();
        match injected {
            Ok(headers) => {
                let (transport, log_arguments) =
                    (UpstreamTransport::Http(UpstreamHttpConfig { url, headers }), server.log_arguments);
                let pinning = PinningSettings {
                    review: server.review,
                    accept_new: server.accept_new,
                    ..PinningSettings::default()
                };
                self.servers.push(UpstreamConfig { name: name.clone(), transport, log_arguments, pinning });
            }
            // Without its credential the server would refuse every call or, worse, serve it with other permissions.
            Err(reason) => self.warnings.push(format!("server `{name}` is left out: {reason}")),
        }
    }

    fn merge_policies(
        &mut self,
        entries: &ConfigFileEntries,
        stored: &StoredConfig,
        cache: &mut PolicyCache,
    ) -> HashMap<String, Arc<ActivePolicy>> {
        let from_file = entries.policies.iter().map(|policy| (policy.name.to_string(), Arc::clone(policy)));
        let mut policies: HashMap<_, _> = from_file.collect();
        for stored in &stored.policies {
            if policies.contains_key(stored.name.as_str()) {
                self.warnings.push(duplicate_warning("policy", stored.name.as_str()));
                continue;
            }
            match cache.compile_stored(stored) {
                Some(policy) => {
                    policies.insert(stored.name.to_string(), policy);
                }
                None => self.warnings.push(format!(
                    "policy `{}` version {} is invalid: calls under grants that use it are refused",
                    stored.name, stored.version
                )),
            }
        }
        cache.remove_unused();
        policies
    }

    fn add_grant(&mut self, grant: &Grant, policies: &HashMap<String, Arc<ActivePolicy>>, servers: &HashSet<String>) {
        let label = &grant.label;
        let Ok(minimum_revision) = grant.minimum_revision.as_deref().map(str::parse).transpose() else {
            self.warnings.push(format!("grant `{label}` is left out: its minimum protocol revision is unknown"));
            return;
        };
        let mut accesses = HashMap::new();
        for GrantServerAttachment { server, policy, mode } in &grant.attachments {
            if !servers.contains(server.as_str()) {
                self.warnings.push(format!("grant `{label}`{}", missing_server_text(server.as_str())));
            }
            let found = policy.as_ref().and_then(|name| policies.get(name.as_str())).cloned();
            if found.is_none() {
                let missing = |name| format!("policy `{name}` does not exist");
                let reason = policy.as_ref().map_or_else(|| "it has no policy".to_owned(), missing);
                self.warnings.push(format!("every call of grant `{label}` to `{server}` is refused: {reason}"));
            }
            accesses.insert(server.clone(), GrantServerAccess { policy: found, mode: *mode });
        }
        self.grants.push(GrantConfig {
            id: grant.id.clone(),
            label: label.as_str().into(),
            labels: grant.labels.clone(),
            token: grant.token,
            expires: grant.expires_at,
            minimum_revision,
            servers: accesses,
        });
    }

    /// Returns the labels of expired grants, and when each expired.
    pub fn expired_grants(&self, now: Timestamp) -> Vec<(&str, Timestamp)> {
        expired_grants(&self.grants, now)
    }

    /// Returns grants in observe mode, with their servers.
    pub fn observing_grants(&self) -> Vec<(String, String)> {
        let mut names = Vec::new();
        for grant in &self.grants {
            let observing = grant.servers.iter().filter(|(_, access)| access.mode == EnforcementMode::Observe);
            names.extend(observing.map(|(server, _)| (grant.label.to_string(), server.to_string())));
        }
        names.sort();
        names
    }
}

/// Returns the labels of expired grants, and when each expired.
pub fn expired_grants(grants: &[GrantConfig], now: Timestamp) -> Vec<(&str, Timestamp)> {
    let expiry = |grant: &'_ GrantConfig| grant.expires.filter(|expires| *expires <= now);
    grants.iter().filter_map(|grant| Some((grant.label.as_ref(), expiry(grant)?))).collect()
}
