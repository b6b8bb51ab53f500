//! Rules for accepting tools and overriding their categories, with the admin log entries.

#![allow(clippy::expect_used, clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::sync::Arc;

use gatelodge_admin::{Administration, FileEntryNames, NewCategoryOverride, OverrideCategoryError};
use gatelodge_policy::Category;
use gatelodge_store::{AdminLogEntry, Clock, ManualClock, ServerName, Store, StoreError, ToolDefinition};
use serde_json::{Value, json};

const READ: NewCategoryOverride<'_> =
    NewCategoryOverride { tool: "pay", category: "Read", reason: " it only looks ", even_if_changed: false };

/// An administration of an empty store in memory, and the server `shop`, which lists the tool `pay`.
async fn shop() -> (Administration, ServerName) {
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::at("2026-11-15T12:00:00Z".parse().unwrap()));
    let stores = Store::memory(Arc::clone(&clock));
    let (author, file_entries) = ("ada".to_owned(), FileEntryNames::default());
    let administration = Administration { stores, clock, file_entries, author };
    let server: ServerName = "shop".parse().unwrap();
    let pay = ToolDefinition { name: "pay".into(), fingerprint: "f1".into(), text: "{}".into() };
    let entry = AdminLogEntry {
        at: administration.clock.now(),
        by: "gateway".into(),
        action: "server.pin".into(),
        subject: "shop".into(),
        detail: json!({}),
    };
    administration.stores.tool_pins.record_offered(&server, vec![pay], Vec::new(), entry).await.unwrap();
    (administration, server)
}

async fn accept(administration: &Administration, server: &ServerName) {
    administration.accept_tools(server, vec![("pay".into(), "f1".into())]).await.unwrap();
}

/// The action and detail of the newest entry of the admin log, and how many entries there are.
async fn last_entry(administration: &Administration) -> (String, Value, usize) {
    let entries = administration.stores.admin_log.recent(10).await.unwrap();
    (entries[0].action.clone(), entries[0].detail.clone(), entries.len())
}

#[tokio::test]
async fn only_an_accepted_tool_can_have_another_category() {
    let (administration, shop) = shop().await;
    let refused = administration.override_category(&shop, READ).await.unwrap_err();
    assert_eq!(refused.to_string(), "no tool `pay` of `shop` was accepted");
    accept(&administration, &shop).await;
    assert_eq!(last_entry(&administration).await.0, "server.accept");
    let stored = administration.override_category(&shop, READ).await.unwrap();
    assert_eq!((stored.category, stored.reason.as_str()), (Category::Read, "it only looks"));
    let detail = json!({"tool": "pay", "category": "read", "why": "it only looks", "fingerprint": "f1"});
    assert_eq!(last_entry(&administration).await, ("server.classify".to_owned(), detail, 3));
    let always = NewCategoryOverride { even_if_changed: true, ..READ };
    assert_eq!(administration.override_category(&shop, always).await.unwrap().fingerprint, None);
    administration.clear_category(&shop, "pay").await.unwrap();
    assert_eq!(last_entry(&administration).await.1, json!({"tool": "pay"}));
}

#[tokio::test]
async fn a_category_needs_a_known_word_and_a_short_reason_and_a_refused_one_is_not_logged() {
    let (administration, shop) = shop().await;
    accept(&administration, &shop).await;
    let long = "a".repeat(1_001);
    for (request, expected) in [
        (NewCategoryOverride { category: "safe", ..READ }, "`safe` is not a category"),
        (NewCategoryOverride { reason: " ", ..READ }, "give the reason"),
        (NewCategoryOverride { reason: &long, ..READ }, "a reason has at most 1000 bytes"),
    ] {
        let error = administration.override_category(&shop, request).await.unwrap_err();
        assert!(
            !matches!(error, OverrideCategoryError::Store(_)) && error.to_string().starts_with(expected),
            "{error}"
        );
    }
    assert_eq!(last_entry(&administration).await.2, 2);
}

#[tokio::test]
async fn a_definition_that_is_no_longer_listed_is_not_accepted() {
    let (administration, shop) = shop().await;
    let error = administration.accept_tools(&shop, vec![("pay".into(), "f0".into())]).await.unwrap_err();
    assert!(matches!(error, StoreError::Conflict(_)), "{error}");
    administration.accept_tools(&shop, Vec::new()).await.unwrap();
    assert_eq!(last_entry(&administration).await.2, 1, "nothing was written");
}
