use serde_json::json;

use super::*;

fn schema_of(shape: &str, before: &str) -> Value {
    let tools = read_one(&format!(r#"{before} server.registerTool("t", {{ inputSchema: {shape} }}, f);"#));
    only(&tools).input_schema.clone()
}

#[test]
fn zod_becomes_a_json_schema() {
    let schema = schema_of(
        r#"{ text: z.string().min(1).describe("Words"), count: z.number().int().max(9).default(3), on: z.boolean(),
            kind: z.enum(["a", "b"]).optional(), list: z.array(z.string()), deep: z.object({ x: z.any() }), one: z.literal("l") }"#,
        "",
    );
    assert_eq!(
        schema,
        json!({
            "type": "object",
            "properties": {
                "text": { "type": "string", "minLength": 1, "description": "Words" },
                "count": { "type": "integer", "maximum": 9 },
                "on": { "type": "boolean" },
                "kind": { "type": "string", "enum": ["a", "b"] },
                "list": { "type": "array", "items": { "type": "string" } },
                "deep": { "type": "object", "properties": { "x": {} }, "required": ["x"] },
                "one": { "const": "l" },
            },
            "required": ["text", "on", "list", "deep", "one"],
        })
    );
}

#[test]
fn schemas_are_extended_picked_and_converted() {
    let before = "const Base = z.object({ a: z.string(), b: z.string() });";
    let keys = |shape| {
        let schema = schema_of(shape, before);
        schema["properties"].as_object().unwrap().keys().cloned().collect::<Vec<_>>()
    };
    assert_eq!(keys("Base.extend({ c: z.number() })"), ["a", "b", "c"]);
    assert_eq!(keys("Base.pick({ a: true }).shape"), ["a"]);
    assert_eq!(keys("zodToJsonSchema(Base.omit({ a: true }))"), ["b"]);
    assert_eq!(keys("{ ...Base.shape, d: z.string() }"), ["a", "b", "d"]);
    assert_eq!(keys("z.toJSONSchema(Base)"), ["a", "b"]);
}

#[test]
fn json_schema_is_kept_as_it_is_written() {
    let written = json!({ "type": "object", "properties": { "a": { "type": ["string", "null"], "enum": ["x"] } }, "required": ["a"] });
    assert_eq!(schema_of(&written.to_string(), ""), written);
}

#[test]
fn bundled_zod_is_not_inlined() {
    let before = "function string2(p) { return { kind: 1 }; } function object(s) { return { inner: s }; }
        const S = object({ a: string2() });";
    assert_eq!(schema_of("S", before)["properties"], json!({ "a": { "type": "string" } }));
}

#[test]
fn unknown_parts_of_a_schema_are_left_out() {
    let schema = schema_of("{ a: z.string(), b: somewhere.else() }", "");
    assert_eq!(schema["properties"], json!({ "a": { "type": "string" }, "b": {} }));
    assert_eq!(schema_of("somewhere", ""), json!({ "type": "object" }));
}

#[test]
fn templates_keep_the_words_that_are_known() {
    let tools = read_one(r#"server.tool("t", `Reads ${process.env.WHAT} now`, f);"#);
    assert_eq!(described(only(&tools)), "Reads  now");
}
