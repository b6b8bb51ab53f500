//! Limits of the seed policies in `examples/pharo/seeds`: the first call over a limit is refused, also after a restart.
#![allow(clippy::expect_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use gatelodge_store::{Durability, ManualClock, Store};
use gatelodge_testkit::{FakeUpstream, TestGateway};
use serde_json::json;

async fn start_with_data(data: &Path, clock: &Arc<ManualClock>, policy: &str, upstream: &FakeUpstream) -> TestGateway {
    let store = Store::open_sqlite(data, Durability::Process, clock.clone()).expect("a store");
    TestGateway::builder().policy(policy).store(store, clock.clone()).start(upstream).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn call_over_the_limit_is_refused_with_rule_and_retry_time_after_a_restart() {
    for (tool, limit) in
        [("eval", 10), ("run_package_test", 10), ("run_class_test", 10), ("import_package", 30), ("export_package", 30)]
    {
        let file = format!("{}/../../examples/pharo/seeds/{tool}.json", env!("CARGO_MANIFEST_DIR"));
        let policy = std::fs::read_to_string(file).expect("a policy");
        let data = tempfile::tempdir().expect("a directory");
        let clock = Arc::new(ManualClock::at("2026-11-15T12:00:10Z".parse().expect("a time")));
        let upstream = FakeUpstream::with_tools(&[tool]).await;
        let arguments = json!({"package_name": "Kernel", "class_name": "Object", "code": "1 + 1", "path": "/tmp/x"});

        let gw = start_with_data(data.path(), &clock, &policy, &upstream).await;
        for _ in 0..limit / 2 {
            gw.call(tool, arguments.clone()).await;
        }
        gw.gateway.stop();
        let gw = start_with_data(data.path(), &clock, &policy, &upstream).await;
        for _ in limit / 2..limit {
            gw.call(tool, arguments.clone()).await;
        }
        assert_eq!(upstream.calls_to(tool).len(), limit, "{tool}");
        let refused = gw.call(tool, arguments.clone()).await;

        assert!(refused.text().starts_with("[POLICY DENIED] "), "{tool}: {}", refused.text());
        let meta = &refused.message()["result"]["_meta"]["gatelodge/refusal"];
        assert_eq!(meta["code"], "limit", "{tool}: {meta}");
        assert!(meta["rule"].as_str().expect("a rule").starts_with(&format!("/tools/{tool}/")), "{meta}");
        assert_eq!(meta["retry_after_seconds"], 50, "{tool}: {meta}");
        assert_eq!(upstream.calls_to(tool).len(), limit, "{tool}");
        clock.advance(Duration::from_secs(50));
        gw.call(tool, arguments.clone()).await;
        assert_eq!(upstream.calls_to(tool).len(), limit + 1, "{tool}: the next window allows calls again");
        gw.gateway.stop();
    }
}
