//! Recommended policies: they load, follow the categories of the tools, and refuse tools that are added later.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

mod support;

use gatelodge_catalogue::{
    Classification, ServerContext, StarterPolicyStrictness, ToolListEntry, classify, policy_scaffold, read_tools,
    starter_policy,
};
use gatelodge_policy::{DocumentFormat, Severity, ToolList, lint, parse};
use support::policy_outcome::{PolicyOutcome, decide_tool, expected_outcome};

/// Returns each server of the labeled file, and Pharo, with its `tools/list` result.
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

fn for_each_policy(check: impl Fn(&str, &[(&ToolListEntry<'_>, Classification)], StarterPolicyStrictness, &str)) {
    for (server, list) in servers() {
        let documents = read_tools(list.as_bytes());
        let items: Vec<ToolListEntry<'_>> = ToolListEntry::read_all(documents[0].1.as_ref().expect("JSON"), 1)
            .into_iter()
            .map(|item| item.expect("a tool"))
            .collect();
        let around = ServerContext::new(&server, None, items.iter().map(|item| &*item.tool.name));
        let known: Vec<_> = items.iter().map(|item| (item, classify(&item.tool, &around))).collect();
        let entries: Vec<_> = known.iter().map(|(item, known)| (&item.tool, known)).collect();
        for strictness in StarterPolicyStrictness::ALL {
            check(&list, &known, strictness, &starter_policy(&server, &entries, strictness).expect("a policy"));
            check(&list, &known, strictness, &policy_scaffold(&server, &entries, strictness).expect("a policy"));
        }
    }
}

#[test]
fn policies_follow_the_categories_and_refuse_other_tools() {
    for_each_policy(|_, known, strictness, text| {
        let policy = parse(text.as_bytes(), DocumentFormat::Json).expect("a policy");
        for (item, known) in known {
            assert_eq!(
                decide_tool(&policy, &item.tool.name),
                expected_outcome(strictness, known.category),
                "{} {strictness:?}\n{text}",
                item.tool.name
            );
        }
        assert_eq!(decide_tool(&policy, "a_tool_that_is_added_later"), PolicyOutcome::Refused);
    });
}

#[test]
fn policies_have_no_findings_against_the_schemas_of_their_server() {
    for_each_policy(|list, _, _, text| {
        let tools = ToolList::read(list.as_bytes()).expect("tools");
        let findings = lint(text.as_bytes(), DocumentFormat::Json, Some(&tools));
        assert!(findings.is_empty(), "{findings:?}\n{text}");
    });
}

#[test]
fn a_suggestion_loads_after_its_slashes_are_removed() {
    let seen = std::cell::Cell::new(0);
    for_each_policy(|list, _, _, text| {
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

/// Returns the policy of two tools, in both orders.
fn policies_in_both_orders(one: serde_json::Value, other: serde_json::Value) -> [String; 2] {
    [[one.clone(), other.clone()], [other, one]].map(|tools| {
        let list = serde_json::json!({ "tools": tools }).to_string();
        let documents = read_tools(list.as_bytes());
        let items = ToolListEntry::read_all(documents[0].1.as_ref().expect("JSON"), 1);
        let items: Vec<ToolListEntry<'_>> = items.into_iter().map(|item| item.expect("a tool")).collect();
        let known: Vec<_> = items.iter().map(|item| (item, classify(&item.tool, &ServerContext::default()))).collect();
        let entries: Vec<_> = known.iter().map(|(item, known)| (&item.tool, known)).collect();
        policy_scaffold("x", &entries, StarterPolicyStrictness::Recommended).expect("a policy")
    })
}

#[test]
fn the_order_of_tools_with_equal_names_does_not_matter() {
    let [one, other] = policies_in_both_orders(
        serde_json::json!({"name": "sync", "description": "Updates a.", "inputSchema": {"properties": {"a": {}}}}),
        serde_json::json!({"name": "sync", "description": "Creates b.", "inputSchema": {"properties": {"b": {}}}}),
    );
    assert_eq!(one, other);
}

#[test]
fn a_repeated_name_has_the_rule_of_the_riskier_tool() {
    let tool = |description: &str| serde_json::json!({"name": "item", "description": description});
    let destroys = tool("Deletes the item permanently.");
    for milder in [tool("Gets the item."), tool("Updates the item."), tool("Pays the item.")] {
        for text in policies_in_both_orders(milder.clone(), destroys.clone()) {
            let policy = parse(text.as_bytes(), DocumentFormat::Json).expect("a policy");
            assert_eq!(decide_tool(&policy, "item"), PolicyOutcome::Refused, "{text}");
        }
    }
}

#[test]
fn paths_and_addresses_get_a_suggestion() {
    let mut texts = Vec::new();
    for (server, list) in servers() {
        let documents = read_tools(list.as_bytes());
        let items = ToolListEntry::read_all(documents[0].1.as_ref().expect("JSON"), 1);
        let items: Vec<ToolListEntry<'_>> = items.into_iter().map(|item| item.expect("a tool")).collect();
        let around = ServerContext::new(&server, None, items.iter().map(|item| &*item.tool.name));
        let known: Vec<_> = items.iter().map(|item| (item, classify(&item.tool, &around))).collect();
        let entries: Vec<_> = known.iter().map(|(item, known)| (&item.tool, known)).collect();
        texts.push((server, starter_policy("x", &entries, StarterPolicyStrictness::Recommended).expect("a policy")));
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
fn a_scaffold_lists_the_parameters() {
    let list = include_str!("pharo.json");
    let documents = read_tools(list.as_bytes());
    let items = ToolListEntry::read_all(documents[0].1.as_ref().expect("JSON"), 1);
    let items: Vec<ToolListEntry<'_>> = items.into_iter().map(|item| item.expect("a tool")).collect();
    let around = ServerContext::new("pharo", None, items.iter().map(|item| &*item.tool.name));
    let known: Vec<_> = items.iter().map(|item| (item, classify(&item.tool, &around))).collect();
    let entries: Vec<_> = known.iter().map(|(item, known)| (&item.tool, known)).collect();
    let text = policy_scaffold("pharo", &entries, StarterPolicyStrictness::Recommended).expect("a policy");
    assert!(text.contains("// Parameters: package_name (string, required), path (string)."), "{text}");
    assert!(text.contains("// Parameters: none."), "{text}");
}

#[test]
fn a_name_with_a_star_is_left_out_and_refused() {
    let entry = r#"{"tools": [{"name": "get_*"}, {"name": "delete_*"}, {"name": "get_x"}]}"#;
    let documents = read_tools(entry.as_bytes());
    let items = ToolListEntry::read_all(documents[0].1.as_ref().expect("JSON"), 1);
    let items: Vec<ToolListEntry<'_>> = items.into_iter().map(|item| item.expect("a tool")).collect();
    let around = ServerContext::new("stars", None, items.iter().map(|item| &*item.tool.name));
    let known: Vec<_> = items.iter().map(|item| (item, classify(&item.tool, &around))).collect();
    let entries: Vec<_> = known.iter().map(|(item, known)| (&item.tool, known)).collect();
    for strictness in StarterPolicyStrictness::ALL {
        let policy =
            parse(starter_policy("stars", &entries, strictness).expect("a policy").as_bytes(), DocumentFormat::Json)
                .expect("a policy");
        assert_eq!(decide_tool(&policy, "get_x"), PolicyOutcome::Allowed);
        assert_eq!(decide_tool(&policy, "get_y"), PolicyOutcome::Refused);
        assert_eq!(decide_tool(&policy, "get_*"), PolicyOutcome::Refused);
    }
}
