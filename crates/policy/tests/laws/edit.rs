//! Changes to documents: entries and blocks by pointer, the order of keys, JSON or YAML.

use serde_json::{Map, Value, json};

/// Maps whose entries can allow a call.
const SECTIONS: [&str; 6] = ["tools", "categories", "resources", "prompts", "methods", "client_requests"];

/// Returns a JSON Pointer to a member of a section. The names contain no tilde, so only slashes are escaped.
pub fn pointer(section: &str, key: &str) -> String {
    format!("/{section}/{}", key.replace('/', "~1"))
}

/// Returns section and key of all entries.
pub fn entries(policy: &Value) -> Vec<(&'static str, String)> {
    let keys = |section: &'static str| {
        let members = policy.get(section).and_then(Value::as_object);
        members.into_iter().flat_map(Map::keys).map(move |key| (section, key.clone()))
    };
    SECTIONS.into_iter().flat_map(keys).collect()
}

pub fn without(policy: &Value, section: &str, key: &str) -> Value {
    let mut policy = policy.clone();
    if let Some(members) = policy.get_mut(section).and_then(Value::as_object_mut) {
        members.shift_remove(key);
    }
    policy
}

pub fn with(policy: &Value, section: &str, key: &str, value: Value) -> Value {
    let mut policy = policy.clone();
    policy.as_object_mut().expect("an object").entry(section).or_insert_with(|| json!({}))[key] = value;
    policy
}

/// Returns the pointers of all rule blocks, and `/all_tools` even if it is absent.
pub fn blocks(policy: &Value) -> Vec<String> {
    let is_block = |(section, _): &(&str, String)| !matches!(*section, "methods" | "client_requests");
    let written = entries(policy).into_iter().filter(is_block).map(|(section, key)| pointer(section, &key));
    written.chain(["/all_tools".to_owned()]).collect()
}

/// Changes the block at a pointer. A category action is first expanded to its block.
pub fn change_block(policy: &Value, pointer: &str, change: impl FnOnce(&mut Value)) -> Value {
    let mut policy = policy.clone();
    if pointer == "/all_tools" && policy.get("all_tools").is_none() {
        policy["all_tools"] = json!({});
    }
    let block = policy.pointer_mut(pointer).expect("a block");
    // A hidden category stays hidden: it has no block to change.
    if *block != "hide" {
        if let Some(word) = block.as_str() {
            *block = json!({ "action": word });
        }
        change(block);
    }
    policy
}

/// Inserts an element into a list of the object at `place`. Creates the list if it is absent.
pub fn insert(object: &mut Value, list: &str, place: usize, element: Value) {
    let list = object.as_object_mut().expect("an object").entry(list).or_insert_with(|| json!([]));
    let list = list.as_array_mut().expect("a list");
    list.insert(place % (list.len() + 1), element);
}

/// Shuffles the keys of every object; lists keep their order.
pub fn shuffled(value: &Value, seed: &mut u64) -> Value {
    match value {
        Value::Object(members) => {
            let mut members: Vec<(String, Value)> =
                members.iter().map(|(key, value)| (key.clone(), shuffled(value, seed))).collect();
            for last in (1..members.len()).rev() {
                // Knuth's constants; any distribution is sufficient.
                *seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                members.swap(last, (*seed >> 33) as usize % (last + 1));
            }
            members.into_iter().collect()
        }
        Value::Array(elements) => elements.iter().map(|element| shuffled(element, seed)).collect(),
        scalar => scalar.clone(),
    }
}

/// Writes a document in YAML block style, with plain scalars where YAML reads them as strings.
pub fn to_yaml(value: &Value) -> String {
    let mut out = String::new();
    write_yaml(value, 0, &mut out);
    out.push('\n');
    out
}

fn write_yaml(value: &Value, indent: usize, out: &mut String) {
    let line = |out: &mut String| {
        out.push('\n');
        out.push_str(&" ".repeat(indent));
    };
    match value {
        Value::Object(members) if !members.is_empty() => {
            for (key, value) in members {
                line(out);
                out.push_str(&format!("{}: ", yaml_text(key)));
                write_yaml(value, indent + 2, out);
            }
        }
        Value::Array(elements) if !elements.is_empty() => {
            for element in elements {
                line(out);
                out.push_str("- ");
                write_yaml(element, indent + 2, out);
            }
        }
        Value::String(text) => out.push_str(&yaml_text(text)),
        scalar => out.push_str(&scalar.to_string()),
    }
}

fn yaml_text(text: &str) -> String {
    let is_word = text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '.')
        && !matches!(text, "true" | "false" | "null");
    if is_word { text.to_owned() } else { Value::from(text).to_string() }
}
