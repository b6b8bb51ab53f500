//! The 22 tools: how each is listed, and the one request that each sends to the image.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod common;

use std::collections::BTreeMap;

use common::{FakeImage, StdioClient, as_stateless, call, request, soon};
use serde_json::{Value, json};

/// Expected properties of a tool.
struct Row {
    name: &'static str,
    /// In order: `name*` is a required string, `name{}*` a required object, `name=default` is optional.
    parameters: &'static str,
    /// The request for required arguments only, each the string `v` or the object `{"k":1}`.
    asked: &'static str,
    effect: Effect,
}

#[derive(Clone, Copy, PartialEq)]
enum Effect {
    Reads,
    Captures,
    Sets,
    Exports,
    Runs,
}
use Effect::{Captures, Exports, Reads, Runs, Sets};

const fn row(name: &'static str, parameters: &'static str, asked: &'static str, effect: Effect) -> Row {
    Row { name, parameters, asked, effect }
}

const TABLE: &[Row] = &[
    row("eval", "code*", "POST /eval", Runs),
    row("get_class_source", "class_name*", "GET /get-class-source?class_name=v", Reads),
    row(
        "get_method_source",
        "class_name* method_name* is_class_method=false",
        "GET /get-method-source?class_name=v&method_name=v&is_class_method=false",
        Reads,
    ),
    row("get_class_comment", "class_name*", "GET /get-class-comment?class_name=v", Reads),
    row("search_classes_like", "class_name_query*", "GET /search-classes-like?class_name_query=v", Reads),
    row("search_methods_like", "method_name_query*", "GET /search-methods-like?method_name_query=v", Reads),
    row("search_traits_like", "trait_name_query*", "GET /search-traits-like?trait_name_query=v", Reads),
    row("search_implementors", "method_name*", "GET /search-implementors?method_name=v", Reads),
    row("search_references", "method_name_or_symbol*", "GET /search-references?program_symbol=v", Reads),
    row("search_references_to_class", "class_name*", "GET /search-references-to-class?class_name=v", Reads),
    row("list_packages", "", "GET /list-packages", Reads),
    row("list_classes", "package_name*", "GET /list-classes?package_name=v", Reads),
    row("list_extended_classes", "package_name*", "GET /list-extended-classes?package_name=v", Reads),
    row("list_methods", "package_name*", "GET /list-methods?package_name=v", Reads),
    row("export_package", r#"package_name* path="/tmp""#, "GET /export-package?package_name=v&path=%2Ftmp", Exports),
    row("import_package", r#"package_name* path="/tmp""#, "GET /import-package?package_name=v&path=%2Ftmp", Runs),
    row(
        "install_project",
        "project_name* repository_url* load_groups=null",
        "GET /install-project?project_name=v&repository_url=v",
        Runs,
    ),
    row("run_package_test", "package_name*", "GET /run-package-test?package_name=v", Runs),
    row("run_class_test", "class_name*", "GET /run-class-test?class_name=v", Runs),
    row(
        "read_screen",
        r#"target_type="world" capture_screenshot=true"#,
        "GET /read-screen?target_type=world&capture_screenshot=true",
        Captures,
    ),
    row("get_settings", "", "GET /get-settings", Reads),
    row("apply_settings", "settings{}*", "POST /apply-settings", Sets),
];

impl Row {
    /// Returns name, type and default of each parameter. Required ones have no default.
    fn parameters(&self) -> Vec<(&str, Value, Option<Value>)> {
        let read = |word: &'static str| match word.split_once('=') {
            Some((name, default)) => {
                let default: Value = serde_json::from_str(default).expect("a default");
                let kind = match &default {
                    Value::Null => json!(["string", "null"]),
                    Value::Bool(_) => json!("boolean"),
                    _ => json!("string"),
                };
                (name, kind, Some(default))
            }
            None if word.ends_with("{}*") => (word.trim_end_matches("{}*"), json!("object"), None),
            None => (word.trim_end_matches('*'), json!("string"), None),
        };
        self.parameters.split_whitespace().map(read).collect()
    }

    /// Returns the required arguments only.
    fn least(&self) -> Value {
        let parameters = self.parameters().into_iter().filter(|(_, _, default)| default.is_none());
        parameters
            .map(|(name, kind, _)| (name.to_owned(), if kind == "object" { json!({"k": 1}) } else { json!("v") }))
            .collect()
    }
}

async fn listed() -> Vec<Value> {
    let image = FakeImage::answering("{}").await;
    let mut client = StdioClient::of(&image);
    let answer = client.ask(&request(1, "tools/list", json!({}))).await;
    assert_eq!(image.lines(), [""; 0], "nothing is asked of the image for it");
    answer["result"]["tools"].as_array().expect("tools").clone()
}

#[tokio::test]
async fn all_22_tools_are_listed_with_their_parameters_and_defaults() {
    let tools = listed().await;
    let names: Vec<&str> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names, TABLE.iter().map(|row| row.name).collect::<Vec<_>>());
    for (tool, row) in tools.iter().zip(TABLE) {
        let schema = &tool["inputSchema"];
        assert_eq!(schema["type"], "object", "{}", row.name);
        assert_eq!(schema["additionalProperties"], false, "{}", row.name);
        let properties = schema["properties"].as_object().expect("properties");
        let found: Vec<(&str, Value, Option<Value>)> = properties
            .iter()
            .map(|(name, property)| (name.as_str(), property["type"].clone(), property.get("default").cloned()))
            .collect();
        assert_eq!(found, row.parameters(), "{}", row.name);
        let required: Vec<&str> =
            row.parameters().iter().filter(|(_, _, default)| default.is_none()).map(|(name, _, _)| *name).collect();
        match schema.get("required") {
            None => assert!(required.is_empty(), "{}", row.name),
            Some(found) => assert_eq!(found, &json!(required), "{}", row.name),
        }
    }
}

#[tokio::test]
async fn every_tool_and_parameter_is_described() {
    for tool in listed().await {
        for member in ["title", "description"] {
            assert!(tool[member].as_str().is_some_and(|text| !text.is_empty()), "{member} of {tool}");
        }
        for (name, property) in tool["inputSchema"]["properties"].as_object().expect("properties") {
            assert!(property["description"].as_str().is_some_and(|text| !text.is_empty()), "{name} of {tool}");
        }
        assert_eq!(tool["outputSchema"]["properties"]["success"], json!({"const": true}), "{tool}");
    }
}

#[tokio::test]
async fn every_result_matches_the_listed_schema() {
    let results = ["\"text\"", "null", "7", "[]", "[1,{}]", "{}", r#"{"screenshot":7}"#];
    let mut bodies: Vec<String> = results.iter().map(|own| format!(r#"{{"success":true,"result":{own}}}"#)).collect();
    bodies.extend([r#"{"success":true}"#, r#"{"success":true,"error":{"description":"d"}}"#].map(str::to_owned));
    bodies.extend([r#"{"success":false,"error":"e"}"#, r#"{"success":false}"#, "[]", "no JSON"].map(str::to_owned));
    for compat in [false, true] {
        let image = FakeImage::answering("{}").await;
        let settings = gatelodge_pharo::PharoSettings { compat, ..common::settings() };
        let mut client = StdioClient::to(common::server(image.port(), settings));
        let listed = client.ask(&request(0, "tools/list", json!({}))).await;
        for (tool, row) in listed["result"]["tools"].as_array().expect("tools").iter().zip(TABLE) {
            let schema = jsonschema::validator_for(&tool["outputSchema"]).expect("a schema");
            for body in &bodies {
                image.set_script(common::page("200 OK", "application/json", body));
                let result = client.ask(&call(1, row.name, row.least())).await["result"].take();
                // Like clients do: only an error may come without structured content.
                match result.get("structuredContent") {
                    Some(structured) => assert!(schema.is_valid(structured), "{}: {body}: {result}", row.name),
                    None => assert_eq!(result["isError"], true, "{}: {body}: {result}", row.name),
                }
            }
        }
    }
}

#[tokio::test]
async fn annotations_say_what_a_call_may_do() {
    let tools = listed().await;
    for (tool, row) in tools.iter().zip(TABLE) {
        // Read only, destructive, idempotent, open world.
        let expected = match row.effect {
            Reads => [true, false, true, false],
            Captures => [false, false, false, false],
            Sets => [false, true, true, false],
            Exports => [false, true, true, false],
            Runs => [false, true, false, true],
        };
        let hints = ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"];
        assert_eq!(hints.map(|hint| tool["annotations"][hint].as_bool().unwrap()), expected, "{}", row.name);
    }
}

#[tokio::test]
async fn both_generations_list_the_same_tools_and_stateless_ones_a_ttl() {
    let image = FakeImage::answering("{}").await;
    let mut client = StdioClient::of(&image);
    let listed = listed().await;
    let answer = client.ask(&as_stateless(request(1, "tools/list", json!({})))).await;
    let result = &answer["result"];
    assert_eq!(result["tools"].as_array(), Some(&listed));
    assert_eq!(result["resultType"], "complete");
    assert_eq!(result["cacheScope"], "public");
    assert!(result["ttlMs"].as_u64().is_some_and(|time| time > 0));
    assert_eq!(result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "pharo-smalltalk-interop");
}

#[tokio::test]
async fn every_tool_requests_only_its_own_endpoint_once() {
    for row in TABLE {
        let image = FakeImage::answering(r#"{"success":true,"result":"done"}"#).await;
        let mut client = StdioClient::of(&image);
        let answer = client.ask(&call(1, row.name, row.least())).await;
        assert_eq!(answer["result"]["structuredContent"]["result"], "done", "{}: {answer}", row.name);
        assert_eq!(image.lines(), [format!("{} HTTP/1.1", row.asked)], "{}", row.name);
        assert_eq!(client.end().await, [] as [Value; 0]);
        assert_eq!(image.lines().len(), 1, "{}", row.name);
    }
}

#[tokio::test]
async fn posted_body_is_json_with_only_the_arguments() {
    let image = FakeImage::answering(r#"{"success":true,"result":1}"#).await;
    let mut client = StdioClient::of(&image);
    client.ask(&call(1, "eval", json!({"code": "'a\"b' , String cr"}))).await;
    // As the client wrote it: order, spelling of numbers, and white space.
    let settings = r#"{"stackSize": 1.50, "a":{"z":1,"b":[12345678901234567890123]}}"#;
    client
        .send_raw(format!(r#"{{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{{"name":"apply_settings","arguments":{{"settings":{settings}}}}}}}"#).as_bytes())
        .await;
    client.send_raw(b"\n").await;
    client.next().await;
    let asked = image.asked();
    assert_eq!(asked[0].body, r#"{"code":"'a\"b' , String cr"}"#);
    assert_eq!(asked[1].body, format!(r#"{{"settings":{settings}}}"#));
    for asked in asked {
        let headers: BTreeMap<String, String> = asked
            .headers
            .iter()
            .map(|line| {
                line.split_once(": ").map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned())).unwrap()
            })
            .collect();
        assert_eq!(headers["content-type"], "application/json");
        assert_eq!(headers["accept"], "application/json");
        assert_eq!(headers["host"], format!("127.0.0.1:{}", image.port()));
        assert_eq!(headers["content-length"], asked.body.len().to_string());
        assert_eq!(headers.len(), 4, "{headers:?}");
    }
}

#[tokio::test]
async fn arguments_replace_the_defaults() {
    let image = FakeImage::answering(r#"{"success":true,"result":{}}"#).await;
    let mut client = StdioClient::of(&image);
    for (at, (tool, arguments)) in [
        ("get_method_source", json!({"is_class_method": true, "method_name": "new:", "class_name": "Array"})),
        ("export_package", json!({"package_name": "P", "path": "/srv/a b"})),
        ("read_screen", json!({"target_type": "spec", "capture_screenshot": false})),
        (
            "install_project",
            json!({"project_name": "P", "repository_url": "github://a/b:main/src", "load_groups": "a,b"}),
        ),
        ("install_project", json!({"project_name": "P", "repository_url": "u", "load_groups": null})),
        ("install_project", json!({"project_name": "P", "repository_url": "u", "load_groups": ""})),
    ]
    .into_iter()
    .enumerate()
    {
        client.ask(&call(at, tool, arguments)).await;
    }
    let expected = [
        "/get-method-source?class_name=Array&method_name=new%3A&is_class_method=true",
        "/export-package?package_name=P&path=%2Fsrv%2Fa+b",
        "/read-screen?target_type=spec&capture_screenshot=false",
        "/install-project?project_name=P&repository_url=github%3A%2F%2Fa%2Fb%3Amain%2Fsrc&load_groups=a%2Cb",
        "/install-project?project_name=P&repository_url=u",
        "/install-project?project_name=P&repository_url=u",
    ];
    assert_eq!(image.lines(), expected.map(|target| format!("GET {target} HTTP/1.1")));
}

#[tokio::test]
async fn only_long_running_tools_have_the_longer_timeout() {
    let long = ["export_package", "import_package", "install_project", "run_package_test", "run_class_test"];
    let image = FakeImage::doing(vec![common::Step::Stall]).await;
    let short = std::time::Duration::from_secs(3);
    let settings = gatelodge_pharo::PharoSettings { timeout: short, ..common::settings() };
    let mut client = StdioClient::to(common::server(image.port(), settings));
    for row in TABLE {
        client.send(&call(row.name, row.name, row.least())).await;
    }
    image.wait_for_requests(TABLE.len()).await;
    // Calls with the shorter limit end by themselves; the others are still running and are cancelled.
    let mut answered = Vec::new();
    for _ in 0..TABLE.len() - long.len() {
        answered.push(client.next().await["id"].as_str().unwrap().to_owned());
    }
    assert!(long.iter().all(|name| !answered.iter().any(|own| own == name)), "{answered:?}");
    for name in long {
        client.send(&common::cancelled(name)).await;
    }
    image.wait_for_disconnects(TABLE.len()).await;
    assert_eq!(soon("the end", client.end()).await, [] as [Value; 0]);
}
