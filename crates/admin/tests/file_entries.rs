//! What the configuration file defines cannot be changed in the store, and no stored entry gets its name.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::sync::Arc;

use gatelodge_admin::{
    Administration, ChangeGrantError, ChangeServerError, FileEntryNames, FileGrantName, GrantRequest, NewPolicyVersion,
    NewServer, PutPolicyError,
};
use gatelodge_policy::DocumentFormat;
use gatelodge_store::{Clock, EnforcementMode, GrantId, ManualClock, Store};

/// An administration of an empty store, next to a file with the server `shop`, the policy `buyers` and the grant `ci`.
fn next_to_a_file() -> Administration {
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::at("2026-11-15T12:00:00Z".parse().unwrap()));
    let file_entries = FileEntryNames {
        servers: vec!["shop".parse().unwrap()],
        policies: vec!["buyers".parse().unwrap()],
        grants: vec![FileGrantName { id: GrantId("file:ci".into()), label: "ci".to_owned() }],
    };
    Administration { stores: Store::memory(Arc::clone(&clock)), clock, file_entries, author: "ada".to_owned() }
}

fn grant(label: &str) -> GrantRequest {
    let (labels, attachments) = (BTreeMap::new(), Vec::new());
    GrantRequest { label: label.to_owned(), labels, attachments, expires_at: None, minimum_revision: None }
}

#[tokio::test]
async fn an_entry_of_the_file_is_not_changed_and_its_name_is_taken() {
    let administration = next_to_a_file();
    let server = NewServer::new("shop".parse().unwrap(), "http://localhost:1/mcp").unwrap();
    let added = administration.add_server(&server).await.unwrap_err();
    assert!(matches!(added, ChangeServerError::DefinedInFile(_)), "{added}");
    let removed = administration.remove_server(server.name()).await.unwrap_err();
    assert!(matches!(removed, ChangeServerError::DefinedInFile(_)), "{removed}");

    let (text, format) = (r#"{"version": "1", "default": "deny"}"#.to_owned(), DocumentFormat::Json);
    let version = NewPolicyVersion { name: "buyers".parse().unwrap(), text, format, restores: None };
    let put = administration.put_policy(version, "policy.put").await.unwrap_err();
    assert!(matches!(put, PutPolicyError::DefinedInFile(_)), "{put}");

    let created = administration.create_grant(grant("ci")).await.unwrap_err();
    assert!(matches!(created, ChangeGrantError::DefinedInFile(_)), "{created}");
    // The id of a grant that an earlier version of the file defined is not free, either.
    for name in ["ci", "file:ci", "file:earlier"] {
        let found = administration.find_editable_grant(name).await.unwrap_err();
        assert!(matches!(found, ChangeGrantError::DefinedInFile(_)), "{name}: {found}");
    }
    assert!(administration.stores.admin_log.recent(1).await.unwrap().is_empty(), "nothing was written");
}

#[tokio::test]
async fn a_stored_grant_can_refer_to_entries_of_the_file() {
    let administration = next_to_a_file();
    let mode = EnforcementMode::Enforce;
    let attachment = administration.new_attachment("shop", Some("buyers"), mode).await.unwrap();
    administration.create_grant(grant("laptop")).await.unwrap();
    let laptop = administration.find_editable_grant("laptop").await.unwrap();
    administration.attach_server(&laptop, &attachment).await.unwrap();
    let unknown = administration.new_attachment("shops", None, mode).await.unwrap_err();
    assert_eq!(unknown.to_string(), "there is no server `shops`; did you mean `shop`?");
}
