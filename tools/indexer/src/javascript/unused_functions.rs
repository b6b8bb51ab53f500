//! Finds functions that are never called: their names occur only where they are declared and exported.

use std::collections::{HashMap, HashSet};

use super::entry_points::JsEntryPoints;
use super::expression_evaluation::JsEvaluator;
use super::syntax::{JsBindingSource, JsIdentifierId, JsNode};
use gatelodge_catalogue::SourceFile;

/// Minimum length of a name that is considered. Shorter names, such as those in bundles, occur too often to be
/// meaningful.
const MIN_NAME_BYTES: usize = 5;

/// Returns the names of functions that occur only once in the sources, not counting lines that export them. Names that
/// entry points export are not included, because other packages may call these functions.
pub(super) fn unused_function_names(
    evaluator: &JsEvaluator<'_>,
    files: &[SourceFile<'_>],
    entries: &JsEntryPoints,
) -> HashSet<JsIdentifierId> {
    let syntax = evaluator.syntax;
    let taken_whole = evaluator.wholly_imported_files();
    let begins = entries.all.iter().filter_map(|file| syntax.file(*file));
    let offered: HashSet<JsIdentifierId> = begins.flat_map(|file| file.exports.keys().copied()).collect();
    let is_function = |binding| match syntax.binding(binding).map(|binding| &binding.source) {
        Some(JsBindingSource::Node(node)) => {
            matches!(syntax.node(*node), JsNode::Function(_)) && !taken_whole.contains(&syntax.file_of(*node))
        }
        _ => false,
    };
    let named = syntax.bindings_by_name.iter().filter(|((_, word), binding)| {
        is_function(**binding) && syntax.symbol_text(*word).len() >= MIN_NAME_BYTES && !offered.contains(word)
    });
    let mut counts: HashMap<JsIdentifierId, usize> = named.map(|((_, word), _)| (*word, 0)).collect();
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == '$';
    for line in files.iter().flat_map(|file| file.text.lines()).filter(|line| !is_export_line(line)) {
        // A default export is imported under other names.
        let weight = if line.trim_start().starts_with("export default") { 2 } else { 1 };
        for word in line.split(|letter| !is_part(letter)).filter(|word| word.len() >= MIN_NAME_BYTES) {
            if let Some(count) = syntax.find_symbol(word).and_then(|word| counts.get_mut(&word)) {
                *count += weight;
            }
        }
    }
    counts.into_iter().filter(|(_, count)| *count == 1).map(|(word, _)| word).collect()
}

/// Returns whether a line does nothing but export: `export { a };` or `exports.a = a;`. An export under another name
/// does not count, because the function may be called by that name.
fn is_export_line(line: &str) -> bool {
    let line = line.trim();
    let is_list = line.starts_with("export {") && line.trim_end_matches(';').ends_with('}') && !line.contains(" as ");
    let is_member = line.strip_prefix("exports.").and_then(|rest| rest.trim_end_matches(';').split_once(" = "));
    is_list || is_member.is_some_and(|(name, value)| name == value || value == "void 0")
}
