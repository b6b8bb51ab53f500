//! What goes into a reader, and what comes out.

use std::collections::HashMap;

use serde::Serialize;
use serde_json::{Map, Value};

/// A file of a package.
#[derive(Debug, Clone, Copy)]
pub struct SourceFile<'a> {
    /// Its path within the package.
    pub path: &'a str,
    /// Its text.
    pub text: &'a str,
}

/// What a reader found.
#[derive(Debug, Default)]
pub struct Found {
    /// The tools, one for each name: the definition that says most. None where something was passed over: those of a
    /// part would be told as all that there are.
    pub tools: Vec<FoundTool>,
    /// Other definitions of the same names. Nobody knows which of them a client is offered.
    pub others: Vec<FoundTool>,
    /// Parts that were not read, because all together are more than is read.
    pub passed_over: usize,
}

impl Found {
    /// Definitions, put together by name.
    pub(crate) fn of<K: Ord>(definitions: Vec<FoundTool>, says: fn(&FoundTool) -> K) -> Self {
        let mut found = Self::default();
        let mut places: HashMap<String, usize> = HashMap::new();
        for mut tool in definitions {
            let Some(known) = places.get(&tool.name).and_then(|place| found.tools.get_mut(*place)) else {
                places.insert(tool.name.clone(), found.tools.len());
                found.tools.push(tool);
                continue;
            };
            // It is optional only if each definition of it is.
            known.optional &= tool.optional;
            tool.optional = known.optional;
            if says(&tool) > says(known) {
                std::mem::swap(known, &mut tool);
            }
            if tool != *known {
                found.others.push(tool);
            }
        }
        // Nobody publishes a server without tools: then a condition was misread, or everybody sets something.
        if found.tools.iter().all(|tool| tool.optional) {
            found.tools.iter_mut().chain(&mut found.others).for_each(|tool| tool.optional = false);
        }
        found
    }

    /// That so many parts were not read.
    pub(crate) fn in_part(passed_over: usize) -> Self {
        Self { passed_over, ..Self::default() }
    }
}

/// A tool as its package defines it, in the form of `tools/list`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FoundTool {
    /// Its name.
    pub name: String,
    /// What it does, in its author's words. It is classified and not kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What it takes, as far as it can be read.
    pub input_schema: Value,
    /// What its author claims.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub annotations: Map<String, Value>,
    /// Whether it is offered only under a setting that is off by default.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub optional: bool,
}

impl FoundTool {
    /// How much it says, to choose among several of one name.
    pub(crate) fn says(&self) -> (bool, bool, usize) {
        (!self.annotations.is_empty(), self.description.is_some(), self.properties().map_or(0, Map::len))
    }

    /// Whether another of its name says nothing that it does not say.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        let has = |name: &String| self.properties().is_some_and(|own| own.contains_key(name));
        (other.description.is_none() || other.description == self.description)
            && (other.annotations.is_empty() || other.annotations == self.annotations)
            && other.properties().is_none_or(|properties| properties.keys().all(has))
    }

    pub(crate) fn properties(&self) -> Option<&Map<String, Value>> {
        self.input_schema.get("properties").and_then(Value::as_object)
    }
}
