//! Requirements for servers.

use super::ConformanceBackend;
use super::conformance_support::{START_TIME, admin_entry, assert_conflict, assert_not_found, timestamp};
use super::grant_conformance::{attachment, new_grant};
use crate::StoredServer;

pub(super) fn server(name: &str) -> StoredServer {
    StoredServer {
        name: name.parse().expect("a name"),
        url: format!("https://{name}.example/mcp"),
        headers: [("Authorization".into(), "Bearer ${KEY}".into())].into(),
        log_arguments: name.starts_with('a'),
        review: name.starts_with('z'),
        accept_new: name.starts_with('a'),
        created_at: timestamp(START_TIME),
    }
}

pub async fn servers_are_listed_by_name(backend: &ConformanceBackend) {
    assert_eq!(backend.store.servers.list().await.expect("servers"), []);
    backend.store.servers.add(server("zoo"), admin_entry()).await.expect("added");
    backend.store.servers.add(server("ark"), admin_entry()).await.expect("added");
    assert_eq!(backend.store.servers.list().await.expect("servers"), [server("ark"), server("zoo")]);
}

pub async fn a_second_server_of_a_name_is_a_conflict(backend: &ConformanceBackend) {
    backend.store.servers.add(server("zoo"), admin_entry()).await.expect("added");
    assert_conflict(
        backend
            .store
            .servers
            .add(StoredServer { url: "https://other.example".into(), ..server("zoo") }, admin_entry())
            .await,
    );
    assert_eq!(backend.store.servers.list().await.expect("servers"), [server("zoo")]);
}

pub async fn removing_a_server_detaches_it_from_grants(backend: &ConformanceBackend) {
    backend.store.servers.add(server("zoo"), admin_entry()).await.expect("added");
    backend.store.servers.add(server("ark"), admin_entry()).await.expect("added");
    let mut grant = new_grant("agent");
    grant.attachments = vec![attachment("zoo"), attachment("ark")];
    let id = backend.store.grants.create(grant, admin_entry()).await.expect("made");
    backend.store.servers.remove(&server("zoo").name, admin_entry()).await.expect("removed");
    assert_eq!(backend.store.servers.list().await.expect("servers"), [server("ark")]);
    assert_eq!(backend.store.grants.get(&id.0).await.expect("the grant").attachments, [attachment("ark")]);
    assert_not_found(backend.store.servers.remove(&server("zoo").name, admin_entry()).await);
}
