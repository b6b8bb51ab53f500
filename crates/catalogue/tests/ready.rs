//! Ready policies: they load, allow reads, refuse or hold what they should, and refuse what comes later.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

mod support;

use gatelodge_catalogue::{
    Classification, ServerContext, Strictness, ToolEntry, classify, policy_scaffold, read_tools, starter_policy,
};
use gatelodge_policy::{DocumentFormat, Severity, ToolList, lint, parse};
use support::fate::{Fate, expected, judge};

/// Each server of the labelled file, and Pharo, as the text of a `tools/list` result.
fn servers() -> Vec<(String, String)> {
    let mut servers: Vec<(String, Vec<serde_json::Value>)> = Vec::new();
    for line in include_str!("known.jsonl").lines() {
        let entry: serde_json::Value = serde_json::from_str(line).expect("JSON");
        let name = entry["server"].as_str().expect("a name").to_owned();
        match servers.iter_mut().find(|(own, _)| *own == name) {
            Some((_, tools)) => tools.push(entry),
            None => servers.push((name, vec![entry])),
        }
    }
    let mut servers: Vec<(String, String)> =
        servers.into_iter().map(|(name, tools)| (name, serde_json::json!({ "tools": tools }).to_string())).collect();
    servers.push(("pharo".to_owned(), include_str!("pharo.json").to_owned()));
    servers
}

fn each(look: impl Fn(&str, &[(&ToolEntry<'_>, Classification)], Strictness, &str)) {
    for (server, list) in servers() {
        let documents = read_tools(list.as_bytes());
        let items: Vec<ToolEntry<'_>> = ToolEntry::read_all(documents[0].1.as_ref().expect("JSON"), 1)
            .into_iter()
            .map(|item| item.expect("a tool"))
            .collect();
        let around = ServerContext::new(&server, None, items.iter().map(|item| &*item.tool.name));
        let known: Vec<_> = items.iter().map(|item| (item, classify(&item.tool, &around))).collect();
        let entries: Vec<_> = known.iter().map(|(item, known)| (&item.tool, known)).collect();
        for posture in Strictness::ALL {
            look(&list, &known, posture, &starter_policy(&server, &entries, posture).expect("a policy"));
            look(&list, &known, posture, &policy_scaffold(&server, &entries, posture).expect("a policy"));
        }
    }
}

#[test]
fn ready_policies_do_to_each_tool_what_its_category_calls_for_and_refuse_what_comes_later() {
    each(|_, known, posture, text| {
        let policy = parse(text.as_bytes(), DocumentFormat::Json).expect("a policy");
        for (item, known) in known {
            assert_eq!(
                judge(&policy, &item.tool.name),
                expected(posture, known.category),
                "{} {posture:?}\n{text}",
                item.tool.name
            );
        }
        assert_eq!(judge(&policy, "a_tool_that_comes_later"), Fate::Refused);
    });
}

#[test]
fn ready_policies_have_no_findings_against_the_schemas_of_their_server() {
    each(|list, _, _, text| {
        let tools = ToolList::read(list.as_bytes()).expect("tools");
        let findings = lint(text.as_bytes(), DocumentFormat::Json, Some(&tools));
        assert!(findings.is_empty(), "{findings:?}\n{text}");
    });
}

#[test]
fn a_suggestion_loads_when_its_slashes_are_taken_away() {
    let seen = std::cell::Cell::new(0);
    each(|list, _, _, text| {
        let mut is_next = false;
        let mut lines = Vec::new();
        for line in text.lines() {
            let rule = line.trim_start().strip_prefix("// ").filter(|_| is_next);
            seen.set(seen.get() + usize::from(rule.is_some()));
            lines.push(rule.unwrap_or(line).to_owned());
            is_next = line.trim_start().starts_with("// suggestion: ");
        }
        let text = lines.join("\n");
        let tools = ToolList::read(list.as_bytes()).expect("tools");
        let findings = lint(text.as_bytes(), DocumentFormat::Json, Some(&tools));
        assert!(findings.iter().all(|finding| finding.severity != Severity::Error), "{findings:?}\n{text}");
    });
    assert!(seen.get() > 20, "{}", seen.get());
}

/// The policy of two tools, in both orders.
fn of_two(one: serde_json::Value, other: serde_json::Value) -> [String; 2] {
    [[one.clone(), other.clone()], [other, one]].map(|tools| {
        let list = serde_json::json!({ "tools": tools }).to_string();
        let documents = read_tools(list.as_bytes());
        let items = ToolEntry::read_all(documents[0].1.as_ref().expect("JSON"), 1);
        let items: Vec<ToolEntry<'_>> = items.into_iter().map(|item| item.expect("a tool")).collect();
        let known: Vec<_> = items.iter().map(|item| (item, classify(&item.tool, &ServerContext::default()))).collect();
        let entries: Vec<_> = known.iter().map(|(item, known)| (&item.tool, known)).collect();
        policy_scaffold("x", &entries, Strictness::Recommended).expect("a policy")
    })
}

#[test]
fn the_order_of_tools_of_one_name_does_not_matter() {
    let [one, other] = of_two(
        serde_json::json!({"name": "sync", "description": "Updates a.", "inputSchema": {"properties": {"a": {}}}}),
        serde_json::json!({"name": "sync", "description": "Creates b.", "inputSchema": {"properties": {"b": {}}}}),
    );
    assert_eq!(one, other);
}

#[test]
fn a_name_that_comes_twice_has_the_rule_of_the_riskier_one() {
    let tool = |description: &str| serde_json::json!({"name": "item", "description": description});
    let destroys = tool("Deletes the item permanently.");
    for milder in [tool("Gets the item."), tool("Updates the item."), tool("Pays the item.")] {
        for text in of_two(milder.clone(), destroys.clone()) {
            let policy = parse(text.as_bytes(), DocumentFormat::Json).expect("a policy");
            assert_eq!(judge(&policy, "item"), Fate::Refused, "{text}");
        }
    }
}

#[test]
fn paths_and_addresses_get_a_suggestion() {
    let mut texts = Vec::new();
    for (server, list) in servers() {
        let documents = read_tools(list.as_bytes());
        let items = ToolEntry::read_all(documents[0].1.as_ref().expect("JSON"), 1);
        let items: Vec<ToolEntry<'_>> = items.into_iter().map(|item| item.expect("a tool")).collect();
        let around = ServerContext::new(&server, None, items.iter().map(|item| &*item.tool.name));
        let known: Vec<_> = items.iter().map(|item| (item, classify(&item.tool, &around))).collect();
        let entries: Vec<_> = known.iter().map(|(item, known)| (&item.tool, known)).collect();
        texts.push((server, starter_policy("x", &entries, Strictness::Recommended).expect("a policy")));
    }
    let text = |name: &str| texts.iter().find(|(own, _)| own == name).map(|(_, text)| text.as_str()).expect("a server");
    assert!(
        text("filesystem").contains(r#"// "require": [{"path": "args.path", "op": "path_within""#),
        "{}",
        text("filesystem")
    );
    assert!(text("web").contains(r#"// "require": [{"path": "args.url", "op": "host_in""#), "{}", text("web"));
    assert!(text("shell").contains(r#"// "validate_arguments": true"#), "{}", text("shell"));
}

#[test]
fn a_scaffold_tells_the_parameters() {
    let list = include_str!("pharo.json");
    let documents = read_tools(list.as_bytes());
    let items = ToolEntry::read_all(documents[0].1.as_ref().expect("JSON"), 1);
    let items: Vec<ToolEntry<'_>> = items.into_iter().map(|item| item.expect("a tool")).collect();
    let around = ServerContext::new("pharo", None, items.iter().map(|item| &*item.tool.name));
    let known: Vec<_> = items.iter().map(|item| (item, classify(&item.tool, &around))).collect();
    let entries: Vec<_> = known.iter().map(|(item, known)| (&item.tool, known)).collect();
    let text = policy_scaffold("pharo", &entries, Strictness::Recommended).expect("a policy");
    assert!(text.contains("// Parameters: package_name (string, required), path (string)."), "{text}");
    assert!(text.contains("// Parameters: none."), "{text}");
}

#[test]
fn a_name_with_a_star_is_left_out_and_refused() {
    let entry = r#"{"tools": [{"name": "get_*"}, {"name": "delete_*"}, {"name": "get_x"}]}"#;
    let documents = read_tools(entry.as_bytes());
    let items = ToolEntry::read_all(documents[0].1.as_ref().expect("JSON"), 1);
    let items: Vec<ToolEntry<'_>> = items.into_iter().map(|item| item.expect("a tool")).collect();
    let around = ServerContext::new("stars", None, items.iter().map(|item| &*item.tool.name));
    let known: Vec<_> = items.iter().map(|item| (item, classify(&item.tool, &around))).collect();
    let entries: Vec<_> = known.iter().map(|(item, known)| (&item.tool, known)).collect();
    for posture in Strictness::ALL {
        let policy =
            parse(starter_policy("stars", &entries, posture).expect("a policy").as_bytes(), DocumentFormat::Json)
                .expect("a policy");
        assert_eq!(judge(&policy, "get_x"), Fate::Passes);
        assert_eq!(judge(&policy, "get_y"), Fate::Refused);
        assert_eq!(judge(&policy, "get_*"), Fate::Refused);
    }
}
