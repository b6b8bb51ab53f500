//! Extracts tools from JavaScript and TypeScript sources without running them.
//!
//! `ast_lowering` turns files into a small syntax tree, `registration_forms` finds the known ways of defining a tool in
//! it, and `expression_evaluation` resolves names, descriptions and schemas that are defined elsewhere.

mod ast_lowering;
mod default_tools;
mod entry_points;
mod expression_evaluation;
mod file_selection;
mod import_aliases;
mod mcp_bundle_manifest;
mod registration_forms;
mod schema;
mod source_parser;
mod static_value;
mod syntax;
mod tool_builder;
mod unused_functions;
mod zod_schema;

use std::panic::resume_unwind;
use std::thread;

use gatelodge_catalogue::SourceFile;

use crate::tool_extraction::ToolExtraction;

/// Stack size that is enough for the most deeply nested expressions, whatever stack the caller's thread has.
const READER_STACK_BYTES: usize = 256 << 20;

/// Maximum number of syntax nodes in a package. Each takes about 160 bytes.
const MAX_NODES: usize = 1_500_000;
/// Assumed minimum number of source bytes per syntax node, as in minified code.
const MIN_BYTES_PER_NODE: usize = 3;

/// Extracts the tools that the files of one package define, sorted by name.
pub fn extract_javascript_tools(files: &[SourceFile<'_>]) -> ToolExtraction {
    run_with_stack(READER_STACK_BYTES, || read_package(files))
}

/// Runs `read` on a thread with a large stack. If `read` panics or the thread cannot be started, the caller panics,
/// too, because a failure must not look like an empty result.
fn run_with_stack<T: Send>(stack: usize, read: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let reader = thread::Builder::new().stack_size(stack).spawn_scoped(scope, read);
        let reader = reader.unwrap_or_else(|error| {
            resume_unwind(Box::new(format!("cannot start a thread to read a package: {error}")))
        });
        reader.join().unwrap_or_else(|broken| resume_unwind(broken))
    })
}

fn read_package(files: &[SourceFile<'_>]) -> ToolExtraction {
    let named = entry_points::PackageJsonPaths::of(files);
    let chosen = file_selection::select_files(files, &named);
    if !file_selection::has_mcp_server(files, &chosen.files) {
        return mcp_bundle_manifest::manifest_tools(files);
    }
    let mut syntax = syntax::JsSyntax::default();
    let passed_over =
        if chosen.excluded_count > 0 { chosen.excluded_count } else { parse_files(&mut syntax, &chosen.files) };
    if passed_over > 0 {
        return ToolExtraction::incomplete(passed_over);
    }
    let found = extract_defined_tools(&syntax, &chosen.files, &named);
    if found.tools.is_empty() && found.unread_parts == 0 { mcp_bundle_manifest::manifest_tools(files) } else { found }
}

/// Parses files until `MAX_NODES` is reached. Returns the number of files that were not read completely.
fn parse_files(syntax: &mut syntax::JsSyntax, files: &[SourceFile<'_>]) -> usize {
    for (at, file) in files.iter().enumerate() {
        let nodes = syntax.node_count() as usize;
        if nodes > 0 && nodes + file.text.len() / MIN_BYTES_PER_NODE > MAX_NODES {
            return files.len() - at;
        }
        let Some(tree) = source_parser::parse(file.path, file.text) else { return files.len() - at };
        ast_lowering::lower_file(syntax, file.path, file.text, tree.root_node());
        if syntax.node_count() as usize >= MAX_NODES {
            return files.len() - at;
        }
    }
    0
}

fn extract_defined_tools(
    syntax: &syntax::JsSyntax,
    files: &[SourceFile<'_>],
    named: &entry_points::PackageJsonPaths,
) -> ToolExtraction {
    let mut evaluator = expression_evaluation::JsEvaluator::new(syntax, named);
    let entries = named.resolve(&evaluator);
    // The program may call anything if one of its entry points cannot be read.
    if entries.has_all_programs {
        evaluator.unused_names = unused_functions::unused_function_names(&evaluator, files, &entries);
    }
    let met = registration_forms::collect_definitions(&mut evaluator);
    if evaluator.is_truncated() {
        return ToolExtraction::incomplete(1);
    }
    ToolExtraction::from_definitions(
        default_tools::mark_optional_tools(&evaluator, &entries, files, met),
        tool_builder::detail_rank,
    )
}

#[cfg(test)]
mod tests;
