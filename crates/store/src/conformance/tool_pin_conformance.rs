//! Requirements for pinned tool definitions.

use gatelodge_policy::Category;

use super::ConformanceBackend;
use super::conformance_support::{admin_entry, assert_conflict};
use crate::{CategoryOverride, ServerName, StoreError, ToolDefinition};

fn server_name() -> ServerName {
    "zoo".parse().expect("a name")
}

fn tool(name: &str, version: u32) -> ToolDefinition {
    let text = format!(r#"{{"name":"{name}","v":{version}}}"#);
    ToolDefinition { name: name.to_owned(), fingerprint: format!("{name}-{version}"), text }
}

fn name_and_fingerprint(name: &str, version: u32) -> (String, String) {
    (name.to_owned(), format!("{name}-{version}"))
}

async fn record_offered(backend: &ConformanceBackend, offered: Vec<ToolDefinition>, first: &[&str]) {
    let first = first.iter().map(|name| (*name).to_owned()).collect();
    backend.store.tool_pins.record_offered(&server_name(), offered, first, admin_entry()).await.expect("kept");
}

pub async fn an_unlisted_server_differs_from_one_without_tools(backend: &ConformanceBackend) {
    assert_eq!(backend.store.tool_pins.server_tools(&server_name()).await.expect("known"), None);
    record_offered(backend, Vec::new(), &[]).await;
    let known = backend.store.tool_pins.server_tools(&server_name()).await.expect("known").expect("asked");
    assert_eq!((known.pinned, known.offered), (Vec::new(), Vec::new()));
    assert_eq!(backend.store.tool_pins.server_tools(&"ark".parse().expect("a name")).await.expect("known"), None);
}

pub async fn pinned_definitions_stay_while_the_listed_ones_change(backend: &ConformanceBackend) {
    record_offered(backend, vec![tool("feed", 1), tool("ask", 1)], &[]).await;
    backend
        .store
        .tool_pins
        .accept(&server_name(), vec![name_and_fingerprint("feed", 1), name_and_fingerprint("ask", 1)], admin_entry())
        .await
        .expect("accepted");
    record_offered(backend, vec![tool("feed", 2)], &[]).await;
    let known = backend.store.tool_pins.server_tools(&server_name()).await.expect("known").expect("asked");
    let accepted: Vec<_> = known.pinned.iter().map(|pin| pin.definition.clone()).collect();
    assert_eq!(accepted, [tool("ask", 1), tool("feed", 1)], "by name");
    assert_eq!(known.offered, [tool("feed", 2)]);
    backend
        .store
        .tool_pins
        .accept(&server_name(), vec![name_and_fingerprint("feed", 2)], admin_entry())
        .await
        .expect("accepted");
    let known = backend.store.tool_pins.server_tools(&server_name()).await.expect("known").expect("asked");
    assert_eq!(known.pinned[1].definition, tool("feed", 2));
}

pub async fn only_listed_definitions_are_accepted_all_or_none(backend: &ConformanceBackend) {
    record_offered(backend, vec![tool("feed", 2), tool("ask", 1)], &[]).await;
    assert_conflict(
        backend
            .store
            .tool_pins
            .accept(
                &server_name(),
                vec![name_and_fingerprint("ask", 1), name_and_fingerprint("feed", 1)],
                admin_entry(),
            )
            .await,
    );
    assert_conflict(
        backend.store.tool_pins.accept(&server_name(), vec![name_and_fingerprint("gone", 1)], admin_entry()).await,
    );
    let known = backend.store.tool_pins.server_tools(&server_name()).await.expect("known").expect("asked");
    assert_eq!(known.pinned, []);
}

pub async fn an_unlisted_server_stays_unlisted_when_its_tools_are_accepted(backend: &ConformanceBackend) {
    let tools = vec![name_and_fingerprint("feed", 1)];
    assert_conflict(backend.store.tool_pins.accept(&server_name(), tools, admin_entry()).await);
    assert_eq!(backend.store.tool_pins.server_tools(&server_name()).await.expect("known"), None);
}

pub async fn the_first_listing_is_recorded_and_pinned_in_one_step(backend: &ConformanceBackend) {
    record_offered(backend, vec![tool("feed", 1), tool("ask", 1)], &["feed"]).await;
    // A concurrent listing comes second and pins nothing.
    record_offered(backend, vec![tool("feed", 1), tool("ask", 1)], &["ask"]).await;
    let known = backend.store.tool_pins.server_tools(&server_name()).await.expect("known").expect("asked");
    let accepted: Vec<_> = known.pinned.iter().map(|pin| pin.definition.clone()).collect();
    assert_eq!(accepted, [tool("feed", 1)]);
    assert_eq!(backend.store.admin_log.recent(9).await.expect("entries").len(), 1, "one entry");
}

pub async fn a_category_override_keeps_author_and_reason_until_cleared(backend: &ConformanceBackend) {
    let category_override = |tool: &str, category, fingerprint: Option<&str>| CategoryOverride {
        tool: tool.to_owned(),
        category,
        reason: "we looked".to_owned(),
        fingerprint: fingerprint.map(str::to_owned),
        set_at: admin_entry().at,
        set_by: "ann".to_owned(),
    };
    let first = category_override("feed", Category::Write, Some("feed-1"));
    assert!(matches!(
        backend.store.tool_pins.set_category(&server_name(), first.clone(), admin_entry()).await,
        Err(StoreError::NotFound(_))
    ));
    record_offered(backend, vec![tool("feed", 1), tool("ask", 1)], &["feed"]).await;
    let known = async || backend.store.tool_pins.server_tools(&server_name()).await.expect("known").expect("asked");
    for given in [&first, &category_override("ask", Category::Read, None)] {
        backend.store.tool_pins.set_category(&server_name(), given.clone(), admin_entry()).await.expect("kept");
    }
    assert_eq!(
        known().await.category_overrides,
        [category_override("ask", Category::Read, None), first.clone()],
        "by name"
    );
    let again = category_override("feed", Category::Financial, None);
    backend.store.tool_pins.set_category(&server_name(), again.clone(), admin_entry()).await.expect("kept");
    assert_eq!(known().await.category_overrides[1], again, "replaces the earlier override");
    record_offered(backend, vec![tool("feed", 2)], &[]).await;
    assert_eq!(known().await.category_overrides.len(), 2, "regardless of what is listed");
    assert!(
        first.applies_to(&tool("feed", 1)) && !first.applies_to(&tool("feed", 2)) && again.applies_to(&tool("feed", 2))
    );
    backend.store.tool_pins.clear_category(&server_name(), "ask", admin_entry()).await.expect("taken back");
    assert_eq!(known().await.category_overrides, [again]);
    assert!(matches!(
        backend.store.tool_pins.clear_category(&server_name(), "ask", admin_entry()).await,
        Err(StoreError::NotFound(_))
    ));
}
