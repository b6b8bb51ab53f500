//! Tests of reloading.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use gatelodge_gateway::GatewaySettings;
use gatelodge_store::{AdminLogEntry, PolicyName, PolicyVersionNumber, Store, StoredPolicy};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::policy_cache::CompileHook;

#[test]
fn a_change_between_reading_and_the_first_poll_is_reported_once() {
    let dir = tempfile::tempdir().expect("a directory");
    let (path, policy) = (dir.path().join("gatelodge.toml"), dir.path().join("policy.json"));
    std::fs::write(&policy, r#"{"version": "1", "default": "deny"}"#).expect("written");
    let text = "[store]\ndata = \"data\"\n[[policies]]\nname = \"a\"\nfile = \"policy.json\"\n";
    std::fs::write(&path, text).expect("written");
    let config = config::load_config_file(&path, &|_| None, &mut PolicyCache::default())
        .expect("a file")
        .config
        .expect("a configuration");
    std::fs::write(&policy, r#"{"version": "1", "default": "allow"}"#).expect("written");
    let mut file = WatchedConfig {
        path,
        files: config.files,
        restart_only: (config.gateway, config.store),
        policies: PolicyCache::default(),
    };
    assert!(file.has_changed());
    assert!(!file.has_changed());
}

#[tokio::test]
async fn files_are_read_only_after_writing_has_finished() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("gatelodge.toml");
    let original = "[store]\ndata = \"data\"\n";
    std::fs::write(&path, original).expect("written");
    let config = config::load_config_file(&path, &|_| None, &mut PolicyCache::default())
        .expect("a file")
        .config
        .expect("a configuration");
    let mut file = WatchedConfig {
        path: path.clone(),
        files: config.files,
        restart_only: (config.gateway, config.store),
        policies: PolicyCache::default(),
    };
    // An editor that writes in place: the file is empty in between, which is a valid configuration.
    std::fs::write(&path, "").expect("emptied");
    assert!(file.has_changed());
    let (target, later) = (path.clone(), format!("{original}# more\n"));
    let text = later.clone();
    let writing = tokio::spawn(async move {
        tokio::time::sleep(FILE_SETTLE_TIME / 2).await;
        std::fs::write(&target, text).expect("written");
    });
    file.wait_until_stable().await;
    assert_eq!(std::fs::read_to_string(&path).expect("a file"), later);
    writing.await.expect("a writer");
    assert!(!file.has_changed());
}

#[tokio::test]
async fn only_the_changed_policy_is_compiled_again() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut reloader = reloader(dir.path()).await;
    let compiled = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&compiled);
    let hook = move |name: &PolicyName| log.lock().expect("no panic").push(name.to_string());
    reloader.stored_policies.compile_hook = CompileHook(Some(Box::new(hook)));
    let take_compiled = || std::mem::take(&mut *compiled.lock().expect("no panic"));
    for name in ["a", "b", "c"] {
        put_policy(&reloader.stores, name, "deny").await;
    }
    reloader.apply().await.expect("a store");
    assert_eq!(take_compiled(), ["a", "b", "c"]);
    put_policy(&reloader.stores, "b", "allow").await;
    reloader.apply().await.expect("a store");
    assert_eq!(take_compiled(), ["b"]);
    reloader.apply().await.expect("a store");
    assert!(take_compiled().is_empty());
}

#[tokio::test]
async fn a_changed_policy_file_is_compiled_without_the_others() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("gatelodge.toml");
    let policy = |name: &str, default: &str| {
        let text = format!(r#"{{"version": "1", "default": "{default}"}}"#);
        std::fs::write(dir.path().join(format!("{name}.json")), text).expect("written");
        format!("[[policies]]\nname = \"{name}\"\nfile = \"{name}.json\"\n")
    };
    std::fs::write(&path, format!("{}{}", policy("a", "deny"), policy("b", "deny"))).expect("written");
    let mut policies = PolicyCache::default();
    let config = config::load_config_file(&path, &|_| None, &mut policies).expect("a file").config;
    let config = config.expect("a configuration");
    let mut reloader = reloader(dir.path()).await;
    let restart_only = (config.gateway, config.store);
    reloader.file = Some(WatchedConfig { path, files: config.files, restart_only, policies });
    let by_name = |entries: &ConfigFileEntries, name: &str| {
        let mut found = entries.policies.iter().filter(|policy| policy.name.as_str() == name);
        Arc::clone(found.next().expect("a policy"))
    };
    let old = config.entries;
    policy("b", "allow");
    assert!(reloader.reload_file().await);
    assert!(Arc::ptr_eq(&by_name(&old, "a"), &by_name(&reloader.entries, "a")));
    assert!(!Arc::ptr_eq(&by_name(&old, "b"), &by_name(&reloader.entries, "b")));
}

/// The accepting task and the reload run in one task of a runtime with one thread, as in `run_gateway`.
#[tokio::test]
async fn connections_are_accepted_while_a_policy_compiles() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut reloader = reloader(dir.path()).await;
    put_policy(&reloader.stores, "large", "deny").await;
    let (compiling, started) = tokio::sync::oneshot::channel();
    let (answered, wait) = std::sync::mpsc::channel();
    let (compiling, has_answer) = (Mutex::new(Some(compiling)), Arc::new(AtomicBool::new(false)));
    let seen = Arc::clone(&has_answer);
    // The policy takes as long to compile as a client waits for its answer.
    let hook = move |_: &PolicyName| {
        let compiling = compiling.lock().expect("no panic").take().expect("one policy");
        compiling.send(()).expect("a client");
        seen.store(wait.recv_timeout(ANSWER_TIMEOUT).is_ok(), Ordering::Relaxed);
    };
    reloader.stored_policies.compile_hook = CompileHook(Some(Box::new(hook)));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("an address");
    let address = listener.local_addr().expect("an address");
    let client = tokio::spawn(async move {
        started.await.expect("a compilation");
        let mut connection = TcpStream::connect(address).await.expect("a listener");
        connection.write_all(b"GET /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n").await.expect("sent");
        connection.read_u8().await.expect("an answer");
        answered.send(()).expect("a compilation that waits");
    });
    let gateway = Arc::clone(&reloader.gateway);
    tokio::select! {
        _ = gateway.run(listener, None) => unreachable!("the gateway was not stopped"),
        applied = reloader.apply() => applied.expect("a store"),
    }
    assert!(has_answer.load(Ordering::Relaxed), "no connection was accepted");
    client.await.expect("a client");
}

/// How long to wait for the answer to a request.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);

/// Returns a reloader for a new gateway without servers and grants, with its stores in `data`.
async fn reloader(data: &Path) -> ConfigReloader {
    let clock = crate::system_clock();
    let section = StoreSection::in_directory(data.to_owned());
    let stores = crate::open_store(&section, &clock).await.expect("stores");
    let gateway = Gateway::new(stores.clone(), Arc::clone(&clock), GatewaySettings::default());
    let status = GatewayStatusFile {
        pid: std::process::id(),
        listen: config::DEFAULT_GATEWAY_ADDRESS,
        admin: config::DEFAULT_ADMIN_ADDRESS,
        config: None,
        loaded_at: clock.now(),
        servers: Vec::new(),
        grants: 0,
        warnings: Vec::new(),
        config_errors: Vec::new(),
    };
    ConfigReloader {
        gateway,
        stores,
        clock,
        file: None,
        entries: ConfigFileEntries::default(),
        stored_policies: PolicyCache::default(),
        data: data.to_owned(),
        status,
    }
}

async fn put_policy(stores: &Store, name: &str, default: &str) {
    let policy = StoredPolicy {
        name: name.parse().expect("a name"),
        version: PolicyVersionNumber(0),
        text: format!(r#"{{"version": "1", "default": "{default}"}}"#),
        is_yaml: false,
        restores: None,
        created_at: Timestamp::UNIX_EPOCH,
        created_by: "test".to_owned(),
    };
    let entry = AdminLogEntry {
        at: Timestamp::UNIX_EPOCH,
        by: "test".to_owned(),
        action: "policy put".to_owned(),
        subject: name.to_owned(),
        detail: serde_json::json!({}),
    };
    stores.policies.put(policy, entry).await.expect("stored");
}
