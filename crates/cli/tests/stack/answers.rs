//! The catalogue for agents.

use serde_json::{Value, json};

use super::support::house;
use super::{answered, called, converse, newer, package, tool, with_index};

#[test]
fn a_server_of_many_tools_is_told_in_parts_the_riskiest_first() {
    let house = house();
    let tools: Vec<Value> = (0..900)
        .map(|at| tool(&format!("do_item_{at:03}"), if at == 899 { "Destructive" } else { "Execute" }, &[]))
        .collect();
    house.write("facts.jsonl", &package("pypi", "crowd", &tools));
    super::make_index(&house, "facts.jsonl", "2026-11-16", "i.glx");
    house.run(&["catalogue", "update", "--from", "i.glx", "--data", "d", "--allow-older", "--allow-smaller"]);
    let answers = converse(
        &house,
        &[
            called(1, "check_mcp_server", &json!({"server": "pypi:crowd"})),
            called(2, "check_mcp_server", &json!({"server": "pypi:crowd", "skip": 25, "limit": 100})),
            called(3, "check_mcp_server", &json!({"server": "pypi:crowd", "skip": 890})),
            called(4, "get_change_events", &json!({"cursor": 7})),
        ],
    );
    assert!(answers.iter().all(|answer| answer.to_string().len() < 20_000), "{}", answers[0].to_string().len());
    let (first, second, last) = (answered(&answers[0]), answered(&answers[1]), answered(&answers[2]));
    assert_eq!((&first["tool_count"], &first["next_skip"]), (&json!(900), &json!(25)));
    assert_eq!(first["tools"][0]["name"], "do_item_899");
    assert!(first["policy"].as_str().unwrap().contains("catalogue show pypi:crowd --policy recommended"), "{first}");
    assert_eq!((second["tools"].as_array().unwrap().len(), &second["next_skip"]), (100, &json!(125)));
    assert!(last.get("next_skip").is_none() && last["tools"].as_array().unwrap().len() == 10, "{last}");
    // These changes are others than those that the cursor is of.
    assert!(answers[3]["result"]["isError"] == true && answers[3].to_string().contains("start again with 0"));
}

#[test]
fn the_catalogue_answers_agents_of_both_eras() {
    let house = with_index();
    house.run(&["catalogue", "update", "--from", "i.glx", "--data", "d", "--allow-older", "--allow-smaller"]);
    newer(&house, "new.glx");
    house.run(&["catalogue", "update", "--from", "new.glx", "--data", "d"]);
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"}});
    let answers = converse(
        &house,
        &[
            json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}}),
            json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
            json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}),
            called(3, "check_mcp_server", &json!({"server": "npm:@example/github"})),
            called(4, "check_mcp_server", &json!({"server": "nobody-knows"})),
            called(5, "search_registry", &json!({"query": "mail", "level": "medium"})),
            called(6, "check_tool", &json!({"server": "mail", "tool": "send_mail"})),
            called(7, "check_mcp_stack", &json!({"servers": ["@example/github", "mail", "nobody-knows"]})),
            called(8, "get_change_events", &json!({"cursor": 1, "limit": 1})),
            called(9, "search_registry", &json!({"qeury": "x"})),
            called(10, "drop_all", &json!({})),
            json!({"jsonrpc": "2.0", "id": 11, "method": "tools/list", "params": {"_meta": meta}}),
            json!({"jsonrpc": "2.0", "id": 12, "method": "server/discover", "params": {"_meta": meta}}),
            json!({"jsonrpc": "2.0", "id": 13, "method": "resources/subscribe", "params": {"uri": "x"}}),
        ],
    );
    let of = |id: u64| answers.iter().find(|own| own["id"] == id).unwrap_or_else(|| panic!("no answer to {id}"));
    assert_eq!(answers.len(), 13);
    assert_eq!(of(1)["result"]["protocolVersion"], "2025-06-18");
    let names: Vec<&str> =
        of(2)["result"]["tools"].as_array().unwrap().iter().map(|own| own["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["check_mcp_server", "search_registry", "check_tool", "check_mcp_stack", "get_change_events"]);
    let told = |id: u64| answered(of(id));
    assert_eq!((&told(3)["verdict"], &told(3)["tools"][0]["level"]), (&json!("connect-with-rule"), &json!("Critical")));
    assert!(told(3)["policy"].as_str().unwrap().contains("\"hide\""));
    assert_eq!((&told(4)["verdict"], &told(4)["is_known"]), (&json!("ask-first"), &json!(false)));
    assert_eq!(told(5)["tools"][0]["name"], "send_mail");
    assert_eq!(told(6)["recommended"]["tools"]["send_mail"]["limits"][0]["max"], 30);
    assert_eq!(
        (&told(7)["stack"]["combination_count"], &told(7)["stack"]["unknown"]),
        (&json!(1), &json!(["nobody-knows"]))
    );
    assert_eq!(
        (&told(8)["events"][0]["cursor"], &told(8)["cursor"], &told(8)["has_more"]),
        (&json!(2), &json!(2), &json!(true))
    );
    assert_eq!(of(9)["result"]["isError"], true);
    assert_eq!(of(10)["error"]["code"], -32602);
    assert_eq!(of(11)["result"]["resultType"], "complete");
    assert!(of(12)["result"]["supportedVersions"].as_array().unwrap().contains(&json!("2026-07-28")));
    assert_eq!(of(13)["error"]["code"], -32601);
    assert!(!format!("{answers:?}").to_lowercase().contains("safe"));
}

#[test]
fn agents_are_told_that_another_version_is_meant_than_was_read() {
    let house = with_index();
    house.run(&["catalogue", "update", "--from", "i.glx", "--data", "d", "--allow-older", "--allow-smaller"]);
    let answers = converse(
        &house,
        &[
            called(1, "check_mcp_server", &json!({"server": "npm:@example/files@9.9.9"})),
            called(2, "check_mcp_stack", &json!({"servers": ["npm:@example/files@9.9.9", "notes>=1.0"]})),
            called(3, "check_mcp_server", &json!({"server": "npm:@example/files@1.0.0"})),
        ],
    );
    let of = |at: usize| answered(&answers[at]);
    let other = "the indexed version is 1.0.0, not 9.9.9";
    for own in [&of(0), &of(1)["servers"][0]] {
        assert!(own["verdict"] == "connect-with-rule" && own["reasons"].to_string().contains(other), "{own}");
    }
    let unsure = &of(1)["servers"][1];
    assert!(unsure["verdict"] == "connect-with-rule", "{unsure}");
    assert!(unsure["reasons"].to_string().contains("the version you mean is not known"), "{unsure}");
    assert_eq!(of(2)["verdict"], "proceed");
}

#[test]
fn a_line_that_is_no_message_is_told_and_the_next_is_answered() {
    let house = with_index();
    house.write(
        "lines",
        &format!("not json\n\n[1]\n{}\n{}\n", "x".repeat(5 << 20), called(1, "search_registry", &json!({}))),
    );
    let program = env!("CARGO_BIN_EXE_gatelodge");
    let run = house.paste(&format!("'{program}' catalogue mcp --index i.glx < lines"));
    let answers: Vec<Value> = run.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let codes: Vec<&Value> = answers.iter().map(|own| &own["error"]["code"]).collect();
    assert_eq!(codes[..3], [&json!(-32700), &json!(-32600), &json!(-32600)]);
    assert_eq!(answered(&answers[3])["tool_count"], 5);
}
