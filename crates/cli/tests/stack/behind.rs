//! The catalogue as a server behind the gateway, by the example that the documentation names.

use serde_json::Value;

use super::support::{Run, example};
use super::{newer, with_index};

#[test]
fn agents_reach_the_five_tools_of_the_catalogue_through_the_gateway() {
    let house = with_index();
    house.run(&["catalogue", "update", "--from", "i.glx", "--data", "d", "--allow-older", "--allow-smaller"]);
    newer(&house, "new.glx");
    house.run(&["catalogue", "update", "--from", "new.glx", "--data", "d"]);
    let (program, data) = (env!("CARGO_BIN_EXE_gatelodge"), house.path("d").display().to_string());
    let config = std::fs::read_to_string(example("catalogue/gatelodge.toml")).unwrap();
    let config = config.replace(":7420", ":0").replace(":7421", ":0");
    let config = config.replace(
        r#"["gatelodge", "catalogue", "mcp"]"#,
        &format!(r#"["{program}", "catalogue", "mcp", "--data", "{data}"]"#),
    );
    house.write("gatelodge.toml", &format!("{config}\n[store]\ndata = \"data\"\n"));
    std::fs::copy(example("catalogue/policy.json"), house.path("policy.json")).unwrap();
    let token = house.run(&["grant", "token"]).stdout.trim().to_owned();
    let running = house.start("data", &[("GATELODGE_AGENT_TOKEN", &token)], &["serve", "--config", "gatelodge.toml"]);
    let url = running.url("catalogue");
    let run = |args: &[&str]| house.run_with(&[("GATELODGE_TOKEN", &token)], args);
    let listed = run(&["scan", "--url", &url, "--token-env", "GATELODGE_TOKEN", "--json"]);
    let call = |tool: &str, arguments: &str| -> Run { run(&["call", &url, tool, arguments]) };
    for (tool, arguments, says) in [
        ("check_mcp_server", r#"{"server": "npm:@example/github"}"#, "\"verdict\""),
        ("search_registry", r#"{"query": "mail"}"#, "send_mail"),
        ("check_tool", r#"{"server": "pypi:mail", "tool": "send_mail"}"#, "\"recommended\""),
        ("check_mcp_stack", r#"{"servers": ["npm:@example/github", "pypi:mail"]}"#, "Critical"),
        ("get_change_events", "{}", "level_raised"),
    ] {
        assert!(listed.stdout.contains(tool), "{tool}: {}{}", listed.stdout, listed.stderr);
        let called = call(tool, arguments);
        assert!(called.code == 0 && called.stdout.contains(says), "{tool}: {}{}", called.stdout, called.stderr);
        let answer: Value = serde_json::from_str(&called.stdout).unwrap();
        assert!(answer.is_object(), "{answer}");
    }
    assert_ne!(call("drop_all", "{}").code, 0);
    let calls = house.run(&["calls", "--data", "data", "--json"]).stdout;
    assert!(calls.contains("check_mcp_stack"), "{calls}");
}
