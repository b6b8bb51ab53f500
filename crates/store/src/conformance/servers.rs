//! What keeping servers owes.

use super::Backend;
use super::grants::{attachment, new_grant};
use super::kit::{NOON, assert_conflict, assert_not_found, at, noted};
use crate::StoredServer;

pub(super) fn server(name: &str) -> StoredServer {
    StoredServer {
        name: name.parse().expect("a name"),
        url: format!("https://{name}.example/mcp"),
        headers: [("Authorization".into(), "Bearer ${KEY}".into())].into(),
        log_arguments: name.starts_with('a'),
        review: name.starts_with('z'),
        accept_new: name.starts_with('a'),
        created_at: at(NOON),
    }
}

pub async fn servers_are_listed_by_name(store: &Backend) {
    assert_eq!(store.servers.list().await.expect("servers"), []);
    store.servers.add(server("zoo"), noted()).await.expect("added");
    store.servers.add(server("ark"), noted()).await.expect("added");
    assert_eq!(store.servers.list().await.expect("servers"), [server("ark"), server("zoo")]);
}

pub async fn a_second_server_of_a_name_is_a_conflict(store: &Backend) {
    store.servers.add(server("zoo"), noted()).await.expect("added");
    assert_conflict(
        store.servers.add(StoredServer { url: "https://other.example".into(), ..server("zoo") }, noted()).await,
    );
    assert_eq!(store.servers.list().await.expect("servers"), [server("zoo")]);
}

pub async fn a_removed_server_is_gone_and_grants_lose_it(store: &Backend) {
    store.servers.add(server("zoo"), noted()).await.expect("added");
    store.servers.add(server("ark"), noted()).await.expect("added");
    let mut grant = new_grant("agent");
    grant.attachments = vec![attachment("zoo"), attachment("ark")];
    let id = store.grants.create(grant, noted()).await.expect("made");
    store.servers.remove(&server("zoo").name, noted()).await.expect("removed");
    assert_eq!(store.servers.list().await.expect("servers"), [server("ark")]);
    assert_eq!(store.grants.get(&id.0).await.expect("the grant").attachments, [attachment("ark")]);
    assert_not_found(store.servers.remove(&server("zoo").name, noted()).await);
}
