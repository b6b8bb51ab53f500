//! Finds imports by name, such as `import_module("books.shelf")`.

/// Functions that import a module.
const IMPORT_CALLS: [&str; 2] = ["import_module(", "__import__("];

/// A module that is imported with a function call. Either its whole name is a literal, or only the folder is, as in
/// `f"books.{name}"`.
#[derive(Debug, PartialEq, Eq)]
pub struct DynamicImport<'t> {
    /// Number of parent folders to go up, or 0 for an absolute import.
    pub up: usize,
    /// The dotted module name.
    pub module: &'t str,
    /// Whether the name is a folder from which any module may be imported.
    pub is_folder: bool,
}

/// Functions that find modules without being given their names.
const MODULE_DISCOVERY_CALLS: [&str; 12] = [
    "iter_modules",
    "walk_packages",
    "spec_from_file_location",
    "exec_module",
    "load_module",
    "load_source",
    "SourceFileLoader",
    "import_module as ",
    "entry_points(",
    "FileSystemProvider",
    "run_path(",
    "exec(compile(",
];
/// Strings that show that a file computes module names or finds modules by listing a folder.
const COMPOSED_NAME_SIGNS: [&str; 13] = [
    "__package__",
    "__name__}",
    "__name__ +",
    "__path__",
    "}.{",
    ".%s",
    "\".\".join(",
    "'.'.join(",
    ".stem",
    "listdir",
    "iterdir",
    "scandir",
    "glob(",
];
/// Placeholders that refer to the file's own package.
const OWN_PACKAGE_PLACEHOLDERS: [&str; 2] = ["{__package__}", "{__name__}"];

/// Returns the modules that source code imports by name.
pub fn dynamic_imports(text: &str) -> Vec<DynamicImport<'_>> {
    import_arguments(text).filter_map(parse_import_argument).collect()
}

/// Returns whether source code imports modules of its package only by literal names. A variable is also accepted if the
/// code does not compute names, because the variable's value is then a literal somewhere else.
pub fn has_only_named_imports(text: &str) -> bool {
    let is_composed = || COMPOSED_NAME_SIGNS.iter().any(|sign| text.contains(sign));
    let is_variable = |argument: &str| {
        argument.trim_start_matches(|letter: char| letter.is_alphanumeric() || letter == '_').starts_with(')')
    };
    !MODULE_DISCOVERY_CALLS.iter().any(|sign| text.contains(sign))
        && import_arguments(text).all(|argument| is_named_module(argument) || (is_variable(argument) && !is_composed()))
}

/// Returns whether an argument names a module. A placeholder before the first dot must refer to the file's own package.
fn is_named_module(argument: &str) -> bool {
    let text = argument.trim_start_matches(['f', 'r', 'F', 'R', '"', '\'']);
    parse_import_argument(argument).is_some()
        && (!text.starts_with('{') || OWN_PACKAGE_PLACEHOLDERS.iter().any(|own| text.starts_with(own)))
}

/// Returns what follows the opening parenthesis of each import call.
fn import_arguments(text: &str) -> impl Iterator<Item = &str> {
    let calls = IMPORT_CALLS.iter().flat_map(|call| text.match_indices(call).map(|(at, call)| at + call.len()));
    calls.filter_map(|at| Some(text.get(at..)?.trim_start()))
}

/// Parses an argument: `"books.shelf"`, `f"books.{name}"`, `"books." + name`, `f"{__package__}.shelf"`.
fn parse_import_argument(argument: &str) -> Option<DynamicImport<'_>> {
    let text = argument.trim_start_matches(['f', 'r', 'F', 'R']);
    let (is_filled, quote) = (text.len() < argument.len(), text.chars().next().filter(|quote| "'\"".contains(*quote))?);
    let (text, rest) = text.get(1..)?.split_once(quote)?;
    // A placeholder at the start is the package of the file.
    let (up, text) = match text.strip_prefix('{').filter(|_| is_filled) {
        Some(own) => (1, own.split_once("}.")?.1),
        None => (text.len() - text.trim_start_matches('.').len(), text.trim_start_matches('.')),
    };
    let known = text.split('{').next().filter(|_| is_filled).unwrap_or(text);
    let is_folder = known.len() < text.len() || rest.trim_start().starts_with(['+', '%']) || known.ends_with('.');
    let module = if is_folder { known.rsplit_once('.')?.0 } else { known };
    let is_name = |part: &str| !part.is_empty() && part.chars().all(|letter| letter.is_alphanumeric() || letter == '_');
    module.split('.').all(is_name).then_some(DynamicImport { up, module, is_folder })
}
