//! The resources and the resource template.

use rmcp::ErrorData;
use rmcp::model::{ReadResourceResult, Resource, ResourceContents, ResourceTemplate};
use serde_json::json;

use crate::tools::PICTURE;

const TEXT: &str = "test://static-text";
const BINARY: &str = "test://static-binary";
const WATCHED: &str = "test://watched-resource";

pub fn all() -> Vec<Resource> {
    vec![
        Resource::new(TEXT, "Text").with_description("A text that never changes").with_mime_type("text/plain"),
        Resource::new(BINARY, "Picture").with_description("A picture that never changes").with_mime_type("image/png"),
        Resource::new(WATCHED, "Watched").with_description("A text to subscribe to").with_mime_type("text/plain"),
    ]
}

pub fn templates() -> Vec<ResourceTemplate> {
    let template = ResourceTemplate::new("test://template/{id}/data", "Data");
    vec![template.with_description("Something about an id").with_mime_type("application/json")]
}

pub fn read(uri: &str) -> Result<ReadResourceResult, ErrorData> {
    let text = |kind: &str, text: String| ResourceContents::TextResourceContents {
        uri: uri.into(),
        mime_type: Some(kind.into()),
        text,
        meta: None,
    };
    let id = uri.strip_prefix("test://template/").and_then(|rest| rest.strip_suffix("/data"));
    let contents = match (uri, id) {
        (TEXT, _) => text("text/plain", "A text that never changes.".into()),
        (WATCHED, _) => text("text/plain", "A text that might change.".into()),
        (BINARY, _) => ResourceContents::BlobResourceContents {
            uri: uri.into(),
            mime_type: Some("image/png".into()),
            blob: PICTURE.into(),
            meta: None,
        },
        (_, Some(id)) => text("application/json", json!({ "id": id }).to_string()),
        _ => return Err(ErrorData::resource_not_found("there is no such resource", Some(json!({ "uri": uri })))),
    };
    Ok(ReadResourceResult::new(vec![contents]))
}
