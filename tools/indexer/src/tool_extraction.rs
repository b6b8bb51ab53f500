//! The result of extracting tools from a package's sources.

use std::collections::HashMap;

use gatelodge_catalogue::ExtractedTool;

/// A package's tools, or the number of parts that were not read.
#[derive(Debug, Default)]
pub struct ToolExtraction {
    /// The tools, with the most detailed definition for each name. Empty if any parts were not read, because an
    /// incomplete list must not be mistaken for a complete one.
    pub tools: Vec<ExtractedTool>,
    /// Further definitions of these tools that differ from those in `tools`. It is unknown which definition a client
    /// sees.
    pub alternatives: Vec<ExtractedTool>,
    /// Number of parts that were not read because of a limit.
    pub unread_parts: usize,
}

impl ToolExtraction {
    /// Groups the definitions by name.
    pub(crate) fn from_definitions<K: Ord>(definitions: Vec<ExtractedTool>, says: fn(&ExtractedTool) -> K) -> Self {
        let mut found = Self::default();
        let mut places: HashMap<String, usize> = HashMap::new();
        for mut tool in definitions {
            let Some(known) = places.get(&tool.name).and_then(|place| found.tools.get_mut(*place)) else {
                places.insert(tool.name.clone(), found.tools.len());
                found.tools.push(tool);
                continue;
            };
            // A tool is optional only if each of its definitions is.
            known.optional &= tool.optional;
            tool.optional = known.optional;
            if says(&tool) > says(known) {
                std::mem::swap(known, &mut tool);
            }
            if tool != *known {
                found.alternatives.push(tool);
            }
        }
        // No server is published without any default tools: a condition was misread, or a setting is always needed.
        if found.tools.iter().all(|tool| tool.optional) {
            found.tools.iter_mut().chain(&mut found.alternatives).for_each(|tool| tool.optional = false);
        }
        found
    }

    /// Returns the result for a package with unread parts.
    pub(crate) fn incomplete(unread_parts: usize) -> Self {
        Self { unread_parts, ..Self::default() }
    }
}
