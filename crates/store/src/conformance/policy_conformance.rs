//! Requirements for policies.

use std::sync::Arc;

use super::ConformanceBackend;
use super::conformance_support::{START_TIME, admin_entry, assert_not_found, timestamp};
use crate::{PolicyName, PolicyVersionNumber, StoredPolicy};

pub(super) fn policy(name: &str, text: &str) -> StoredPolicy {
    StoredPolicy {
        name: name.parse().expect("a name"),
        version: PolicyVersionNumber(99),
        text: text.into(),
        is_yaml: text.starts_with("version:"),
        restores: None,
        created_at: timestamp(START_TIME),
        created_by: "ann".into(),
    }
}

fn name(text: &str) -> PolicyName {
    text.parse().expect("a name")
}

pub async fn each_put_makes_a_new_version(backend: &ConformanceBackend) {
    let first = policy("books", "{}");
    let second = StoredPolicy { restores: Some(PolicyVersionNumber(1)), ..policy("books", "version: 1\n") };
    assert_eq!(backend.store.policies.put(first.clone(), admin_entry()).await.expect("put"), PolicyVersionNumber(1));
    assert_eq!(backend.store.policies.put(second.clone(), admin_entry()).await.expect("put"), PolicyVersionNumber(2));
    assert_eq!(
        backend.store.policies.put(policy("other", "{}"), admin_entry()).await.expect("put"),
        PolicyVersionNumber(1)
    );
    let first = StoredPolicy { version: PolicyVersionNumber(1), ..first };
    let second = StoredPolicy { version: PolicyVersionNumber(2), ..second };
    assert_eq!(backend.store.policies.get(&name("books"), None).await.expect("the active one"), second);
    assert_eq!(
        backend.store.policies.get(&name("books"), Some(PolicyVersionNumber(1))).await.expect("the first"),
        first
    );
    assert_eq!(backend.store.policies.versions(&name("books")).await.expect("versions"), [second, first]);
}

pub async fn a_missing_policy_is_not_found(backend: &ConformanceBackend) {
    assert_not_found(backend.store.policies.get(&name("books"), None).await);
    assert_not_found(backend.store.policies.versions(&name("books")).await);
    backend.store.policies.put(policy("books", "{}"), admin_entry()).await.expect("put");
    assert_not_found(backend.store.policies.get(&name("books"), Some(PolicyVersionNumber(2))).await);
    assert_not_found(backend.store.policies.get(&name("books"), Some(PolicyVersionNumber(0))).await);
}

pub async fn policies_are_listed_by_name_at_their_last_version(backend: &ConformanceBackend) {
    for text in ["zoo", "ark", "zoo"] {
        backend.store.policies.put(policy(text, "{}"), admin_entry()).await.expect("put");
    }
    let last = StoredPolicy { created_by: "bob".into(), ..policy("zoo", "{}") };
    backend.store.policies.put(last, admin_entry()).await.expect("put");
    let list = backend.store.policies.list().await.expect("policies");
    let listed: Vec<_> = list.iter().map(|one| (one.name.as_str(), one.version.0, one.created_by.as_str())).collect();
    assert_eq!(listed, [("ark", 1, "ann"), ("zoo", 3, "bob")]);
}

pub async fn concurrent_puts_get_different_versions(backend: &ConformanceBackend) {
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..16 {
        let policies = Arc::clone(&backend.store.policies);
        tasks.spawn(async move { policies.put(policy("books", "{}"), admin_entry()).await.expect("put").0 });
    }
    let mut versions = tasks.join_all().await;
    versions.sort_unstable();
    assert_eq!(versions, (1..=16).collect::<Vec<_>>());
}
