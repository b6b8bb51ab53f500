//! Decides which of the tool definitions found in a package are registered by default.

use std::collections::{HashMap, HashSet};

use super::entry_points::JsEntryPoints;
use super::expression_evaluation::JsEvaluator;
use super::registration_forms::{JsToolDefinition, ToolRegistrationStatus};
use super::syntax::{JsFileId, JsNode};
use gatelodge_catalogue::{ExtractedTool, SourceFile};

/// In packages with more files than this, files that are mentioned only by name are not looked up.
const MAX_MENTIONED_FILES: usize = 400;
/// Maximum length of a tool's name if no registration of the tool was found.
const MAX_DEFINED_NAME_BYTES: usize = 128;

/// The files that each file imports.
type JsImportGraph = HashMap<JsFileId, Vec<JsFileId>>;

/// Combined status of all definitions with the same name.
#[derive(Default)]
struct ToolRegistrationSummary {
    is_enabled: bool,
    is_disabled: bool,
    /// Whether any definition is registered, enabled or not.
    is_registered: bool,
    /// Whether a definition is in one of the files that `find_program_files` returns.
    in_main: bool,
    /// Whether a definition is in a file that any of the package's programs loads.
    in_any: bool,
}

/// Returns the tools of the package's programs, each marked as optional unless it is registered by default. Tools that
/// no program loads are dropped.
pub(super) fn mark_optional_tools(
    evaluator: &JsEvaluator<'_>,
    entries: &JsEntryPoints,
    files: &[SourceFile<'_>],
    definitions: Vec<JsToolDefinition>,
) -> Vec<ExtractedTool> {
    let imports = evaluator.import_graph();
    let (main, any) = (reachable_files(&imports, &entries.main), reachable_files(&imports, &entries.all));
    let counted = find_program_files(evaluator, &imports, files, [&main, &any], &definitions);
    let mut names: HashMap<String, ToolRegistrationSummary> = HashMap::new();
    for one in &definitions {
        let named = names.entry(one.tool.name.clone()).or_default();
        let counts = counted.as_ref().is_none_or(|counted| counted.contains(&one.file));
        named.is_enabled |= counts && one.status == ToolRegistrationStatus::Enabled;
        named.is_disabled |= counts && one.status == ToolRegistrationStatus::Disabled;
        named.is_registered |= one.status != ToolRegistrationStatus::DefinedOnly;
        named.in_main |= counts;
        named.in_any |= counts || any.contains(&one.file);
    }
    let left_out = |name: &str| evaluator.filtered_tools.contains(name);
    let is_optional = |name: &str, named: &ToolRegistrationSummary| {
        !named.in_main || (!named.is_enabled && (named.is_disabled || left_out(name)))
    };
    let tools = definitions.into_iter().filter_map(|JsToolDefinition { tool, .. }| {
        let is_tool =
            |named: &&ToolRegistrationSummary| named.in_any && (named.is_registered || is_tool_like_name(&tool.name));
        let named = names.get(&tool.name).filter(is_tool)?;
        let optional = is_optional(&tool.name, named);
        Some(ExtractedTool { optional, ..tool })
    });
    tools.collect()
}

/// Returns whether a name looks like a tool name. Many other objects also have a name, a description and a schema, but
/// their names often contain unusual characters. This is not checked for tools that are registered.
fn is_tool_like_name(name: &str) -> bool {
    name.len() <= MAX_DEFINED_NAME_BYTES
        && name.chars().all(|letter| letter.is_ascii_alphanumeric() || "_-./:".contains(letter))
}

/// Returns the files whose tools may be registered by default. These are the files of the main program or, if those
/// define no tools, the files of all entry points. If those define no tools either, the files that they mention by name
/// are included. Returns `None`, which stands for all files, if some imports cannot be followed.
fn find_program_files(
    evaluator: &JsEvaluator<'_>,
    imports: &JsImportGraph,
    files: &[SourceFile<'_>],
    [main, any]: [&HashSet<JsFileId>; 2],
    definitions: &[JsToolDefinition],
) -> Option<HashSet<JsFileId>> {
    for from in [main, any] {
        if definitions.iter().any(|definition| from.contains(&definition.file)) {
            return (!has_computed_imports(evaluator, from)).then(|| from.clone());
        }
    }
    let named = mentioned_files(evaluator, imports, files, any);
    let is_followed = definitions.iter().any(|definition| named.contains(&definition.file))
        && !has_computed_imports(evaluator, &named);
    is_followed.then_some(named)
}

/// Returns the reachable files and the files whose names they mention, because a program may start another one by its
/// file name. Returns no files if the package has more than `MAX_MENTIONED_FILES`.
fn mentioned_files(
    evaluator: &JsEvaluator<'_>,
    imports: &JsImportGraph,
    files: &[SourceFile<'_>],
    from: &HashSet<JsFileId>,
) -> HashSet<JsFileId> {
    let syntax = evaluator.syntax;
    if syntax.files.len() > MAX_MENTIONED_FILES {
        return HashSet::new();
    }
    let texts: HashMap<&str, &str> = files.iter().map(|file| (file.path, file.text)).collect();
    let path = |file: JsFileId| syntax.file(file).map_or("", |file| file.path.as_str());
    let (mut found, mut fresh) = (from.clone(), from.clone());
    while !fresh.is_empty() {
        let says: Vec<&str> = fresh.iter().filter_map(|file| texts.get(path(*file)).copied()).collect();
        let others = (0..syntax.files.len()).map(|at| JsFileId(at as u32)).filter(|file| !found.contains(file));
        let is_named = |file: &JsFileId| {
            let name = path(*file).rsplit('/').next().unwrap_or_default();
            says.iter().any(|text| text.contains(name))
        };
        let named: Vec<JsFileId> = others.filter(is_named).collect();
        fresh = reachable_files(imports, &named).difference(&found).copied().collect();
        found.extend(&fresh);
    }
    found
}

/// Returns whether any of these files imports a module by a computed name.
fn has_computed_imports(evaluator: &JsEvaluator<'_>, files: &HashSet<JsFileId>) -> bool {
    let syntax = evaluator.syntax;
    let is_loading = |callee| match syntax.node(callee) {
        JsNode::Name(word, _) => matches!(syntax.symbol_text(*word), "import" | "require"),
        _ => false,
    };
    let loads = |call| matches!(syntax.node(call), JsNode::Call(callee, _) if is_loading(*callee));
    let has_framework = syntax.has_import_of("mcp-framework");
    has_framework || syntax.calls.iter().any(|call| loads(*call) && files.contains(&syntax.file_of(*call)))
}

/// Returns the files that these files import, directly or indirectly.
fn reachable_files(imports: &JsImportGraph, from: &[JsFileId]) -> HashSet<JsFileId> {
    let (mut reached, mut next): (HashSet<JsFileId>, Vec<JsFileId>) = (from.iter().copied().collect(), from.to_vec());
    while let Some(file) = next.pop() {
        for other in imports.get(&file).into_iter().flatten() {
            if reached.insert(*other) {
                next.push(*other);
            }
        }
    }
    reached
}
