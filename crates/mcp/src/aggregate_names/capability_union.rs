//! Combines the capabilities of several servers.

use gatelodge_json::{JsonKind, JsonValue};

use crate::message_rewrite::{TextEdit, splice};
use crate::translate::to_json_string;

/// Returns the union of all servers' capabilities: every member that any server has, and all elements of their lists. A
/// flag is `true` if any server sets it to `true`.
pub fn merge_capabilities(all: &[JsonValue<'_>]) -> String {
    let mut members: Vec<(String, Vec<JsonValue<'_>>)> = Vec::new();
    for (key, value) in all.iter().flat_map(|one| one.members()) {
        match members.iter_mut().find(|(known, _)| key.is_str(known)) {
            Some((_, values)) => values.push(value),
            None => members.push((key.as_str().unwrap_or_default().into_owned(), vec![value])),
        }
    }
    let members: Vec<String> =
        members.iter().map(|(key, values)| format!("{}:{}", to_json_string(key), merge_values(values))).collect();
    format!("{{{}}}", members.join(","))
}

fn merge_values(values: &[JsonValue<'_>]) -> String {
    let of_kind = |kind| values.iter().filter(move |value| value.kind() == kind);
    let objects: Vec<JsonValue<'_>> = of_kind(JsonKind::Object).copied().collect();
    let elements: Vec<&str> =
        of_kind(JsonKind::Array).flat_map(|list| list.elements()).map(|element| element.raw()).collect();
    match values.iter().find(|value| value.as_bool() == Some(true)).or(values.first()) {
        _ if !objects.is_empty() => merge_capabilities(&objects),
        _ if !elements.is_empty() => format!("[{}]", elements.join(",")),
        Some(value) => value.raw().to_owned(),
        None => "{}".to_owned(),
    }
}

/// Adds a member to an object's `_meta`. `json` is the member's value.
pub fn with_meta_member(object: JsonValue<'_>, member: &str, json: &str) -> String {
    let offset = object.span().0;
    let at = |position: usize, text: String| TextEdit {
        span: (position - offset, position - offset),
        replacement: text.into(),
    };
    let comma = |object: JsonValue<'_>| if object.members().next().is_some() { "," } else { "" };
    let entry = format!("{}:{json}", to_json_string(member));
    let meta = object.get("_meta");
    let edit = match meta.filter(|meta| meta.kind() == JsonKind::Object) {
        Some(meta) => at(meta.span().0 + 1, format!("{entry}{}", comma(meta))),
        // A `_meta` that is not an object is left alone.
        None if meta.is_some() => return object.raw().to_owned(),
        None => at(object.span().0 + 1, format!("\"_meta\":{{{entry}}}{}", comma(object))),
    };
    splice(object.raw(), vec![edit])
}

#[cfg(test)]
mod tests {
    use gatelodge_json::{JsonLimits, read};

    use super::*;

    #[test]
    fn a_capability_of_one_server_is_a_capability_of_all() {
        let texts = [
            r#"{"tools":{"listChanged":false},"logging":{},"list":["a"]}"#,
            r#"{"tools":{"listChanged":true,"x":1},"experimental":{"a":{}}}"#,
            r#"{"experimental":{"b":1},"tools":{},"list":["b"]}"#,
        ];
        let documents: Vec<_> =
            texts.iter().map(|text| read(text.as_bytes(), &JsonLimits::REPLY).expect("json")).collect();
        let all: Vec<JsonValue<'_>> = documents.iter().map(|document| document.root()).collect();
        assert_eq!(
            merge_capabilities(&all),
            r#"{"tools":{"listChanged":true,"x":1},"logging":{},"list":["a","b"],"experimental":{"a":{},"b":1}}"#
        );
        assert_eq!(merge_capabilities(&[]), "{}");
    }

    #[test]
    fn a_meta_member_is_added_to_the_existing_members() {
        for (given, want) in [
            (r#"{"name":"a"}"#, r#"{"_meta":{"m":1},"name":"a"}"#),
            (r#"{"_meta":{"x":1.10}}"#, r#"{"_meta":{"m":1,"x":1.10}}"#),
            (r#"{"_meta":{}}"#, r#"{"_meta":{"m":1}}"#),
            ("{}", r#"{"_meta":{"m":1}}"#),
            (r#"{"_meta":1}"#, r#"{"_meta":1}"#),
        ] {
            let whole = format!(" [{given}]");
            let document = read(whole.as_bytes(), &JsonLimits::REPLY).expect("json");
            let object = document.root().elements().next().expect("an object");
            assert_eq!(with_meta_member(object, "m", "1"), want);
        }
    }
}
