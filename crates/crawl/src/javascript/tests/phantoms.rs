use super::*;

/// The call keeps the file in use: what nobody runs or imports is left out for that reason alone.
fn none(text: &str) {
    assert_eq!(names(&read_one(&format!("start();{text}"))), Vec::<&str>::new(), "in {text}");
}

#[test]
fn prompts_and_resources_are_no_tools() {
    none(
        r#"server.prompt("review", { code: z.string() }, f); server.registerPrompt("p", { description: "P" }, f);
        server.registerResource("r", "file://r", { description: "R" }, f); server.resource("s", "x://s", f);
        const prompts = [{ name: "write", description: "Writes", arguments: [{ name: "topic", required: true }] }];"#,
    );
}

#[test]
fn named_objects_without_a_schema_are_no_tools() {
    none(
        r#"new McpServer({ name: "kitchen", version: "1.0.0" });
        const commands = [{ name: "init", description: "Sets up" }];
        const agents = [{ name: "cook", description: "Cooks", tools: ["knife"] }];
        program.command("serve").option({ name: "port", description: "Port", parameters: 1 });"#,
    );
}

#[test]
fn calls_of_tools_are_no_tools() {
    none(r#"client.callTool({ name: "remote", arguments: { a: 1 } });"#);
}

#[test]
fn definitions_for_models_are_no_tools() {
    none(
        r#"const forModel = [{ type: "function", function: { name: "ask", description: "Asks", parameters: { type: "object" }, inputSchema: {} } }];
        const other = [{ name: "ask", description: "Asks", input_schema: { type: "object" } }];"#,
    );
}

#[test]
fn examples_within_schemas_are_no_tools() {
    none(
        r#"const schema = { type: "object", examples: [{ name: "shown", description: "D", inputSchema: { type: "object" } }] };"#,
    );
}

#[test]
fn package_without_mcp_has_no_tools() {
    let text = r#"const tools = [{ name: "x", description: "X", inputSchema: { type: "object" } }]; agent.addTool({ name: "y", description: "Y", parameters: {} });"#;
    assert_eq!(names(&read(&[("index.js", text)])), Vec::<&str>::new());
}

/// The library's own code, in a bundle: methods with these names, and a handler that lists what
/// was registered.
#[test]
fn code_of_the_library_defines_no_tools() {
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
fn tests_are_not_read_and_examples_only_without_anything_else() {
    let tool = |name: &str| format!(r#"{SDK} server.tool("{name}", "Told", f);"#);
    let (own, shown, tested) = (tool("own"), tool("shown"), tool("tested"));
    let all = [
        ("src/index.ts", own.as_str()),
        ("examples/a.js", &shown),
        ("src/__tests__/a.ts", &tested),
        ("src/a.test.ts", &tested),
        ("node_modules/x/i.js", &tested),
    ];
    assert_eq!(names(&read(&all)), ["own"]);
    assert_eq!(names(&read(&all[1..])), ["shown"]);
    assert_eq!(names(&read(&all[2..])), Vec::<&str>::new());
}

#[test]
fn definitions_in_a_file_nobody_imports_are_left_out() {
    let index = format!(
        r#"{SDK} import {{ used }} from "./used.js"; server.setRequestHandler(ListToolsRequestSchema, () => ({{ tools: [used] }}));"#
    );
    let used = r#"export const used = { name: "used", description: "U", inputSchema: { type: "object" } };"#;
    let old = r#"export const old = { name: "old", description: "O", inputSchema: { type: "object" } };"#;
    assert_eq!(names(&read(&[("index.js", &index), ("used.js", used), ("old.js", old)])), ["used"]);
}

#[test]
fn names_that_no_tool_can_have_are_left_out() {
    none(
        r#"server.tool("", f, f); server.tool("has space", f, f); server.tool("---", f, f); server.tool(unknown, "Told", f);
        server.tool(`${process.env.A}_x`, "Told", f);"#,
    );
}
