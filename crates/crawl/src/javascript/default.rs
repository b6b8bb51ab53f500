//! Which of the tools that were met are there by default.

use std::collections::{HashMap, HashSet};

use super::entry::Entries;
use super::evaluate::Evaluator;
use super::forms::{Met, Standing};
use super::syntax::{FileId, Node};
use crate::found::FoundTool;

/// What was met of one name.
#[derive(Default)]
struct Named {
    is_on: bool,
    is_off: bool,
    /// Whether the package's main program, or any of them, has it.
    in_main: bool,
    in_any: bool,
}

/// The tools, each with whether it is there by default. What no program of the package has is none of its tools.
pub(super) fn by_default(evaluator: &Evaluator<'_>, entries: &Entries, met: Vec<Met>) -> Vec<FoundTool> {
    let (main, any) = (reached(evaluator, &entries.main), reached(evaluator, &entries.all));
    // Where the main program has no tool, they are loaded in ways that are not followed.
    let is_known = met.iter().any(|met| main.contains(&met.file)) && !loads_what_it_makes_up(evaluator, &main);
    let mut names: HashMap<String, Named> = HashMap::new();
    for one in &met {
        let named = names.entry(one.tool.name.clone()).or_default();
        let counts = !is_known || main.contains(&one.file);
        named.is_on |= counts && one.standing == Standing::On;
        named.is_off |= counts && one.standing == Standing::Off;
        named.in_main |= counts;
        named.in_any |= counts || any.contains(&one.file);
    }
    let left_out = |name: &str| evaluator.left_out.contains(name);
    let is_optional = |name: &str, named: &Named| !named.in_main || (!named.is_on && (named.is_off || left_out(name)));
    let tools = met.into_iter().filter_map(|Met { tool, .. }| {
        let named = names.get(&tool.name).filter(|named| named.in_any)?;
        let optional = is_optional(&tool.name, named);
        Some(FoundTool { optional, ..tool })
    });
    tools.collect()
}

/// Whether a file is loaded whose name is put together.
fn loads_what_it_makes_up(evaluator: &Evaluator<'_>, files: &HashSet<FileId>) -> bool {
    let syntax = evaluator.syntax;
    let is_loading = |callee| match syntax.node(callee) {
        Node::Name(word, _) => matches!(syntax.text(*word), "import" | "require"),
        _ => false,
    };
    let loads = |call| matches!(syntax.node(call), Node::Call(callee, _) if is_loading(*callee));
    let has_framework = syntax.imports_from("mcp-framework");
    has_framework || syntax.calls.iter().any(|call| loads(*call) && files.contains(&syntax.file_of(*call)))
}

/// The files that these import, and those that they import in turn.
fn reached(evaluator: &Evaluator<'_>, from: &[FileId]) -> HashSet<FileId> {
    let imports = evaluator.imports();
    let (mut reached, mut next): (HashSet<FileId>, Vec<FileId>) = (from.iter().copied().collect(), from.to_vec());
    while let Some(file) = next.pop() {
        for other in imports.get(&file).into_iter().flatten() {
            if reached.insert(*other) {
                next.push(*other);
            }
        }
    }
    reached
}
