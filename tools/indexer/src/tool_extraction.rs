//! The result of reading the sources of a package.

use std::collections::HashMap;

use gatelodge_catalogue::ExtractedTool;

/// What a reader found.
#[derive(Debug, Default)]
pub struct ToolExtraction {
    /// The tools, one for each name: the definition that says most. None where something was passed over: those of a
    /// part would be told as all that there are.
    pub tools: Vec<ExtractedTool>,
    /// Other definitions of the same names. Nobody knows which of them a client is offered.
    pub alternatives: Vec<ExtractedTool>,
    /// Parts that were not read, because all together are more than is read.
    pub unread_parts: usize,
}

impl ToolExtraction {
    /// Definitions, put together by name.
    pub(crate) fn from_definitions<K: Ord>(definitions: Vec<ExtractedTool>, says: fn(&ExtractedTool) -> K) -> Self {
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
                found.alternatives.push(tool);
            }
        }
        // Nobody publishes a server without tools: then a condition was misread, or everybody sets something.
        if found.tools.iter().all(|tool| tool.optional) {
            found.tools.iter_mut().chain(&mut found.alternatives).for_each(|tool| tool.optional = false);
        }
        found
    }

    /// That so many parts were not read.
    pub(crate) fn incomplete(unread_parts: usize) -> Self {
        Self { unread_parts, ..Self::default() }
    }
}
