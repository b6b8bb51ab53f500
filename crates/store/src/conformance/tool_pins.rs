//! What keeping accepted definitions owes.

use gatelodge_policy::Category;

use super::Backend;
use super::kit::{assert_conflict, noted};
use crate::{SaidClass, ServerName, StoreError, ToolDefinition};

fn zoo() -> ServerName {
    "zoo".parse().expect("a name")
}

fn tool(name: &str, version: u32) -> ToolDefinition {
    let text = format!(r#"{{"name":"{name}","v":{version}}}"#);
    ToolDefinition { name: name.to_owned(), fingerprint: format!("{name}-{version}"), text }
}

fn meant(name: &str, version: u32) -> (String, String) {
    (name.to_owned(), format!("{name}-{version}"))
}

async fn offer(store: &Backend, offered: Vec<ToolDefinition>, first: &[&str]) {
    let first = first.iter().map(|name| (*name).to_owned()).collect();
    store.tool_pins.offer(&zoo(), offered, first, noted()).await.expect("kept");
}

pub async fn a_server_that_was_never_asked_is_told_from_one_that_offers_nothing(store: &Backend) {
    assert_eq!(store.tool_pins.known(&zoo()).await.expect("known"), None);
    offer(store, Vec::new(), &[]).await;
    let known = store.tool_pins.known(&zoo()).await.expect("known").expect("asked");
    assert_eq!((known.accepted, known.offered), (Vec::new(), Vec::new()));
    assert_eq!(store.tool_pins.known(&"ark".parse().expect("a name")).await.expect("known"), None);
}

pub async fn what_is_accepted_stays_while_the_offer_changes(store: &Backend) {
    offer(store, vec![tool("feed", 1), tool("ask", 1)], &[]).await;
    store.tool_pins.accept(&zoo(), vec![meant("feed", 1), meant("ask", 1)], noted()).await.expect("accepted");
    offer(store, vec![tool("feed", 2)], &[]).await;
    let known = store.tool_pins.known(&zoo()).await.expect("known").expect("asked");
    let accepted: Vec<_> = known.accepted.iter().map(|pin| pin.definition.clone()).collect();
    assert_eq!(accepted, [tool("ask", 1), tool("feed", 1)], "by name");
    assert_eq!(known.offered, [tool("feed", 2)]);
    store.tool_pins.accept(&zoo(), vec![meant("feed", 2)], noted()).await.expect("accepted");
    let known = store.tool_pins.known(&zoo()).await.expect("known").expect("asked");
    assert_eq!(known.accepted[1].definition, tool("feed", 2));
}

pub async fn only_what_is_offered_is_accepted_all_or_nothing(store: &Backend) {
    offer(store, vec![tool("feed", 2), tool("ask", 1)], &[]).await;
    assert_conflict(store.tool_pins.accept(&zoo(), vec![meant("ask", 1), meant("feed", 1)], noted()).await);
    assert_conflict(store.tool_pins.accept(&zoo(), vec![meant("gone", 1)], noted()).await);
    let known = store.tool_pins.known(&zoo()).await.expect("known").expect("asked");
    assert_eq!(known.accepted, []);
}

pub async fn what_is_offered_first_is_accepted_in_the_same_step(store: &Backend) {
    offer(store, vec![tool("feed", 1), tool("ask", 1)], &["feed"]).await;
    // Whoever asked at the same time comes second.
    offer(store, vec![tool("feed", 1), tool("ask", 1)], &["ask"]).await;
    let known = store.tool_pins.known(&zoo()).await.expect("known").expect("asked");
    let accepted: Vec<_> = known.accepted.iter().map(|pin| pin.definition.clone()).collect();
    assert_eq!(accepted, [tool("feed", 1)]);
    assert_eq!(store.admin_log.recent(9).await.expect("entries").len(), 1, "one entry");
}

pub async fn what_somebody_says_of_a_tool_is_kept_with_who_and_why_until_it_is_taken_back(store: &Backend) {
    let said = |tool: &str, category, fingerprint: Option<&str>| SaidClass {
        tool: tool.to_owned(),
        category,
        why: "we looked".to_owned(),
        fingerprint: fingerprint.map(str::to_owned),
        said_at: noted().at,
        said_by: "ann".to_owned(),
    };
    let first = said("feed", Category::Write, Some("feed-1"));
    assert!(matches!(store.tool_pins.say(&zoo(), first.clone(), noted()).await, Err(StoreError::NotFound(_))));
    offer(store, vec![tool("feed", 1), tool("ask", 1)], &["feed"]).await;
    let known = async || store.tool_pins.known(&zoo()).await.expect("known").expect("asked");
    for said in [&first, &said("ask", Category::Read, None)] {
        store.tool_pins.say(&zoo(), said.clone(), noted()).await.expect("kept");
    }
    assert_eq!(known().await.said, [said("ask", Category::Read, None), first.clone()], "by name");
    let again = said("feed", Category::Financial, None);
    store.tool_pins.say(&zoo(), again.clone(), noted()).await.expect("kept");
    assert_eq!(known().await.said[1], again, "in place of what was said before");
    offer(store, vec![tool("feed", 2)], &[]).await;
    assert_eq!(known().await.said.len(), 2, "whatever is offered");
    assert!(
        first.holds_for(&tool("feed", 1)) && !first.holds_for(&tool("feed", 2)) && again.holds_for(&tool("feed", 2))
    );
    store.tool_pins.unsay(&zoo(), "ask", noted()).await.expect("taken back");
    assert_eq!(known().await.said, [again]);
    assert!(matches!(store.tool_pins.unsay(&zoo(), "ask", noted()).await, Err(StoreError::NotFound(_))));
}
