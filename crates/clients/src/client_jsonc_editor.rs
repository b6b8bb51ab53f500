//! Reads JSON with comments and trailing commas, and edits it in place.

use std::collections::HashMap;

use jsonc_parser::ast::Value as Node;
use jsonc_parser::common::Ranged;
use jsonc_parser::cst::{CstInputValue, CstObject, CstRootNode};
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};
use serde_json::Value;

use crate::client_config_document::ClientConfigEntryChange;

/// JSON extensions that clients accept: comments and trailing commas.
const JSONC_PARSE_OPTIONS: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_trailing_commas: true,
    allow_loose_object_property_names: false,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

pub fn read(text: &str) -> Result<Value, String> {
    let root = parse(text)?;
    root.to_serde_value().ok_or_else(|| "it has no value".to_owned())
}

/// Returns the byte offset of each entry, by name, for each of the server tables whose key paths are `roots`.
pub fn entry_offsets(text: &str, roots: &[Vec<String>]) -> Vec<HashMap<String, usize>> {
    let mut finder = JsoncEntryFinder {
        roots: roots.iter().enumerate().map(|(at, root)| (root.as_slice(), at)).collect(),
        max_depth: roots.iter().map(Vec::len).max().unwrap_or_default(),
        offsets: vec![HashMap::new(); roots.len()],
    };
    let document =
        parse_to_ast(text, &CollectOptions::default(), &JSONC_PARSE_OPTIONS).ok().and_then(|parsed| parsed.value);
    if let Some(document) = document {
        finder.visit(&document, &mut Vec::new());
    }
    finder.offsets
}

/// Finds the entries below all roots in one pass. A separate lookup for each entry would search a long table from its
/// start each time.
struct JsoncEntryFinder<'r> {
    roots: HashMap<&'r [String], usize>,
    max_depth: usize,
    offsets: Vec<HashMap<String, usize>>,
}

impl JsoncEntryFinder<'_> {
    fn visit(&mut self, node: &Node<'_>, path: &mut Vec<String>) {
        if let Some(own) = self.roots.get(path.as_slice()).and_then(|at| self.offsets.get_mut(*at)) {
            for (name, offset) in named_children(node) {
                own.entry(name).or_insert(offset);
            }
        }
        let table = node.as_object().filter(|_| path.len() < self.max_depth);
        for property in table.into_iter().flat_map(|table| &table.properties) {
            path.push(property.name.as_str().to_owned());
            self.visit(&property.value, path);
            path.pop();
        }
    }
}

/// Returns the entries of a table by name, or the items of a list by their `name` member.
fn named_children(node: &Node<'_>) -> Vec<(String, usize)> {
    match node {
        Node::Object(table) => table.properties.iter().map(|own| (own.name.as_str().to_owned(), own.start())).collect(),
        Node::Array(list) => {
            let named = |item: &Node<'_>| {
                let name = item.as_object()?.get("name")?.value.as_string_lit()?;
                Some((name.value.to_string(), item.start()))
            };
            list.elements.iter().filter_map(named).collect()
        }
        _ => Vec::new(),
    }
}

pub fn apply_changes(text: &str, changes: &[ClientConfigEntryChange]) -> Result<String, String> {
    let root = parse(text)?;
    if root.to_string() != text {
        return Err("it cannot be parsed without loss".into());
    }
    let top = root.object_value_or_create().ok_or("it is not an object")?;
    for change in changes {
        let mut table = top.clone();
        for name in &change.servers_path {
            check_unique_key(&table, name)?;
            table = table.object_value_or_create(name).ok_or_else(|| format!("`{name}` is not a table"))?;
        }
        check_unique_key(&table, &change.name)?;
        match (table.get(&change.name), &change.entry) {
            (Some(old), Some(new)) => old.set_value(cst_value(new)),
            (None, Some(new)) => drop(table.append(&change.name, cst_value(new))),
            (Some(old), None) => old.remove(),
            (None, None) => {}
        }
        if let Some(input) = &change.vscode_input {
            add_vscode_input(&top, input)?;
        }
    }
    Ok(root.to_string())
}

fn parse(text: &str) -> Result<CstRootNode, String> {
    CstRootNode::parse(text, &JSONC_PARSE_OPTIONS).map_err(|error| {
        let message = error.kind().to_string();
        format!("line {}, column {}: {}", error.line_display(), error.column_display(), message.to_lowercase())
    })
}

/// Returns an error if a key is repeated: some clients use the first value, others the last.
fn check_unique_key(table: &CstObject, name: &str) -> Result<(), String> {
    let is_same = |found: Option<String>| found.as_deref() == Some(name);
    let count = table.properties().iter().filter(|property| is_same(property.decoded_name())).count();
    if count > 1 { Err(format!("`{name}` occurs twice")) } else { Ok(()) }
}

/// Adds a VS Code input unless one with the same id exists.
fn add_vscode_input(top: &CstObject, input: &Value) -> Result<(), String> {
    check_unique_key(top, "inputs")?;
    let inputs = top.array_value_or_create("inputs").ok_or("`inputs` is not a list")?;
    let has_same_id = |known: &Value| known.get("id") == input.get("id");
    if !inputs.elements().iter().filter_map(|known| known.to_serde_value()).any(|known| has_same_id(&known)) {
        inputs.ensure_multiline();
        inputs.append(cst_value(input));
    }
    Ok(())
}

fn cst_value(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(value) => CstInputValue::Bool(*value),
        Value::Number(number) => CstInputValue::Number(number.to_string()),
        Value::String(text) => CstInputValue::String(text.clone()),
        Value::Array(items) => CstInputValue::Array(items.iter().map(cst_value).collect()),
        Value::Object(fields) => {
            CstInputValue::Object(fields.iter().map(|(name, value)| (name.clone(), cst_value(value))).collect())
        }
    }
}
