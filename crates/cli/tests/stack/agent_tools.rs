//! `catalogue mcp`: the tools of the catalogue for agents.

use serde_json::{Value, json};

use super::support::TestDir;
use super::{dir_with_index, package, send_lines, tool, tool_call, tool_output, write_newer_index};

#[test]
fn a_server_with_many_tools_is_paged_the_riskiest_first() {
    let dir = TestDir::new();
    let tools: Vec<Value> = (0..900)
        .map(|at| tool(&format!("do_item_{at:03}"), if at == 899 { "Destructive" } else { "Execute" }, &[]))
        .collect();
    dir.write("facts.jsonl", &package("pypi", "crowd", &tools));
    super::write_index_file(&dir, "facts.jsonl", "2026-11-16", "i.glx");
    dir.run(&["catalogue", "update", "--from", "i.glx", "--data", "d", "--allow-older", "--allow-smaller"]);
    let responses = send_lines(
        &dir,
        &[
            tool_call(1, "check_mcp_server", &json!({"server": "pypi:crowd"})),
            tool_call(2, "check_mcp_server", &json!({"server": "pypi:crowd", "skip": 25, "limit": 100})),
            tool_call(3, "check_mcp_server", &json!({"server": "pypi:crowd", "skip": 890})),
            tool_call(4, "get_change_events", &json!({"cursor": 7})),
        ],
    );
    assert!(responses.iter().all(|response| response.to_string().len() < 20_000), "{}", responses[0].to_string().len());
    let (first, second, last) = (tool_output(&responses[0]), tool_output(&responses[1]), tool_output(&responses[2]));
    assert_eq!((&first["tool_count"], &first["next_skip"]), (&json!(900), &json!(25)));
    assert_eq!(first["tools"][0]["name"], "do_item_899");
    assert!(first["policy"].as_str().unwrap().contains("catalogue show pypi:crowd --policy recommended"), "{first}");
    assert_eq!((second["tools"].as_array().unwrap().len(), &second["next_skip"]), (100, &json!(125)));
    assert!(last.get("next_skip").is_none() && last["tools"].as_array().unwrap().len() == 10, "{last}");
    // The cursor is ahead of the log, so it belongs to another log.
    assert!(responses[3]["result"]["isError"] == true && responses[3].to_string().contains("start again with 0"));
}

#[test]
fn the_catalogue_serves_stateful_and_stateless_clients() {
    let dir = dir_with_index();
    dir.run(&["catalogue", "update", "--from", "i.glx", "--data", "d", "--allow-older", "--allow-smaller"]);
    write_newer_index(&dir, "new.glx");
    dir.run(&["catalogue", "update", "--from", "new.glx", "--data", "d"]);
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"}});
    let responses = send_lines(
        &dir,
        &[
            json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}}),
            json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
            json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}),
            tool_call(3, "check_mcp_server", &json!({"server": "npm:@example/github"})),
            tool_call(4, "check_mcp_server", &json!({"server": "not-indexed"})),
            tool_call(5, "search_registry", &json!({"query": "mail", "level": "medium"})),
            tool_call(6, "check_tool", &json!({"server": "mail", "tool": "send_mail"})),
            tool_call(7, "check_mcp_stack", &json!({"servers": ["@example/github", "mail", "not-indexed"]})),
            tool_call(8, "get_change_events", &json!({"cursor": 1, "limit": 1})),
            tool_call(9, "search_registry", &json!({"qeury": "x"})),
            tool_call(10, "drop_all", &json!({})),
            json!({"jsonrpc": "2.0", "id": 11, "method": "tools/list", "params": {"_meta": meta}}),
            json!({"jsonrpc": "2.0", "id": 12, "method": "server/discover", "params": {"_meta": meta}}),
            json!({"jsonrpc": "2.0", "id": 13, "method": "resources/subscribe", "params": {"uri": "x"}}),
        ],
    );
    let response_to = |id: u64| {
        responses.iter().find(|response| response["id"] == id).unwrap_or_else(|| panic!("no response to {id}"))
    };
    assert_eq!(responses.len(), 13);
    assert_eq!(response_to(1)["result"]["protocolVersion"], "2025-06-18");
    let names: Vec<&str> = response_to(2)["result"]["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["check_mcp_server", "search_registry", "check_tool", "check_mcp_stack", "get_change_events"]);
    let output = |id: u64| tool_output(response_to(id));
    assert_eq!(
        (&output(3)["verdict"], &output(3)["tools"][0]["level"]),
        (&json!("connect-with-rule"), &json!("Critical"))
    );
    assert!(output(3)["policy"].as_str().unwrap().contains("\"hide\""));
    assert_eq!((&output(4)["verdict"], &output(4)["is_known"]), (&json!("ask-first"), &json!(false)));
    assert_eq!(output(5)["tools"][0]["name"], "send_mail");
    assert_eq!(output(6)["recommended"]["tools"]["send_mail"]["limits"][0]["max"], 30);
    assert_eq!(
        (&output(7)["stack"]["combination_count"], &output(7)["stack"]["unknown"]),
        (&json!(1), &json!(["not-indexed"]))
    );
    assert_eq!(
        (&output(8)["events"][0]["cursor"], &output(8)["cursor"], &output(8)["has_more"]),
        (&json!(2), &json!(2), &json!(true))
    );
    assert_eq!(response_to(9)["result"]["isError"], true);
    assert_eq!(response_to(10)["error"]["code"], -32602);
    assert_eq!(response_to(11)["result"]["resultType"], "complete");
    assert!(response_to(12)["result"]["supportedVersions"].as_array().unwrap().contains(&json!("2026-07-28")));
    assert_eq!(response_to(13)["error"]["code"], -32601);
    assert!(!format!("{responses:?}").to_lowercase().contains("safe"));
}

#[test]
fn a_version_other_than_the_indexed_one_is_reported() {
    let dir = dir_with_index();
    dir.run(&["catalogue", "update", "--from", "i.glx", "--data", "d", "--allow-older", "--allow-smaller"]);
    let responses = send_lines(
        &dir,
        &[
            tool_call(1, "check_mcp_server", &json!({"server": "npm:@example/files@9.9.9"})),
            tool_call(2, "check_mcp_stack", &json!({"servers": ["npm:@example/files@9.9.9", "notes>=1.0"]})),
            tool_call(3, "check_mcp_server", &json!({"server": "npm:@example/files@1.0.0"})),
        ],
    );
    let output = |at: usize| tool_output(&responses[at]);
    let other = "the indexed version is 1.0.0, not 9.9.9";
    for server in [&output(0), &output(1)["servers"][0]] {
        assert!(server["verdict"] == "connect-with-rule" && server["reasons"].to_string().contains(other), "{server}");
    }
    let range = &output(1)["servers"][1];
    assert!(range["verdict"] == "connect-with-rule", "{range}");
    assert!(range["reasons"].to_string().contains("the version you mean is not known"), "{range}");
    assert_eq!(output(2)["verdict"], "proceed");
}

#[test]
fn an_invalid_line_gets_an_error_and_the_next_is_served() {
    let dir = dir_with_index();
    dir.write(
        "lines",
        &format!("not json\n\n[1]\n{}\n{}\n", "x".repeat(5 << 20), tool_call(1, "search_registry", &json!({}))),
    );
    let program = env!("CARGO_BIN_EXE_gatelodge");
    let run = dir.run_shell(&format!("'{program}' catalogue mcp --index i.glx < lines"));
    let responses: Vec<Value> = run.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let codes: Vec<&Value> = responses.iter().map(|response| &response["error"]["code"]).collect();
    assert_eq!(codes[..3], [&json!(-32700), &json!(-32600), &json!(-32600)]);
    assert_eq!(tool_output(&responses[3])["tool_count"], 5);
}
