//! Tools in Javascript and Typescript sources.
//!
//! Nothing of a package runs. Its files become small trees (`lower`), in which the known forms of
//! defining a tool are looked for (`forms`); names, descriptions and schemas that are written
//! elsewhere are followed on paper (`evaluate`).

mod default;
mod entry;
mod evaluate;
mod forms;
mod lower;
mod manifest;
mod parse;
mod schema;
mod select;
mod syntax;
mod tool;
mod unused;
mod value;
mod zod;

use std::panic::resume_unwind;
use std::thread;

use crate::found::{FoundTool, SourceFile};

/// Room for expressions as deep as we read them, whatever thread asks.
const STACK: usize = 256 << 20;

/// Nodes of a package: a file that would bring more is passed over, unless it is the first. Each takes some 160 bytes, and
/// those about tools come first.
const MOST_NODES: usize = 1_500_000;
/// Letters of dense code that make a node.
const LETTERS_OF_A_NODE: usize = 3;

/// The tools that these files of one package define, by name.
pub fn javascript_tools(files: &[SourceFile<'_>]) -> Vec<FoundTool> {
    with_stack(STACK, || read(files))
}

/// Reads in a thread of its own. What breaks it off, or does not let it begin, breaks off who asked: it is not the same
/// as finding nothing.
fn with_stack<T: Send>(stack: usize, read: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let reader = thread::Builder::new().stack_size(stack).spawn_scoped(scope, read);
        let reader = reader.unwrap_or_else(|error| resume_unwind(Box::new(format!("no thread to read in: {error}"))));
        reader.join().unwrap_or_else(|broken| resume_unwind(broken))
    })
}

fn read(files: &[SourceFile<'_>]) -> Vec<FoundTool> {
    if !select::is_server(files) {
        return manifest::tools(files);
    }
    let named = entry::Named::of(files);
    let tools = defined(&select::sources(files, &named), &named);
    if tools.is_empty() { manifest::tools(files) } else { tools }
}

fn defined(files: &[SourceFile<'_>], named: &entry::Named) -> Vec<FoundTool> {
    let mut syntax = syntax::Syntax::default();
    for file in files {
        let nodes = syntax.len() as usize;
        if nodes > 0 && nodes + file.text.len() / LETTERS_OF_A_NODE > MOST_NODES {
            continue;
        }
        if let Some(tree) = parse::parse(file.path, file.text) {
            lower::lower(&mut syntax, file.path, file.text, tree.root_node());
        }
    }
    let mut evaluator = evaluate::Evaluator::new(&syntax);
    let entries = named.entries(&evaluator);
    // What a program calls that cannot be read, nobody knows.
    if entries.has_all_programs {
        evaluator.unused = unused::words(&evaluator, files, &entries);
    }
    let met = forms::tools(&mut evaluator);
    tool::one_by_name(default::by_default(&evaluator, &entries, files, met))
}

#[cfg(test)]
mod tests;
