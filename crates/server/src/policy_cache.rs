//! Compiled policies, kept from one configuration to the next, so that a change compiles only the policies whose text
//! changed.
//!
//! Compiling a large policy with many schemas takes seconds. A policy that is taken from the cache is also the same
//! object as before, which tells the gateway that calls and streams under it see no change.

use std::collections::HashMap;
use std::sync::Arc;

use gatelodge_gateway::ActivePolicy;
use gatelodge_policy::{Diagnostic, DocumentFormat, lint, parse};
use gatelodge_store::{PolicyName, PolicyVersionNumber, StoredPolicy};
use sha2::{Digest, Sha256};

/// Version number that the log shows for policies from the configuration file, which are not versioned.
const FILE_POLICY_VERSION: PolicyVersionNumber = PolicyVersionNumber(0);

/// Compiled policies of one source: the configuration file or the store.
#[derive(Debug, Default)]
pub struct PolicyCache {
    policies: HashMap<PolicyKey, CachedPolicy>,
    #[cfg(test)]
    pub(crate) compile_hook: CompileHook,
}

/// Everything that a compiled policy depends on, except for the time zone database.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct PolicyKey {
    name: PolicyName,
    version: PolicyVersionNumber,
    is_yaml: bool,
    text_digest: [u8; 32],
}

#[derive(Debug)]
struct CachedPolicy {
    checked: CheckedPolicy,
    /// Whether the policy was requested since the last [`PolicyCache::remove_unused`].
    is_used: bool,
}

/// A policy document after compilation.
#[derive(Debug, Clone)]
pub struct CheckedPolicy {
    /// The compiled policy, or `None` if the document has errors.
    pub policy: Option<Arc<ActivePolicy>>,
    /// Errors and warnings. A stored policy was linted when it was put, so it has none here.
    pub diagnostics: Vec<Diagnostic>,
}

impl PolicyCache {
    /// Compiles a stored policy, unless it is cached. Returns `None` if it has errors.
    pub fn compile_stored(&mut self, stored: &StoredPolicy) -> Option<Arc<ActivePolicy>> {
        let format = if stored.is_yaml { DocumentFormat::Yaml } else { DocumentFormat::Json };
        let text = stored.text.as_bytes();
        let key = PolicyKey::new(&stored.name, stored.version, format, text);
        self.compile_if_new(key, || (parse(text, format).ok(), Vec::new())).policy
    }

    /// Compiles and lints a policy from the configuration file, unless it is cached.
    pub fn compile_file(&mut self, name: &PolicyName, text: &[u8], format: DocumentFormat) -> CheckedPolicy {
        let key = PolicyKey::new(name, FILE_POLICY_VERSION, format, text);
        self.compile_if_new(key, || (parse(text, format).ok(), lint(text, format, None)))
    }

    /// Removes the policies that were not requested since the last call.
    pub fn remove_unused(&mut self) {
        self.policies.retain(|_, cached| std::mem::take(&mut cached.is_used));
    }

    fn compile_if_new(
        &mut self,
        key: PolicyKey,
        compile: impl FnOnce() -> (Option<gatelodge_policy::Policy>, Vec<Diagnostic>),
    ) -> CheckedPolicy {
        if let Some(cached) = self.policies.get_mut(&key) {
            cached.is_used = true;
            return cached.checked.clone();
        }
        #[cfg(test)]
        self.compile_hook.run(&key.name);
        let (policy, diagnostics) = compile();
        let (name, version) = (key.name.clone(), key.version);
        let policy = policy.map(|policy| Arc::new(ActivePolicy { name, version, policy }));
        let checked = CheckedPolicy { policy, diagnostics };
        self.policies.insert(key, CachedPolicy { checked: checked.clone(), is_used: true });
        checked
    }
}

impl PolicyKey {
    fn new(name: &PolicyName, version: PolicyVersionNumber, format: DocumentFormat, text: &[u8]) -> Self {
        let is_yaml = format == DocumentFormat::Yaml;
        Self { name: name.clone(), version, is_yaml, text_digest: Sha256::digest(text).into() }
    }
}

/// A function that tests run before each compilation.
#[cfg(test)]
#[derive(Default)]
pub(crate) struct CompileHook(pub Option<OnCompile>);

#[cfg(test)]
type OnCompile = Box<dyn Fn(&PolicyName) + Send>;

#[cfg(test)]
impl CompileHook {
    fn run(&self, name: &PolicyName) {
        if let Some(hook) = &self.0 {
            hook(name);
        }
    }
}

#[cfg(test)]
impl std::fmt::Debug for CompileHook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CompileHook")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DENY: &[u8] = br#"{"version": "1", "default": "deny"}"#;
    const ALLOW: &[u8] = br#"{"version": "1", "default": "allow"}"#;

    fn name(text: &str) -> PolicyName {
        text.parse().expect("a name")
    }

    fn compile(cache: &mut PolicyCache, own: &str, text: &[u8]) -> Arc<ActivePolicy> {
        cache.compile_file(&name(own), text, DocumentFormat::Json).policy.expect("a policy")
    }

    #[test]
    fn an_unchanged_policy_is_the_same_object_and_a_changed_one_is_not() {
        let mut cache = PolicyCache::default();
        let (first, second) = (compile(&mut cache, "a", DENY), compile(&mut cache, "b", DENY));
        assert!(!Arc::ptr_eq(&first, &second), "two policies with the same text have their own names");
        cache.remove_unused();
        assert!(Arc::ptr_eq(&first, &compile(&mut cache, "a", DENY)));
        assert!(!Arc::ptr_eq(&second, &compile(&mut cache, "b", ALLOW)));
    }

    #[test]
    fn a_policy_that_was_not_requested_is_removed() {
        let mut cache = PolicyCache::default();
        let first = compile(&mut cache, "a", DENY);
        cache.remove_unused();
        assert!(Arc::ptr_eq(&first, &compile(&mut cache, "a", DENY)));
        cache.remove_unused();
        cache.remove_unused();
        assert!(!Arc::ptr_eq(&first, &compile(&mut cache, "a", DENY)));
    }

    #[test]
    fn errors_are_reported_again_for_an_unchanged_document() {
        let mut cache = PolicyCache::default();
        let text = br#"{"version": "1", "default": "perhaps"}"#;
        let first = cache.compile_file(&name("a"), text, DocumentFormat::Json);
        let again = cache.compile_file(&name("a"), text, DocumentFormat::Json);
        assert!(first.policy.is_none() && !first.diagnostics.is_empty());
        assert_eq!(first.diagnostics.len(), again.diagnostics.len());
    }
}
