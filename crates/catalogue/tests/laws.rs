//! Properties of the classification, on random tools.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

use gatelodge_catalogue::{ServerContext, ToolListEntry, ToolSpec, classify, read_tools, recommended_policy};
use gatelodge_policy::{DocumentFormat, parse};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

const WORDS: &[&str] = &[
    "get",
    "list",
    "search",
    "create",
    "update",
    "run",
    "execute",
    "delete",
    "clear",
    "pay",
    "send",
    "file",
    "user",
    "order",
    "payment",
    "status",
    "log",
    "frob",
    "the",
    "a",
    "of",
    "and",
    "not",
    "never",
    "read-only",
    "permanently",
    "code",
    "query",
    "command",
    "convert",
    "generate",
    "import",
    "export",
    "all",
    "table",
    "without",
    "changes",
    "replaces",
    "does",
    "cannot",
    "be",
    "undone",
    "reset",
    "cancel",
    "subscription",
    "returns",
    "weather",
];
const DESTRUCTIVE_WORDS: &[&str] = &["delete", "remove", "destroy", "drop", "purge", "wipe", "erase", "truncate"];
const PARAMETERS: &[&str] =
    &["path", "url", "sql", "code", "command", "limit", "query", "body", "amount", "force", "action"];

/// 256 cases per property, or `PROPTEST_CASES`. No files are written.
fn config() -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::default() }
}

fn name() -> impl Strategy<Value = String> {
    proptest::collection::vec(select(WORDS), 1..4).prop_map(|words| words.join("_"))
}

fn description() -> impl Strategy<Value = Option<String>> {
    proptest::option::of(
        proptest::collection::vec(select(WORDS), 1..20).prop_map(|words| format!("{}.", words.join(" "))),
    )
}

fn schema() -> impl Strategy<Value = Value> {
    proptest::collection::vec(select(PARAMETERS), 0..5).prop_map(|names| {
        let properties: serde_json::Map<String, Value> =
            names.into_iter().map(|name| (name.to_owned(), json!({"type": "string"}))).collect();
        json!({"type": "object", "properties": properties})
    })
}

fn entry() -> impl Strategy<Value = Value> {
    (name(), description(), schema()).prop_map(
        |(name, description, schema)| json!({"name": name, "description": description, "inputSchema": schema}),
    )
}

fn classified(entry: &Value, siblings: &[String]) -> gatelodge_catalogue::Classification {
    let text = entry.to_string();
    let documents = read_tools(text.as_bytes());
    let tool = ToolSpec::of(documents[0].1.as_ref().expect("JSON").root()).expect("a tool");
    let names = siblings.iter().map(String::as_str).chain([&*tool.name]);
    classify(&tool, &ServerContext::new("server", None, names))
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn any_bytes_are_classified_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        for (number, document) in read_tools(&bytes) {
            if let Ok(document) = document {
                for item in ToolListEntry::read_all(&document, number).into_iter().flatten() {
                    classify(&item.tool, &ServerContext::default());
                }
            }
        }
    }

    #[test]
    fn classification_is_deterministic_and_its_rule_loads(name in ".{1,40}", description in ".{0,200}", schema in schema()) {
        let entry = json!({"name": name, "description": description, "inputSchema": schema});
        let (one, other) = (classified(&entry, &[]), classified(&entry, &[]));
        prop_assert_eq!(&one, &other);
        prop_assert!((0.0..=1.0).contains(&one.confidence));
        prop_assert!(parse(one.recommended.to_string().as_bytes(), DocumentFormat::Json).is_ok());
        prop_assert_eq!(&one.recommended, &recommended_policy(&name, one.category));
    }

    #[test]
    fn the_order_of_related_tools_does_not_matter(entry in entry(), siblings in proptest::collection::vec(name(), 0..12)) {
        let mut turned = siblings.clone();
        turned.reverse();
        prop_assert_eq!(classified(&entry, &siblings), classified(&entry, &turned));
    }

    #[test]
    fn a_read_only_annotation_never_lowers_the_level(entry in entry(), destructive in proptest::option::of(any::<bool>())) {
        let with = |read_only: Option<bool>| {
            let mut entry = entry.clone();
            entry["annotations"] = json!({"readOnlyHint": read_only, "destructiveHint": destructive});
            classified(&entry, &[]).level
        };
        prop_assert!(with(Some(true)) >= with(None));
    }

    #[test]
    fn a_destructive_word_in_the_name_never_lowers_the_level(entry in entry(), word in select(DESTRUCTIVE_WORDS)) {
        let before = classified(&entry, &[]);
        let name = entry["name"].as_str().expect("a name").to_owned();
        for more in [format!("{word}_{name}"), format!("{name}_{word}")] {
            let mut entry = entry.clone();
            entry["name"] = json!(more);
            let after = classified(&entry, &[]);
            prop_assert!(after.level >= before.level, "{more}: {before:?}\n{after:?}");
        }
    }

    #[test]
    fn a_destructive_sentence_never_lowers_the_level(entry in entry(), word in select(DESTRUCTIVE_WORDS)) {
        let before = classified(&entry, &[]);
        let said = entry["description"].as_str().unwrap_or_default().to_owned();
        for more in [format!("{said} {word}s."), format!("{word}s. {said}")] {
            let mut entry = entry.clone();
            entry["description"] = json!(more);
            let after = classified(&entry, &[]);
            prop_assert!(after.level >= before.level, "{more}: {before:?}\n{after:?}");
        }
    }

    #[test]
    fn a_tool_that_takes_code_a_command_or_a_query_is_never_read(entry in entry(), parameter in select(&["command", "code", "sql"][..])) {
        let mut entry = entry;
        entry["inputSchema"]["properties"][parameter] = json!({"type": "string"});
        let known = classified(&entry, &[]);
        prop_assert!(known.category != gatelodge_policy::Category::Read, "{known:?}");
    }

    #[test]
    fn a_tool_with_a_destructive_choice_is_never_read(entry in entry(), word in select(DESTRUCTIVE_WORDS)) {
        let mut entry = entry;
        entry["inputSchema"]["properties"]["action_type"] = json!({"type": "string", "enum": ["get", format!("{word}_all")]});
        let known = classified(&entry, &[]);
        prop_assert!(known.category != gatelodge_policy::Category::Read, "{known:?}");
    }

    #[test]
    fn a_tool_with_a_destructive_word_in_its_name_is_never_read(entry in entry(), word in select(DESTRUCTIVE_WORDS), at in 0..4_usize) {
        let mut entry = entry;
        let name = entry["name"].as_str().expect("a name").to_owned();
        let mut words: Vec<&str> = name.split('_').collect();
        words.insert(at.min(words.len()), word);
        entry["name"] = json!(words.join("_"));
        let known = classified(&entry, &[]);
        prop_assert!(known.category != gatelodge_policy::Category::Read, "{known:?}");
    }

    #[test]
    fn related_tools_never_make_a_tool_read(entry in entry(), siblings in proptest::collection::vec(name(), 0..6), crowd in any::<bool>()) {
        let first = entry["name"].as_str().and_then(|name| name.split('_').next()).unwrap_or_default().to_owned();
        let mut siblings: Vec<String> = siblings.into_iter().map(|name| format!("{first}_{name}")).collect();
        siblings.extend((0..if crowd { 70 } else { 0 }).map(|at| format!("{first}_junk{at}")));
        let (alone, among) = (classified(&entry, &[]), classified(&entry, &siblings));
        let read = gatelodge_policy::Category::Read;
        prop_assert!(alone.category == read || among.category != read, "{alone:?}\n{among:?}");
    }
}
