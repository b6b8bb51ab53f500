//! The JSON Schema for policy documents. Editors use it to offer completion and help, and to report errors early.
//!
//! Names come from the parser's constants; only the help texts are separate. The schema cannot express every rule:
//! [`parse`](crate::parse) is authoritative.

mod schema_field_help;

use serde_json::{Value, json};

use crate::call::Category;
use crate::compile::compiled_policy::{BlockAction, ClientRequestKind, DefaultAction};
use crate::compile::limit::{LimitScope, LimitWindow, WindowAlignment};
use crate::compile::method_names::{ALWAYS_ALLOWED, METHODS_DECIDED_BY_TARGET, TASK_METHOD_PREFIX};
use crate::compile::policy_parser::{
    BLOCK_FIELDS, CONDITION_FIELDS, LIMIT_FIELDS, POLICY_FIELDS, PREDICATE_FIELDS, RATE_LIMIT_FIELDS, TIME_ZONE_FIELD,
};
use crate::operators::Operator;
use crate::operators::value_schema::{
    SCALAR_DEFINITION, SCALARS_DEFINITION, ref_schema, scalar_definition, scalars_definition,
};

/// The JSON Schema draft in which the schema is written.
const SCHEMA_DRAFT_URI: &str = "https://json-schema.org/draft/2020-12/schema";

/// Fields of a rule block that only apply to tools.
const TOOL_ONLY_FIELDS: [&str; 2] = ["rate_limit", "validate_arguments"];

/// Returns the JSON Schema for policy documents, in draft 2020-12.
///
/// ```
/// let schema = gatelodge_policy::policy_json_schema();
/// assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
/// ```
pub fn policy_json_schema() -> Value {
    let fields = POLICY_FIELDS.iter().copied().chain([TIME_ZONE_FIELD]);
    let mut schema = json!({
        "$schema": SCHEMA_DRAFT_URI,
        "title": "Gatelodge policy",
        "description": schema_field_help::POLICY_DESCRIPTION,
    });
    let listed_fields = BLOCK_FIELDS.iter().copied().filter(|field| !TOOL_ONLY_FIELDS.contains(field));
    let bare_fields = CONDITION_FIELDS.iter().copied().chain(["on_deny"]);
    let definitions = json!({
        "block": object_schema(BLOCK_FIELDS, &[], schema_field_help::block_field_help, block_field_schema),
        "listed_block": object_schema(listed_fields, &[], schema_field_help::block_field_help, block_field_schema),
        "predicate_or_condition": {
            "if": { "required": ["conditions"] },
            "then": ref_schema("predicate"),
            "else": ref_schema("bare_condition"),
        },
        "predicate": object_schema(PREDICATE_FIELDS, &["conditions"], schema_field_help::predicate_field_help, predicate_field_schema),
        "condition": with_operator_values(object_schema(CONDITION_FIELDS, &CONDITION_FIELDS, schema_field_help::predicate_field_help, predicate_field_schema)),
        "bare_condition": with_operator_values(object_schema(bare_fields, &CONDITION_FIELDS, schema_field_help::predicate_field_help, predicate_field_schema)),
        "limit": limit_schema(),
        "rate": object_schema(RATE_LIMIT_FIELDS, &["max", "window"], schema_field_help::limit_field_help, rate_field_schema),
        "window": window_schema(),
        SCALAR_DEFINITION: scalar_definition(),
        SCALARS_DEFINITION: scalars_definition(),
    });
    merge(
        &mut schema,
        object_schema(fields, &["version", "default"], schema_field_help::policy_field_help, policy_field_schema),
    );
    merge(&mut schema, json!({ "$defs": definitions }));
    schema
}

/// Returns a schema for an object with exactly these fields.
fn object_schema<'a>(
    fields: impl IntoIterator<Item = &'a str>,
    required: &[&str],
    help: fn(&str) -> Option<schema_field_help::SchemaFieldHelp>,
    schema: fn(&str) -> Value,
) -> Value {
    let property = |field: &'a str| {
        let mut property = json!({});
        if let Some(help) = help(field) {
            merge(&mut property, json!({ "title": help.title, "description": help.text }));
        }
        merge(&mut property, schema(field));
        (field.to_owned(), property)
    };
    let properties: serde_json::Map<String, Value> = fields.into_iter().map(property).collect();
    let mut object = json!({ "type": "object", "properties": properties, "additionalProperties": false });
    if !required.is_empty() {
        merge(&mut object, json!({ "required": required }));
    }
    object
}

fn policy_field_schema(field: &str) -> Value {
    match field {
        "version" => json!({ "const": "1" }),
        "description" | "$schema" => json!({ "type": "string" }),
        "default" => enum_schema(DefaultAction::WORDS, schema_field_help::default_help),
        "hide" => json!({ "type": "array", "items": { "type": "string" } }),
        "all_tools" => ref_schema("block"),
        "categories" => categories_schema(),
        "tools" => map_schema(ref_schema("block")),
        "resources" | "prompts" => map_schema(ref_schema("listed_block")),
        "methods" => methods_schema(),
        "client_requests" => {
            let rule = enum_schema(DefaultAction::WORDS, schema_field_help::default_help);
            let properties = ClientRequestKind::WORDS.iter().map(|word| ((*word).to_owned(), rule.clone()));
            let properties: serde_json::Map<String, Value> = properties.collect();
            json!({ "type": "object", "properties": properties, "additionalProperties": false })
        }
        TIME_ZONE_FIELD => json!({ "type": "string", "examples": ["Europe/Berlin"] }),
        _ => json!({}),
    }
}

fn categories_schema() -> Value {
    let actions: Vec<&str> = BlockAction::WORDS.iter().copied().chain(["hide"]).collect();
    let rule = json!({
        "if": { "type": "string" },
        "then": enum_schema(&actions, schema_field_help::action_help),
        "else": ref_schema("block"),
    });
    let property = |word: &&str| {
        let mut property = json!({ "description": schema_field_help::category_help(word) });
        merge(&mut property, rule.clone());
        ((*word).to_owned(), property)
    };
    let properties: serde_json::Map<String, Value> = Category::WORDS.iter().map(property).collect();
    json!({ "type": "object", "properties": properties, "additionalProperties": false })
}

fn methods_schema() -> Value {
    let fixed_methods: Vec<&str> = ALWAYS_ALLOWED.iter().chain(&METHODS_DECIDED_BY_TARGET).copied().collect();
    json!({
        "type": "object",
        "additionalProperties": enum_schema(DefaultAction::WORDS, schema_field_help::default_help),
        "propertyNames": { "allOf": [
            { "not": { "enum": fixed_methods } },
            { "not": { "pattern": format!("^{TASK_METHOD_PREFIX}") } },
            { "pattern": r"^[^*]+(/\*)?$" },
        ] },
    })
}

fn block_field_schema(field: &str) -> Value {
    match field {
        "action" => enum_schema(BlockAction::WORDS, schema_field_help::action_help),
        "reason" => json!({ "type": "string" }),
        "require" | "deny_if" | "approve_if" => {
            json!({ "type": "array", "items": ref_schema("predicate_or_condition") })
        }
        "limits" => json!({ "type": "array", "items": ref_schema("limit") }),
        "rate_limit" => {
            let unit = LimitWindow::WORDS.join("|");
            let short = format!("^[1-9][0-9]*/({unit}|[1-9][0-9]*[smhd]?)$");
            json!({
                "if": { "type": "string" },
                "then": { "pattern": short, "examples": ["10/minute"] },
                "else": ref_schema("rate"),
            })
        }
        "validate_arguments" => json!({ "type": "boolean" }),
        _ => json!({}),
    }
}

fn predicate_field_schema(field: &str) -> Value {
    match field {
        "conditions" => json!({ "type": "array", "items": ref_schema("condition") }),
        "on_deny" => json!({ "type": "string" }),
        "path" => {
            let pattern = r"^(args([.\[]|$)|(tool|server|grant|client|time)[.\[])";
            json!({ "type": "string", "pattern": pattern, "examples": ["args.amount", "args.to[*].email"] })
        }
        "op" => enum_schema(Operator::WORDS, operator_help),
        // Depends on the operator; see `with_operator_values`.
        _ => json!({}),
    }
}

/// Extends the schema for conditions with the type of `value` that each operator needs.
fn with_operator_values(mut condition: Value) -> Value {
    let rule = |word: &&str| {
        let value = Operator::from_word(word).map_or_else(|| json!({}), Operator::value_schema);
        json!({
            "if": { "properties": { "op": { "const": word } }, "required": ["op"] },
            "then": { "properties": { "value": value } },
        })
    };
    let rules: Vec<Value> = Operator::WORDS.iter().map(rule).collect();
    merge(&mut condition, json!({ "allOf": rules }));
    condition
}

fn operator_help(word: &str) -> &'static str {
    Operator::from_word(word).map_or("", Operator::help)
}

fn limit_schema() -> Value {
    let mut limit = object_schema(
        LIMIT_FIELDS,
        &["counter", "window", "max"],
        schema_field_help::limit_field_help,
        limit_field_schema,
    );
    let has_amount = json!({ "anyOf": [{ "required": ["amount"] }, { "required": ["increment_from"] }] });
    let rolls =
        json!({ "properties": { "align": { "const": WindowAlignment::Rolling.as_str() } }, "required": ["align"] });
    let rules = json!({ "allOf": [
        { "not": { "required": ["amount", "increment_from"] } },
        { "if": { "not": has_amount }, "then": { "properties": { "max": { "type": "integer" } } } },
        { "if": rolls, "then": { "properties": { "window": { "not": { "const": "month" } } } } },
    ] });
    merge(&mut limit, rules);
    limit
}

fn limit_field_schema(field: &str) -> Value {
    match field {
        "counter" => json!({ "type": "string", "minLength": 1 }),
        "window" => ref_schema("window"),
        "max" => json!({ "type": "number", "exclusiveMinimum": 0 }),
        "scope" => enum_schema(LimitScope::WORDS, schema_field_help::scope_help),
        "amount" | "increment_from" => {
            json!({ "type": "string", "pattern": r"^args[.\[]", "examples": ["args.amount"] })
        }
        "align" => enum_schema(WindowAlignment::WORDS, schema_field_help::align_help),
        "on_deny" => json!({ "type": "string" }),
        _ => json!({}),
    }
}

fn rate_field_schema(field: &str) -> Value {
    match field {
        "max" => json!({ "type": "integer", "exclusiveMinimum": 0 }),
        other => limit_field_schema(other),
    }
}

fn window_schema() -> Value {
    json!({
        "if": { "type": "string" },
        "then": { "anyOf": [{ "enum": LimitWindow::WORDS }, { "pattern": "^[1-9][0-9]*[smhd]$" }] },
        "else": { "type": "integer", "minimum": 1, "maximum": LimitWindow::MAX_SECONDS },
    })
}

/// Returns a schema for a fixed set of words, with a help text for each.
fn enum_schema(words: &[&str], help: fn(&str) -> &'static str) -> Value {
    let texts: Vec<&str> = words.iter().map(|word| help(word)).collect();
    // Not part of the standard, but editors show it for each word.
    json!({ "enum": words, "enumDescriptions": texts })
}

fn map_schema(value: Value) -> Value {
    json!({ "type": "object", "additionalProperties": value })
}

fn merge(into: &mut Value, from: Value) {
    if let (Value::Object(into), Value::Object(from)) = (into, from) {
        into.extend(from);
    }
}

#[cfg(test)]
mod tests;
