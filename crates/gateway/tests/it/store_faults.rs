//! Store failures: calls are refused within about two seconds and not sent upstream, and calls succeed again within
//! five seconds after the failure ends.
#![allow(clippy::expect_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use gatelodge_gateway::GatewaySettings;
use gatelodge_store::{
    Durability, GrantId, IdDigest, ManualClock, MemoryStore, ServerName, SqliteLedger, Store, StoreError, TaskOwner,
    TaskOwners,
};
use gatelodge_testkit::{FakeUpstream, RecordedRequest, TestGateway, tool_definition};
use jiff::Timestamp;
use serde_json::json;

use super::support::{
    ALLOW_ALL, CapturedLog, StatelessTestClient, TASKS_EXTENSION, request_count, result_response, stateless_response,
};

const POLICY: &str =
    r#"{"version":"1","default":"deny","tools":{"pay":{"limits":[{"counter":"c","window":"day","max":1000}]}}}"#;

/// Gateway with a SQLite ledger in a data directory that the test breaks.
struct StoreFaultTest {
    upstream: FakeUpstream,
    gw: TestGateway,
}

impl StoreFaultTest {
    async fn open(data: &Path) -> Self {
        let upstream = FakeUpstream::with_tools(&["pay"]).await;
        let clock = Arc::new(ManualClock::at("2026-11-15T12:00:00Z".parse().expect("a time")));
        let ledger = SqliteLedger::open(data, Durability::Process, clock.clone()).expect("a ledger");
        // Only the ledger fails, so the rest stays in memory.
        let store = Store::new(Arc::new(MemoryStore::new(clock.clone())), Arc::new(ledger));
        let gw = TestGateway::builder().policy(POLICY).store(store, clock).start(&upstream).await;
        let test = Self { upstream, gw };
        assert!(test.call_succeeds().await);
        test
    }

    async fn call_succeeds(&self) -> bool {
        self.gw.call("pay", json!({})).await.message()["result"]["isError"] != json!(true)
    }

    async fn assert_refused_in_time(&self, fault: &str) {
        let before = self.upstream.calls().len();
        for _ in 0..3 {
            let started = Instant::now();
            let response = self.gw.call("pay", json!({})).await;
            assert!(started.elapsed() < Duration::from_millis(2_300), "{fault}: {:?}", started.elapsed());
            let meta = &response.message()["result"]["_meta"]["gatelodge/refusal"];
            assert_eq!(meta["code"], "store_unavailable", "{fault}: {}", response.body);
            assert!(response.text().starts_with("[GATEWAY] the call log cannot be written"), "{}", response.text());
        }
        assert_eq!(self.upstream.calls().len(), before, "{fault}");
    }

    async fn assert_recovers(&self, fault: &str) {
        let started = Instant::now();
        while !self.call_succeeds().await {
            assert!(started.elapsed() < Duration::from_secs(5), "{fault}: calls are still refused 5 s after it ended");
        }
        self.gw.store.ledger.flush().await.expect("a store");
        let verified = self.gw.store.call_log.verify(vec![]).await.expect("a store");
        assert_eq!(verified.chain_break, None, "{fault}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_are_refused_while_another_process_locks_the_database() {
    let data = tempfile::tempdir().expect("a directory");
    let test = StoreFaultTest::open(data.path()).await;
    let script = "import sqlite3,sys\nc=sqlite3.connect(sys.argv[1],isolation_level=None)\nc.execute('BEGIN IMMEDIATE')\nprint('locked',flush=True)\nsys.stdin.read()";
    let mut locker = Command::new("python3")
        .args(["-c", script])
        .arg(data.path().join("ledger.db"))
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("python3");
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(locker.stdout.take().expect("output")), &mut line)
        .expect("a line");
    test.assert_refused_in_time("a foreign lock").await;
    drop(locker.stdin.take());
    locker.wait().expect("an exit status");
    test.assert_recovers("a foreign lock").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_are_refused_while_the_data_directory_is_missing_and_no_new_one_is_created() {
    let data = tempfile::tempdir().expect("a directory");
    let (data_dir, moved_dir) = (data.path().join("data"), data.path().join("away"));
    let test = StoreFaultTest::open(&data_dir).await;
    std::fs::rename(&data_dir, &moved_dir).expect("moved");
    test.assert_refused_in_time("a removed directory").await;
    assert!(!data_dir.exists(), "a new, empty ledger would reset the counters");
    std::fs::rename(&moved_dir, &data_dir).expect("moved back");
    test.assert_recovers("a removed directory").await;
}

/// Small tmpfs mount; needs root.
struct Mount(std::path::PathBuf);

impl Mount {
    fn new(at: &Path) -> Self {
        std::fs::create_dir_all(at).expect("a directory");
        run("mount", &["-t", "tmpfs", "-o", "size=400k", "tmpfs", &at.to_string_lossy()]);
        Self(at.to_owned())
    }

    fn remount(&self, option: &str) {
        run("mount", &["-o", &format!("remount,{option}"), &self.0.to_string_lossy()]);
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

fn run(program: &str, arguments: &[&str]) {
    let done = Command::new(program).args(arguments).output().expect("a program");
    assert!(done.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
}

/// Fills the file system: halves the write size whenever a write fails.
fn fill(ballast: &Path) {
    let mut size = 400 << 10;
    while size > 0 {
        let mut file = std::fs::OpenOptions::new().create(true).append(true).open(ballast).expect("a file");
        if std::io::Write::write_all(&mut file, &vec![0; size]).is_err() {
            size /= 2;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_are_refused_while_the_disk_is_full() {
    let directory = tempfile::tempdir().expect("a directory");
    let mount = Mount::new(&directory.path().join("small"));
    let test = StoreFaultTest::open(&mount.0.join("data")).await;
    let ballast = mount.0.join("ballast");
    // A failed write may free its space, and the redo log has some in reserve, so fill until five calls in a row fail.
    let mut refused = 0;
    for _ in 0..1_000 {
        fill(&ballast);
        refused = if test.call_succeeds().await { 0 } else { refused + 1 };
        if refused == 5 {
            break;
        }
    }
    assert_eq!(refused, 5, "the disk did not become full");
    test.assert_refused_in_time("a full disk").await;
    std::fs::remove_file(ballast).expect("removed");
    test.assert_recovers("a full disk").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_are_refused_while_the_data_directory_is_read_only() {
    let directory = tempfile::tempdir().expect("a directory");
    let mount = Mount::new(&directory.path().join("small"));
    let data = mount.0.join("data");
    std::fs::create_dir(&data).expect("a directory");
    let test = StoreFaultTest::open(&data).await;
    // A file system with files open for writing cannot be remounted read-only; a bind mount of the directory can.
    run("mount", &["--bind", &data.to_string_lossy(), &data.to_string_lossy()]);
    let bound = Mount(data.clone());
    bound.remount("bind,ro");
    // The store checks the directory four times a second.
    tokio::time::sleep(Duration::from_millis(300)).await;
    test.assert_refused_in_time("a read-only directory").await;
    bound.remount("bind,rw");
    drop(bound);
    test.assert_recovers("a read-only directory").await;
}

/// Task owner store that fails while `is_broken` is set, and takes `put_time` to store an owner.
struct FaultyTaskOwners {
    store: MemoryStore,
    is_broken: AtomicBool,
    put_time: Duration,
}

impl FaultyTaskOwners {
    fn store(&self) -> Result<&MemoryStore, StoreError> {
        let fault = || StoreError::Unavailable("the disk is gone".to_owned());
        if self.is_broken.load(Ordering::Acquire) { Err(fault()) } else { Ok(&self.store) }
    }
}

#[async_trait]
impl TaskOwners for FaultyTaskOwners {
    async fn put(&self, task: TaskOwner, now: Timestamp) -> Result<(), StoreError> {
        tokio::time::sleep(self.put_time).await;
        TaskOwners::put(self.store()?, task, now).await
    }

    async fn find(&self, id: IdDigest) -> Result<Option<TaskOwner>, StoreError> {
        TaskOwners::find(self.store()?, id).await
    }

    async fn list_for_grant(&self, grant: &GrantId, server: &ServerName) -> Result<Vec<TaskOwner>, StoreError> {
        self.store()?.list_for_grant(grant, server).await
    }

    async fn sweep(&self, before: Timestamp) -> Result<usize, StoreError> {
        TaskOwners::sweep(self.store()?, before).await
    }
}

fn faulty_task_owners(put_time: Duration) -> Arc<FaultyTaskOwners> {
    let clock = Arc::new(ManualClock::at("2026-11-15T12:00:00Z".parse().expect("a time")));
    Arc::new(FaultyTaskOwners { store: MemoryStore::new(clock), is_broken: AtomicBool::new(false), put_time })
}

/// Starts a stateless server whose calls create a task.
async fn start_task_server() -> FakeUpstream {
    FakeUpstream::start(json!([]), |hit: &RecordedRequest| match hit.method().as_str() {
        "tools/call" => result_response(hit, &json!({"resultType": "task", "taskId": "t1", "status": "working"})),
        _ => stateless_response(
            hit,
            &json!([tool_definition("slow")]),
            &json!({"tools": {}, "extensions": {TASKS_EXTENSION: {}}}),
        ),
    })
    .await
}

#[tokio::test]
async fn call_does_not_time_out_while_the_owner_of_its_task_is_stored() {
    let upstream = start_task_server().await;
    let settings = GatewaySettings { call_timeout: Duration::from_millis(500), ..GatewaySettings::default() };
    let task_owners = faulty_task_owners(Duration::from_millis(800));
    let gw = TestGateway::builder().policy(ALLOW_ALL).settings(settings).tasks(task_owners).start(&upstream).await;
    let response = StatelessTestClient::new(&gw).call("slow", json!({})).await;
    assert_eq!(response.message()["result"]["taskId"], "t1", "{}", response.body);
}

#[tokio::test]
async fn task_subscription_is_refused_if_its_owner_cannot_be_read() {
    let upstream = start_task_server().await;
    let task_owners = faulty_task_owners(Duration::ZERO);
    let gw = TestGateway::builder().policy(ALLOW_ALL).tasks(task_owners.clone()).start(&upstream).await;
    StatelessTestClient::new(&gw).call("slow", json!({})).await;
    task_owners.is_broken.store(true, Ordering::Release);
    let (log, _guard) = CapturedLog::start();
    for (client, task) in
        [(StatelessTestClient::new(&gw), "t1"), (StatelessTestClient::new(&gw).at_aggregate(), "desk__t1")]
    {
        let listen = json!({"notifications": {"taskIds": [task]}});
        let response = client.request("subscriptions/listen", listen).await;
        assert_eq!(response.code(), -32603, "{}", response.body);
        assert!(
            response.body.contains("try again later") && !response.body.contains("Unknown task"),
            "{}",
            response.body
        );
        let row = gw.rows().await.pop().expect("a row").record;
        assert_eq!(row.code.as_deref(), Some("store_unavailable"), "{row:?}");
    }
    assert_eq!(request_count(&upstream, "subscriptions/listen"), 0, "nothing is sent upstream");
    assert!(log.text().contains("the disk is gone"), "{}", log.text());
}
