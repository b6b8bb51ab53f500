use gatelodge_catalogue::{PackageRegistry, RiskLevel, RiskSignalKind};

use super::*;

/// Asserts that the text defines no tools. The call keeps the file in use, so that it is not left out as unused.
fn none(text: &str) {
    assert_eq!(names(&read_one(&format!("start();{text}"))), Vec::<&str>::new(), "in {text}");
}

#[test]
fn prompts_and_resources_are_not_tools() {
    none(
        r#"server.prompt("review", { code: z.string() }, f); server.registerPrompt("p", { description: "P" }, f);
        server.registerResource("r", "file://r", { description: "R" }, f); server.resource("s", "x://s", f);
        const prompts = [{ name: "write", description: "Writes", arguments: [{ name: "topic", required: true }] }];"#,
    );
}

#[test]
fn named_objects_without_a_schema_are_not_tools() {
    none(
        r#"new McpServer({ name: "kitchen", version: "1.0.0" });
        const commands = [{ name: "init", description: "Sets up" }];
        const agents = [{ name: "cook", description: "Cooks", tools: ["knife"] }];
        program.command("serve").option({ name: "port", description: "Port", parameters: 1 });"#,
    );
}

#[test]
fn calls_of_tools_are_not_tools() {
    none(r#"client.callTool({ name: "remote", arguments: { a: 1 } });"#);
}

#[test]
fn tool_definitions_of_model_apis_are_not_tools() {
    none(
        r#"const forModel = [{ type: "function", function: { name: "ask", description: "Asks", parameters: { type: "object" }, inputSchema: {} } }];
        const other = [{ name: "ask", description: "Asks", input_schema: { type: "object" } }];"#,
    );
}

#[test]
fn examples_within_schemas_are_not_tools() {
    none(
        r#"const schema = { type: "object", examples: [{ name: "shown", description: "D", inputSchema: { type: "object" } }] };"#,
    );
}

#[test]
fn package_without_mcp_has_no_tools() {
    let text = r#"const tools = [{ name: "x", description: "X", inputSchema: { type: "object" } }]; agent.addTool({ name: "y", description: "Y", parameters: {} });"#;
    assert_eq!(names(&read(&[("index.js", text)])), Vec::<&str>::new());
}

/// SDK code in a bundle: methods with these names, and a handler that lists registered tools.
#[test]
fn sdk_code_defines_no_tools() {
    none(
        r#"class Server2 { constructor() { this._registeredTools = {}; }
            handlers() { this.server.setRequestHandler(ListToolsRequestSchema, () => ({ tools: Object.entries(this._registeredTools)
                .map(([name, tool]) => ({ name, title: tool.title, description: tool.description, inputSchema: convert(tool.inputSchema) })) })); }
            _create(name, title, description, inputSchema) { this._registeredTools[name] = { title, description, inputSchema }; }
            tool(name, ...rest) { return this._create(name, undefined, rest[0]); }
            registerTool(name, config, cb) { return this._create(name, config.title, config.description, config.inputSchema); } }
        // server.registerTool("in_a_comment", {}, f);
        const text = 'server.registerTool("in_a_text", {}, f)';"#,
    );
}

#[test]
fn tests_and_examples_are_read_only_if_they_are_entry_points_or_imported() {
    let tool = |name: &str| format!(r#"{SDK} server.tool("{name}", "Told", f);"#);
    let (own, shown, tested) = (tool("own"), tool("shown"), tool("tested"));
    let all = [
        ("src/index.ts", own.as_str()),
        ("dist/examples/a.js", &shown),
        ("src/__tests__/a.ts", &tested),
        ("src/a.test.ts", &tested),
        ("node_modules/x/i.js", &tested),
    ];
    assert_eq!(names(&read(&all)), ["own"]);
    assert_eq!(names(&read(&all[1..])), Vec::<&str>::new());
    // A library whose own code registers nothing.
    let library = [("package.json", r#"{"name": "x", "main": "dist/x.js"}"#), ("dist/x.js", SDK), all[1]];
    assert_eq!(names(&read(&library)), Vec::<&str>::new());
    let begins = [("package.json", r#"{"name": "x", "bin": "./dist/examples/a.js"}"#), all[1]];
    assert_eq!(names(&read(&begins)), ["shown"]);
    let asks = format!("{SDK} import './templates/b.js';");
    let asked = [("package.json", r#"{"main": "i.js"}"#), ("i.js", &asks), ("templates/b.js", &shown), all[1]];
    assert_eq!(names(&read(&asked)), ["shown"]);
}

#[test]
fn tools_that_no_entry_point_imports_are_left_out() {
    let tool = |name: &str| format!(r#"{SDK} server.tool("{name}", "Told", f);"#);
    let (own, old) = (tool("own"), tool("old"));
    // The program has no tools; the library and an unused file have some.
    let package = r#"{"name": "x", "bin": "cli.js", "exports": {".": {"import": "./lib.js"}, "./package.json": "./package.json"}}"#;
    let files = [("package.json", package), ("cli.js", "help();"), ("lib.js", &own), ("old.js", &old)];
    assert_eq!(names(&read(&files)), ["own"]);
    // A program that starts another file mentions it.
    let starts = "spawn('node', [join(here, 'server.js')]);";
    let files = [
        ("package.json", r#"{"name": "x", "bin": "cli.js"}"#),
        ("cli.js", starts),
        ("server.js", own.as_str()),
        ("old.js", &old),
    ];
    assert_eq!(names(&read(&files)), ["own"]);
}

#[test]
fn registrations_in_an_unused_function_are_left_out() {
    let text = r#"function registerBooks(server) { server.tool("books", "Told", f); }
        function registerOldThings(server) { server.tool("old", "Told", f); within(server); }
        function within(server) { server.tool("older", "Told", f); }
        const registerLater = (server) => { server.tool("later", "Told", f); };
        registerBooks(server); const all = { registerLater };
        export { registerOldThings };"#;
    assert_eq!(names(&read_one(text)), ["books", "later"]);
    // It is imported under another name, or with all exports of its file.
    let by_default = r#"export default function registerBooks(server) { server.tool("books", "Told", f); }"#;
    let index = format!("{SDK} import add from './books.js'; add(server);");
    assert_eq!(names(&read(&[("index.js", &index), ("books.js", by_default)])), ["books"]);
    let index = format!("{SDK} import * as all from './books.js'; for (const add of Object.values(all)) add(server);");
    let plain = by_default.replace("default ", "");
    assert_eq!(names(&read(&[("index.js", &index), ("books.js", &plain)])), ["books"]);
    // Exports of a library are for other packages to call.
    let offers = format!(r#"{SDK} export function registerBooks(server) {{ server.tool("books", "Told", f); }}"#);
    assert_eq!(names(&read(&[("package.json", r#"{"main": "index.js"}"#), ("index.js", &offers)])), ["books"]);
}

#[test]
fn definitions_in_a_file_without_importers_are_left_out() {
    let index = format!(
        r#"{SDK} import {{ used }} from "./used.js"; server.setRequestHandler(ListToolsRequestSchema, () => ({{ tools: [used] }}));"#
    );
    let used = r#"export const used = { name: "used", description: "U", inputSchema: { type: "object" } };"#;
    let old = r#"export const old = { name: "old", description: "O", inputSchema: { type: "object" } };"#;
    assert_eq!(names(&read(&[("index.js", &index), ("used.js", used), ("old.js", old)])), ["used"]);
}

#[test]
fn invalid_tool_names_are_left_out() {
    none(
        r#"server.tool("", f, f); server.tool("---", f, f); server.tool(unknown, "Told", f);
        server.tool(`${process.env.A}_x`, "Told", f);"#,
    );
}

#[test]
fn unusual_name_counts_if_registered_but_not_if_only_defined() {
    let tools = read_one(
        r#"server.tool("has space", "Told", f); server.tool("plain", "Told", f);
        server.tool("read\u200b_file", "Told", f); server.tool("dеlete_all", "Told", f);
        const defined = { name: "A page", description: "Told", inputSchema: { type: "object" } };
        const twice = { name: "also here", description: "Told", inputSchema: { type: "object" } };
        server.registerTool("also here", {}, f); start(defined, twice);"#,
    );
    let release = gatelodge_catalogue::PackageRelease {
        source: PackageRegistry::Npm,
        package: "x".into(),
        version: "1.0.0".into(),
        date: None,
    };
    let kept = gatelodge_catalogue::derive_facts(&release, &tools).tools;
    let kept_names: Vec<&str> = kept.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(kept_names, ["has space", "plain", "read\u{200b}_file", "dеlete_all", "also here"]);
    assert!(kept[2].signals.contains(&RiskSignalKind::HiddenText), "{:?}", kept[2].signals);
    assert!(kept[3].signals.contains(&RiskSignalKind::MixedLetters), "{:?}", kept[3].signals);
}

#[test]
fn function_exported_under_another_name_is_called_by_that_name() {
    let books = r#"function registerBooks(server) { server.tool("books", "Told", f); }
        export { registerBooks as add };"#;
    let index = format!("{SDK} import {{ add }} from './books.js'; add(server);");
    assert_eq!(names(&read(&[("index.js", &index), ("books.js", books)])), ["books"]);
}

#[test]
fn nothing_is_left_out_if_a_program_cannot_be_read() {
    let server = format!(r#"{SDK} export function registerBooks(server) {{ server.tool("books", "Told", f); }}"#);
    let package = r#"{"name": "x", "bin": "./bin/start"}"#;
    assert_eq!(names(&read(&[("package.json", package), ("lib/server.js", &server)])), ["books"]);
}

#[test]
fn index_file_is_the_entry_point_without_main() {
    let tool = |name: &str| format!(r#"{SDK} server.tool("{name}", "Told", f);"#);
    let (own, old) = (tool("own"), tool("old"));
    let files = |package| [("package.json", package), ("index.js", own.as_str()), ("old.js", &old)];
    assert_eq!(names(&read(&files(r#"{"name": "x"}"#))), ["own"]);
    // `exports` replaces `main`.
    assert_eq!(names(&read(&files(r#"{"name": "x", "exports": "./old.js"}"#))), ["old"]);
}

#[test]
fn identical_files_in_two_folders_are_both_followed() {
    let index =
        format!("{SDK} import {{ add }} from './a/index.js'; import {{ more }} from './b/index.js'; add(s); more(s);");
    let barrel = "export * from \"./tool.js\";";
    let files = [
        ("package.json", r#"{"name": "x", "main": "index.js"}"#),
        ("index.js", index.as_str()),
        ("a/index.js", barrel),
        ("a/tool.js", r#"export function add(server) { server.tool("first", "Told", f); }"#),
        ("b/index.js", barrel),
        ("b/tool.js", r#"export function more(server) { server.tool("second", "Told", f); }"#),
    ];
    assert_eq!(names(&read(&files)), ["first", "second"]);
}

#[test]
fn imports_from_a_test_folder_count() {
    let index = format!("{SDK} import {{ add }} from './spec/tools.js'; add(server);");
    let tool = r#"export function add(server) { server.tool("books", "Told", f); }"#;
    let other = format!(r#"{SDK} server.tool("other", "Told", f);"#);
    let files = [("src/index.js", index.as_str()), ("src/spec/tools.js", tool), ("src/spec/other.js", &other)];
    assert_eq!(names(&read(&files)), ["books"]);
    // A package of which only the tests use MCP is not a server.
    let client = r#"call({ name: "x", description: "Told", inputSchema: { type: "object" } });"#;
    assert_eq!(names(&read(&[("index.js", client), ("test/other.js", &other)])), Vec::<&str>::new());
}

#[test]
fn more_harmful_of_two_definitions_counts() {
    let text = format!(
        r#"{SDK} server.tool("get_it", "Looks up a book.", {{ title: z.string(), shelf: z.string() }}, f);
        server.tool("get_it", "Deletes all files for good.", {{}}, f);"#
    );
    let found = extract_javascript_tools(&[SourceFile { path: "index.js", text: &text }]);
    assert_eq!((found.tools.len(), found.alternatives.len()), (1, 1));
    let release = gatelodge_catalogue::PackageRelease {
        source: PackageRegistry::Npm,
        package: "x".into(),
        version: "1.0.0".into(),
        date: None,
    };
    let kept = gatelodge_catalogue::derive_facts(&release, &[found.tools, found.alternatives].concat()).tools;
    assert_eq!((kept.len(), RiskLevel::of(kept[0].category)), (1, RiskLevel::Critical));
}
