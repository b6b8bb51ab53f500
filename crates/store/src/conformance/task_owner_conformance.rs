//! Requirements for task ownership.

use std::time::Duration;

use jiff::Timestamp;

use super::ConformanceBackend;
use super::conformance_support::{START_TIME, assert_conflict, timestamp};
use crate::{GrantId, IdDigest, TaskOwner};

fn hour(hours: u64) -> Timestamp {
    timestamp(START_TIME) + Duration::from_secs(hours * 3_600)
}

fn task(id: &str, grant: &str, expires_at: Timestamp) -> TaskOwner {
    TaskOwner {
        id: IdDigest::of(&[id]),
        grant: GrantId(grant.into()),
        server: "zoo".parse().expect("a name"),
        tool: "feed \"all\"".to_owned(),
        expires_at,
    }
}

async fn find(backend: &ConformanceBackend, id: &str) -> Option<TaskOwner> {
    backend.store.task_owners.find(IdDigest::of(&[id])).await.expect("an answer")
}

pub async fn a_task_is_found_by_its_id(backend: &ConformanceBackend) {
    assert_eq!(find(backend, "one").await, None);
    let one = task("one", "ci", hour(1));
    backend.store.task_owners.put(one.clone(), hour(0)).await.expect("kept");
    backend.store.task_owners.put(task("two", "ci", hour(1)), hour(0)).await.expect("kept");
    assert_eq!(find(backend, "one").await, Some(one));
}

pub async fn a_task_stays_with_its_grant_until_it_expires(backend: &ConformanceBackend) {
    let own = task("one", "ci", hour(1));
    backend.store.task_owners.put(own.clone(), hour(0)).await.expect("kept");
    assert_conflict(backend.store.task_owners.put(task("one", "other", hour(9)), hour(0)).await);
    assert_eq!(find(backend, "one").await, Some(own));
    let newer = TaskOwner { tool: "ask".to_owned(), ..task("one", "ci", hour(2)) };
    backend.store.task_owners.put(newer.clone(), hour(0)).await.expect("a grant may replace its own task");
    assert_eq!(find(backend, "one").await, Some(newer));
    let other = task("one", "other", hour(9));
    backend.store.task_owners.put(other.clone(), hour(2)).await.expect("the old one is over");
    assert_eq!(find(backend, "one").await, Some(other));
}

pub async fn tasks_of_a_grant_at_a_server_are_listed(backend: &ConformanceBackend) {
    let elsewhere = TaskOwner { server: "ark".parse().expect("a name"), ..task("three", "ci", hour(1)) };
    for row in [task("one", "ci", hour(1)), task("two", "other", hour(1)), elsewhere] {
        backend.store.task_owners.put(row, hour(0)).await.expect("kept");
    }
    let zoo = "zoo".parse().expect("a name");
    let own = backend.store.task_owners.list_for_grant(&GrantId("ci".into()), &zoo).await.expect("tasks");
    assert_eq!(own, [task("one", "ci", hour(1))]);
}

pub async fn expired_tasks_are_swept(backend: &ConformanceBackend) {
    backend.store.task_owners.put(task("one", "ci", hour(1)), hour(0)).await.expect("kept");
    backend.store.task_owners.put(task("two", "ci", hour(3)), hour(0)).await.expect("kept");
    assert_eq!(backend.store.task_owners.sweep(hour(2)).await.expect("swept"), 1);
    assert_eq!((find(backend, "one").await.is_some(), find(backend, "two").await.is_some()), (false, true));
}
