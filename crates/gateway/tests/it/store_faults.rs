//! A store that fails: calls are refused within two seconds, none reaches the upstream, and all is normal again within
//! five seconds after.
#![allow(clippy::expect_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use gatelodge_store::{
    Durability, GrantId, IdHash, ManualClock, MemoryStore, ServerName, SqliteLedger, StoreError, TaskOwner, TaskOwners,
};
use gatelodge_testkit::{FakeUpstream, RecordedRequest, TestGateway, tool_definition};
use jiff::Timestamp;
use serde_json::json;

use super::rows_kit::{ALL, Caller, EXTENSION, Log, answered, count, modern_answer};

const POLICY: &str =
    r#"{"version":"1","default":"deny","tools":{"pay":{"limits":[{"counter":"c","window":"day","max":1000}]}}}"#;

struct Desk {
    upstream: FakeUpstream,
    gw: TestGateway,
}

impl Desk {
    async fn open(data: &Path) -> Self {
        let upstream = FakeUpstream::with_tools(&["pay"]).await;
        let clock = Arc::new(ManualClock::at("2026-11-15T12:00:00Z".parse().expect("a time")));
        let ledger = SqliteLedger::open(data, Durability::Process, clock.clone()).expect("a ledger");
        let gw = TestGateway::builder().policy(POLICY).ledger(Arc::new(ledger), clock).start(&upstream).await;
        let desk = Self { upstream, gw };
        assert!(desk.passes().await);
        desk
    }

    async fn passes(&self) -> bool {
        self.gw.call("pay", json!({})).await.message()["result"]["isError"] != json!(true)
    }

    async fn is_refused_in_time(&self, fault: &str) {
        let before = self.upstream.calls().len();
        for _ in 0..3 {
            let since = Instant::now();
            let answer = self.gw.call("pay", json!({})).await;
            assert!(since.elapsed() < Duration::from_millis(2_300), "{fault}: {:?}", since.elapsed());
            let meta = &answer.message()["result"]["_meta"]["gatelodge/refusal"];
            assert_eq!(meta["code"], "store_unavailable", "{fault}: {}", answer.body);
            assert!(answer.text().starts_with("[GATEWAY] the call log cannot be written"), "{}", answer.text());
        }
        assert_eq!(self.upstream.calls().len(), before, "{fault}");
    }

    async fn is_normal_again(&self, fault: &str) {
        let since = Instant::now();
        while !self.passes().await {
            assert!(since.elapsed() < Duration::from_secs(5), "{fault} is over, but calls are still refused");
        }
        self.gw.ledger.flush().await.expect("a store");
        let verified = self.gw.ledger.verify(vec![]).await.expect("a store");
        assert_eq!(verified.chain_break, None, "{fault}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_foreign_lock_refuses_and_passes() {
    let data = tempfile::tempdir().expect("a folder");
    let desk = Desk::open(data.path()).await;
    let script = "import sqlite3,sys\nc=sqlite3.connect(sys.argv[1],isolation_level=None)\nc.execute('BEGIN IMMEDIATE')\nprint('locked',flush=True)\nsys.stdin.read()";
    let mut other = Command::new("python3")
        .args(["-c", script])
        .arg(data.path().join("ledger.db"))
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("python3");
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(other.stdout.take().expect("output")), &mut line)
        .expect("a line");
    desk.is_refused_in_time("a foreign lock").await;
    drop(other.stdin.take());
    other.wait().expect("an end");
    desk.is_normal_again("a foreign lock").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_data_directory_that_is_gone_refuses_until_it_is_back_and_no_other_is_made() {
    let data = tempfile::tempdir().expect("a folder");
    let (here, away) = (data.path().join("data"), data.path().join("away"));
    let desk = Desk::open(&here).await;
    std::fs::rename(&here, &away).expect("moved");
    desk.is_refused_in_time("a removed directory").await;
    assert!(!here.exists(), "an empty ledger would have forgotten what was used");
    std::fs::rename(&away, &here).expect("moved back");
    desk.is_normal_again("a removed directory").await;
}

/// A small file system of its own; needs to be root.
struct Mount(std::path::PathBuf);

impl Mount {
    fn new(at: &Path) -> Self {
        std::fs::create_dir_all(at).expect("a folder");
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

/// Writes as much as fits, then less and less.
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
async fn a_full_disk_refuses_and_passes() {
    let folder = tempfile::tempdir().expect("a folder");
    let mount = Mount::new(&folder.path().join("small"));
    let desk = Desk::open(&mount.0.join("data")).await;
    let ballast = mount.0.join("ballast");
    // A failed write may free what it had taken, and the log has some in reserve: filled until nothing passes.
    let mut refused = 0;
    for _ in 0..1_000 {
        fill(&ballast);
        refused = if desk.passes().await { 0 } else { refused + 1 };
        if refused == 5 {
            break;
        }
    }
    assert_eq!(refused, 5, "the disk does not get full");
    desk.is_refused_in_time("a full disk").await;
    std::fs::remove_file(ballast).expect("removed");
    desk.is_normal_again("a full disk").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_only_directory_refuses_and_passes() {
    let folder = tempfile::tempdir().expect("a folder");
    let mount = Mount::new(&folder.path().join("small"));
    let data = mount.0.join("data");
    std::fs::create_dir(&data).expect("a folder");
    let desk = Desk::open(&data).await;
    // Files that are open for writing keep a file system from becoming read-only; the directory entry does not.
    run("mount", &["--bind", &data.to_string_lossy(), &data.to_string_lossy()]);
    let bound = Mount(data.clone());
    bound.remount("bind,ro");
    // Looked at four times a second.
    tokio::time::sleep(Duration::from_millis(300)).await;
    desk.is_refused_in_time("a read-only directory").await;
    bound.remount("bind,rw");
    drop(bound);
    desk.is_normal_again("a read-only directory").await;
}

/// Whose tasks are, where nobody can say it for a while.
struct Tasks {
    rows: MemoryStore,
    is_broken: AtomicBool,
}

impl Tasks {
    fn rows(&self) -> Result<&MemoryStore, StoreError> {
        let fault = || StoreError::Unavailable("the disk is gone".to_owned());
        if self.is_broken.load(Ordering::Acquire) { Err(fault()) } else { Ok(&self.rows) }
    }
}

#[async_trait]
impl TaskOwners for Tasks {
    async fn put(&self, task: TaskOwner, now: Timestamp) -> Result<(), StoreError> {
        TaskOwners::put(self.rows()?, task, now).await
    }

    async fn find(&self, id: IdHash) -> Result<Option<TaskOwner>, StoreError> {
        TaskOwners::find(self.rows()?, id).await
    }

    async fn list_for_grant(&self, grant: &GrantId, server: &ServerName) -> Result<Vec<TaskOwner>, StoreError> {
        self.rows()?.list_for_grant(grant, server).await
    }

    async fn sweep(&self, before: Timestamp) -> Result<usize, StoreError> {
        TaskOwners::sweep(self.rows()?, before).await
    }
}

#[tokio::test]
async fn who_listens_to_a_task_is_told_that_nobody_can_say_whose_it_is() {
    let upstream = FakeUpstream::start(json!([]), |hit: &RecordedRequest| match hit.method().as_str() {
        "tools/call" => answered(hit, &json!({"resultType": "task", "taskId": "t1", "status": "working"})),
        _ => {
            modern_answer(hit, &json!([tool_definition("slow")]), &json!({"tools": {}, "extensions": {EXTENSION: {}}}))
        }
    })
    .await;
    let clock = Arc::new(ManualClock::at("2026-11-15T12:00:00Z".parse().expect("a time")));
    let tasks = Arc::new(Tasks { rows: MemoryStore::new(clock), is_broken: AtomicBool::new(false) });
    let gw = TestGateway::builder().policy(ALL).tasks(tasks.clone()).start(&upstream).await;
    Caller::of(&gw).call("slow", json!({})).await;
    tasks.is_broken.store(true, Ordering::Release);
    let (log, _logged) = Log::begin();
    for (caller, task) in [(Caller::of(&gw), "t1"), (Caller::of(&gw).at_all(), "desk__t1")] {
        let listen = json!({"notifications": {"taskIds": [task]}});
        let answer = caller.ask("subscriptions/listen", listen).await;
        assert_eq!(answer.code(), -32603, "{}", answer.body);
        assert!(answer.body.contains("try again later") && !answer.body.contains("Unknown task"), "{}", answer.body);
        let row = gw.rows().await.pop().expect("a row").record;
        assert_eq!(row.code.as_deref(), Some("store_unavailable"), "{row:?}");
    }
    assert_eq!(count(&upstream, "subscriptions/listen"), 0, "nothing is sent");
    assert!(log.text().contains("the disk is gone"), "{}", log.text());
}
