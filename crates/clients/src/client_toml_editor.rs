//! Reads TOML, and edits it in place.

use std::collections::HashMap;

use serde_json::{Map, Value};
use toml_edit::{Document as Parsed, DocumentMut, InlineTable, Item, Table, TableLike, Value as TomlValue};

use crate::client_config_document::ClientConfigEntryChange;

pub fn read(text: &str) -> Result<Value, String> {
    let table: toml::Table =
        toml::from_str(text).map_err(|error| parse_error_text(text, error.span(), error.message()))?;
    serde_json::to_value(table).map_err(|_| "it has an unsupported value".to_owned())
}

/// Returns the byte offset of each entry, by name, for each of the server tables whose key paths are `roots`.
pub fn entry_offsets(text: &str, roots: &[Vec<String>]) -> Vec<HashMap<String, usize>> {
    let Ok(document) = Parsed::parse(text) else { return vec![HashMap::new(); roots.len()] };
    let offsets = |root: &Vec<String>| {
        let mut table: &dyn TableLike = document.as_table();
        for name in root {
            table = table.get(name)?.as_table_like()?;
        }
        let offset = |name: &str| Some((name.to_owned(), table.get_key_value(name)?.0.span()?.start));
        Some(table.iter().filter_map(|(name, _)| offset(name)).collect())
    };
    roots.iter().map(|root| offsets(root).unwrap_or_default()).collect()
}

pub fn apply_changes(text: &str, changes: &[ClientConfigEntryChange]) -> Result<String, String> {
    // The editor writes `\n`; a text with `\r\n` throughout is converted back afterwards.
    let has_crlf = text.contains('\n') && text.matches('\n').count() == text.matches("\r\n").count();
    let plain = if has_crlf { text.replace("\r\n", "\n") } else { text.to_owned() };
    let mut document: DocumentMut =
        plain.parse().map_err(|error: toml_edit::TomlError| parse_error_text(text, error.span(), error.message()))?;
    if document.to_string() != plain {
        return Err("it cannot be parsed without loss".into());
    }
    for change in changes {
        let mut table: &mut dyn TableLike = document.as_table_mut();
        for name in &change.servers_path {
            let item = table.entry(name).or_insert_with(|| {
                let mut table = Table::new();
                table.set_implicit(true);
                Item::Table(table)
            });
            table = item.as_table_like_mut().ok_or_else(|| format!("`{name}` is not a table"))?;
        }
        match &change.entry {
            Some(entry) => set_entry(table, &change.name, entry)?,
            None => drop(table.remove(&change.name)),
        }
    }
    let text = document.to_string();
    Ok(if has_crlf { text.replace('\n', "\r\n") } else { text })
}

/// Sets an entry, keeping the old one's form (table or inline table) and comments.
fn set_entry(table: &mut dyn TableLike, name: &str, entry: &Value) -> Result<(), String> {
    let fields = entry.as_object().ok_or("an entry is a table")?;
    let known = read_fields(table.get(name));
    let fill = |table: &mut dyn TableLike| {
        let old: Vec<String> = table.iter().map(|(name, _)| name.to_owned()).collect();
        old.iter().filter(|name| !fields.contains_key(*name)).for_each(|name| drop(table.remove(name)));
        for (name, value) in fields {
            // An unchanged field keeps its comment and layout.
            if known.get(name) != Some(value) {
                table.insert(name, Item::Value(toml_value(value)));
            }
        }
    };
    match table.get_mut(name) {
        Some(Item::Table(old)) => fill(old),
        Some(Item::Value(TomlValue::InlineTable(old))) => fill(old),
        Some(_) => return Err(format!("`{name}` is not a table")),
        None => {
            let mut new = Table::new();
            fill(&mut new);
            table.insert(name, Item::Table(new));
        }
    }
    Ok(())
}

/// Returns the current fields of an entry.
fn read_fields(entry: Option<&Item>) -> Map<String, Value> {
    let mut document = DocumentMut::new();
    let Some(entry) = entry else { return Map::new() };
    document.insert("entry", entry.clone());
    match read(&document.to_string()) {
        Ok(Value::Object(mut document)) => {
            document.remove("entry").and_then(|entry| entry.as_object().cloned()).unwrap_or_default()
        }
        _ => Map::new(),
    }
}

/// Converts a JSON value from a new entry to TOML. Most values are strings, or lists or tables of strings.
fn toml_value(value: &Value) -> TomlValue {
    match value {
        Value::Null => TomlValue::from(""),
        Value::Bool(value) => TomlValue::from(*value),
        Value::Number(number) => TomlValue::from(number.as_i64().unwrap_or_default()),
        Value::String(text) => TomlValue::from(text.as_str()),
        Value::Array(items) => items.iter().map(toml_value).collect(),
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, value)| (name.as_str(), toml_value(value)));
            TomlValue::InlineTable(InlineTable::from_iter(fields))
        }
    }
}

/// Formats a parse error with its line, but without text from the file.
fn parse_error_text(text: &str, span: Option<std::ops::Range<usize>>, message: &str) -> String {
    let before = span.and_then(|span| text.get(..span.start)).unwrap_or_default();
    format!("line {}: {}", before.matches('\n').count() + 1, message.lines().next().unwrap_or_default())
}
