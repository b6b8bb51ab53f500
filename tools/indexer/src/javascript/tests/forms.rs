use serde_json::json;

use super::*;

#[test]
fn register_tool_gives_name_description_schema_and_annotations() {
    let tools = read_one(
        r#"server.registerTool("cut_bread", {
            title: "Cut", description: "Cuts a loaf", inputSchema: { loaf: z.string(), slices: z.number().optional() },
            annotations: { readOnlyHint: false, destructiveHint: true },
        }, async ({ loaf }) => ({ content: [] }));"#,
    );
    let tool = only(&tools);
    assert_eq!((tool.name.as_str(), described(tool)), ("cut_bread", "Cuts a loaf"));
    assert_eq!(tool.input_schema["required"], json!(["loaf"]));
    assert_eq!(parameters(tool), ["loaf", "slices"]);
    assert_eq!(json!(tool.annotations), json!({ "readOnlyHint": false, "destructiveHint": true }));
}

#[test]
fn tool_in_all_its_overloads() {
    let tools = read_one(
        r#"const f = async () => ({ content: [] });
        server.tool("bare", f);
        server.tool("told", "Has words", f);
        server.tool("shaped", { a: z.string() }, f);
        server.tool("both", "Has words", { a: z.string() }, f);
        server.tool("hinted", "Has words", { readOnlyHint: true }, f);
        server.tool("all", "Has words", { a: z.string() }, { title: "All", readOnlyHint: true }, f);"#,
    );
    assert_eq!(names(&tools), ["bare", "told", "shaped", "both", "hinted", "all"]);
    let seen: Vec<_> =
        tools.iter().map(|tool| (tool.description.is_some(), parameters(tool).len(), tool.annotations.len())).collect();
    assert_eq!(seen, [(false, 0, 0), (true, 0, 0), (false, 1, 0), (true, 1, 0), (true, 0, 1), (true, 1, 2)]);
}

#[test]
fn list_handler_gives_the_tools_it_returns() {
    let tools = read_one(
        r#"const LIST = { name: "list_cups", description: "Lists", inputSchema: { type: "object", properties: { shelf: { type: "string" } } } };
        server.setRequestHandler(ListToolsRequestSchema, async () => ({
            tools: [LIST, { name: "break_cup", description: "Breaks", inputSchema: { type: "object", properties: {} }, annotations: { destructiveHint: true } }],
        }));"#,
    );
    assert_eq!(names(&tools), ["list_cups", "break_cup"]);
    assert_eq!(parameters(&tools[0]), ["shelf"]);
    assert_eq!(tools[1].annotations["destructiveHint"], json!(true));
}

#[test]
fn add_tool_takes_an_object_with_parameters() {
    let tools = read_one(
        r#"import { FastMCP } from "fastmcp";
        server.addTool({ name: "weigh", description: "Weighs", parameters: z.object({ grams: z.number() }),
            annotations: { readOnlyHint: true }, execute: async (a) => "x" });"#,
    );
    let tool = only(&tools);
    assert_eq!((tool.name.as_str(), parameters(tool)), ("weigh", vec!["grams"]));
    assert_eq!(tool.annotations["readOnlyHint"], json!(true));
}

#[test]
fn constants_give_names_across_files() {
    let names_file = r#"export const PREFIX = "tea";
        export const NAMES = { POUR: "pour_tea", DRINK: `drink_tea` } as const;
        export enum Kind { Wash = "wash_pot" }
        export default { name: "smell_tea", description: "Smells", inputSchema: {} } satisfies Tool;"#;
    let index = format!(
        r#"{SDK} import smell, {{ NAMES as N, PREFIX, Kind }} from "./names.js";
        import * as all from "./names.js";
        server.registerTool(N.POUR, {{ description: "Pours" }}, f);
        server.registerTool(all.NAMES.DRINK, {{ description: "Drinks" }}, f);
        server.registerTool(`${{PREFIX}}_leaf`, {{ description: "Leaf" }}, f);
        server.registerTool(PREFIX + "_bag", {{ description: "Bag" }}, f);
        server.registerTool(Kind.Wash, {{ description: "Washes" }}, f);
        server.addTool(smell);"#
    );
    let tools = read(&[("src/index.ts", &index), ("src/names.ts", names_file)]);
    assert_eq!(names(&tools), ["pour_tea", "drink_tea", "tea_leaf", "tea_bag", "wash_pot", "smell_tea"]);
}

#[test]
fn compiled_modules_and_enumerations_are_followed() {
    let names_file = r#""use strict"; exports.Kind = exports.SCHEMA = void 0;
        var Kind; (function (Kind) { Kind["Wash"] = "wash_pot"; })(Kind || (exports.Kind = Kind = {}));
        exports.SCHEMA = zod_1.z.object({ pot: zod_1.z.string() });"#;
    let index = r#"const mcp_js_1 = require("@modelcontextprotocol/sdk/server/mcp.js");
        const names_js_1 = __importStar(require("./names.js"));
        server.registerTool(names_js_1.Kind.Wash, { description: "Washes", inputSchema: names_js_1.SCHEMA.shape }, f);"#;
    let tools = read(&[("dist/index.js", index), ("dist/names.js", names_file)]);
    assert_eq!((names(&tools), parameters(&tools[0])), (vec!["wash_pot"], vec!["pot"]));
}

#[test]
fn loops_over_lists_register_each_element() {
    let tools = read_one(
        r#"const tools = [{ name: "a_one", description: "One", schema: { x: z.string() }, run: f }];
        tools.push({ name: "a_two", description: "Two", schema: {}, run: f });
        for (const tool of tools) server.registerTool(tool.name, { description: tool.description, inputSchema: tool.schema }, tool.run);
        const keyed = { b_one: { description: "Keyed", inputSchema: z.object({ y: z.number() }) } };
        server.setRequestHandler(ListToolsRequestSchema, () => ({
            tools: Object.entries(keyed).map(([name, tool]) => ({ name, description: tool.description, inputSchema: zodToJsonSchema(tool.inputSchema) })),
        }));"#,
    );
    assert_eq!(names(&tools), ["a_one", "a_two", "b_one"]);
    assert_eq!((parameters(&tools[0]), parameters(&tools[2])), (vec!["x"], vec!["y"]));
}

#[test]
fn helpers_register_what_they_are_called_with() {
    let helper = r#"export function register(server, name, text, shape) {
            server.registerTool(`kit_${name}`, { description: text, inputSchema: shape }, async () => {});
        }"#;
    let index = format!(
        r#"{SDK} import {{ register }} from "./helper.js";
        const add = (name, text) => register(server, name, text, {{ a: z.string() }});
        add("one", "First"); add("two", "Second");"#
    );
    let tools = read(&[("index.js", &index), ("helper.js", helper)]);
    assert_eq!(names(&tools), ["kit_one", "kit_two"]);
    assert_eq!((described(&tools[1]), parameters(&tools[1])), ("Second", vec!["a"]));
}

#[test]
fn classes_are_tools_when_they_are_instantiated() {
    let tools = read_one(
        r#"class Base { constructor(name) { this.name = name; }
            install(server) { server.registerTool(this.name, { description: this.description, inputSchema: this.schema }, f); } }
        class Sweep extends Base { description = "Sweeps"; schema = { room: z.string() }; constructor() { super("sweep"); } }
        class Burn extends Base { description = "Burns"; schema = {}; constructor() { super("burn"); } }
        new Sweep().install(server);"#,
    );
    assert_eq!((names(&tools), parameters(&tools[0])), (vec!["sweep"], vec!["room"]));
}

#[test]
fn minified_bundle_is_read() {
    let tools = read_one(
        r#"var a=Object.defineProperty,b={};var t;function e(){return[{name:"m_one",description:"One",inputSchema:{type:"object",properties:{q:{type:"string"}}},annotations:{readOnlyHint:!0,destructiveHint:!1}}]}var n=new McpServer({name:"m",version:"1"});n.setRequestHandler(t,async()=>({tools:e()})),n.tool("m_two","Two",{r:z.string()},async({r:i})=>({content:[]}));"#,
    );
    assert_eq!(names(&tools), ["m_one", "m_two"]);
    assert_eq!(json!(tools[0].annotations), json!({ "readOnlyHint": true, "destructiveHint": false }));
}

#[test]
fn dist_and_src_give_each_tool_once() {
    let text = format!(r#"{SDK} server.tool("once", "Told", {{ a: z.string() }}, f);"#);
    let more = format!("{text}\n// compiled");
    assert_eq!(names(&read(&[("dist/index.js", &more), ("src/index.ts", &text)])), ["once"]);
}

#[test]
fn manifest_tools_are_used_if_the_code_has_none() {
    let manifest = r#"{ "server": {}, "tools": [{ "name": "said", "description": "Told" }] }"#;
    let tools = read(&[("manifest.json", manifest), ("dist/index.js", SDK)]);
    assert_eq!((names(&tools), described(&tools[0])), (vec!["said"], "Told"));

    let coded = format!(r#"{SDK} server.tool("coded", f, f);"#);
    assert_eq!(names(&read(&[("manifest.json", manifest), ("dist/index.js", &coded)])), ["coded"]);
}

#[test]
fn additions_to_an_imported_list_count() {
    let index = format!(
        r#"{SDK} import {{ all }} from "./all.js"; import "./fill.js";
        server.setRequestHandler(ListToolsRequestSchema, () => ({{ tools: all.map(t => ({{ name: t.name, description: t.text, inputSchema: t.input }})) }}));"#
    );
    let fill = r#"import { all } from "./all.js"; all.push({ name: "late", text: "Told", input: z.object({ a: z.string() }) });"#;
    let tools = read(&[("index.js", &index), ("all.js", "export const all = [];"), ("fill.js", fill)]);
    assert_eq!((names(&tools), parameters(&tools[0])), (vec!["late"], vec!["a"]));
}

#[test]
fn tool_function_takes_name_and_settings() {
    let tools = read_one(
        r#"export const t = tool("made", { description: "Told", input: z.object({ a: z.string() }), handler: f });"#,
    );
    assert_eq!((names(&tools), parameters(&tools[0])), (vec!["made"], vec!["a"]));
}

#[test]
fn annotations_are_kept_only_if_they_are_known() {
    let tools = read_one(
        r#"const hints = (verb) => ({ readOnlyHint: verb === "get" || verb === "head", destructiveHint: verb === "delete" && process.env.SAFE, idempotentHint: process.env.A ? true : false, openWorldHint: process.env.B && true });
        for (const verb of ["get", "head", "delete"]) server.registerTool(verb, { annotations: hints(verb) }, f);"#,
    );
    let seen: Vec<_> = tools.iter().map(|tool| json!(tool.annotations)).collect();
    let read = json!({ "readOnlyHint": true, "destructiveHint": false });
    assert_eq!(seen, [read.clone(), read, json!({ "readOnlyHint": false })]);
}
