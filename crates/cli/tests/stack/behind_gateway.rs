//! The catalogue as a server behind the gateway, with the configuration of `examples/catalogue`.

use serde_json::Value;

use super::support::{Run, example};
use super::{dir_with_index, write_newer_index};

#[test]
fn agents_call_the_five_catalogue_tools_through_the_gateway() {
    let dir = dir_with_index();
    dir.run(&["catalogue", "update", "--from", "i.glx", "--data", "d", "--allow-older", "--allow-smaller"]);
    write_newer_index(&dir, "new.glx");
    dir.run(&["catalogue", "update", "--from", "new.glx", "--data", "d"]);
    let (program, data) = (env!("CARGO_BIN_EXE_gatelodge"), dir.path("d").display().to_string());
    let config = std::fs::read_to_string(example("catalogue/gatelodge.toml")).unwrap();
    let config = config.replace(":7420", ":0").replace(":7421", ":0");
    let config = config.replace(
        r#"["gatelodge", "catalogue", "mcp"]"#,
        &format!(r#"["{program}", "catalogue", "mcp", "--data", "{data}"]"#),
    );
    dir.write("gatelodge.toml", &format!("{config}\n[store]\ndata = \"data\"\n"));
    std::fs::copy(example("catalogue/policy.json"), dir.path("policy.json")).unwrap();
    let token = dir.run(&["grant", "token"]).stdout.trim().to_owned();
    let running = dir.start("data", &[("GATELODGE_AGENT_TOKEN", &token)], &["serve", "--config", "gatelodge.toml"]);
    let url = running.url("catalogue");
    let run = |args: &[&str]| dir.run_with(&[("GATELODGE_TOKEN", &token)], args);
    let listed = run(&["scan", "--url", &url, "--token-env", "GATELODGE_TOKEN", "--json"]);
    let call = |tool: &str, arguments: &str| -> Run { run(&["call", &url, tool, arguments]) };
    for (tool, arguments, message) in [
        ("check_mcp_server", r#"{"server": "npm:@example/github"}"#, "\"verdict\""),
        ("search_registry", r#"{"query": "mail"}"#, "send_mail"),
        ("check_tool", r#"{"server": "pypi:mail", "tool": "send_mail"}"#, "\"recommended\""),
        ("check_mcp_stack", r#"{"servers": ["npm:@example/github", "pypi:mail"]}"#, "Critical"),
        ("get_change_events", "{}", "level_raised"),
    ] {
        assert!(listed.stdout.contains(tool), "{tool}: {}{}", listed.stdout, listed.stderr);
        let run = call(tool, arguments);
        assert!(run.code == 0 && run.stdout.contains(message), "{tool}: {}{}", run.stdout, run.stderr);
        let output: Value = serde_json::from_str(&run.stdout).unwrap();
        assert!(output.is_object(), "{output}");
    }
    assert_ne!(call("drop_all", "{}").code, 0);
    let calls = dir.run(&["calls", "--data", "data", "--json"]).stdout;
    assert!(calls.contains("check_mcp_stack"), "{calls}");
}
