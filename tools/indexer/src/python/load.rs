//! What a text loads by name: `import_module("books.shelf")`.

/// The functions that load a module.
const LOADING: [&str; 2] = ["import_module(", "__import__("];

/// A module that is loaded by a name that is written out, in whole or as far as its folder.
#[derive(Debug, PartialEq, Eq)]
pub struct Loaded<'t> {
    /// How many folders up; 0 is absolute.
    pub up: usize,
    /// The module, dotted.
    pub module: &'t str,
    /// Whether it is a folder, of which any module may be loaded.
    pub is_folder: bool,
}

/// What finds modules that are named nowhere.
const FINDING: [&str; 12] = [
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
/// Signs that the name of a module is put together, or found in a folder.
const COMPOSED: [&str; 13] = [
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
/// What stands for the package that a file is in.
const OWN: [&str; 2] = ["{__package__}", "{__name__}"];

/// The modules that a text loads.
pub fn loads(text: &str) -> Vec<Loaded<'_>> {
    arguments(text).filter_map(loaded).collect()
}

/// Whether a text loads no module of its package that it does not name. What is in a variable was written out somewhere.
pub fn names_what_it_loads(text: &str) -> bool {
    let is_composed = || COMPOSED.iter().any(|sign| text.contains(sign));
    let is_variable = |argument: &str| {
        argument.trim_start_matches(|letter: char| letter.is_alphanumeric() || letter == '_').starts_with(')')
    };
    !FINDING.iter().any(|sign| text.contains(sign))
        && arguments(text).all(|argument| is_named(argument) || (is_variable(argument) && !is_composed()))
}

/// Whether an argument names a module. What is filled in before the first dot is known only of the package's own name.
fn is_named(argument: &str) -> bool {
    let text = argument.trim_start_matches(['f', 'r', 'F', 'R', '"', '\'']);
    loaded(argument).is_some() && (!text.starts_with('{') || OWN.iter().any(|own| text.starts_with(own)))
}

/// What stands behind the brackets of calls that load.
fn arguments(text: &str) -> impl Iterator<Item = &str> {
    let calls = LOADING.iter().flat_map(|call| text.match_indices(call).map(|(at, call)| at + call.len()));
    calls.filter_map(|at| Some(text.get(at..)?.trim_start()))
}

/// What an argument names: `"books.shelf"`, `f"books.{name}"`, `"books." + name`, `f"{__package__}.shelf"`.
fn loaded(argument: &str) -> Option<Loaded<'_>> {
    let text = argument.trim_start_matches(['f', 'r', 'F', 'R']);
    let (is_filled, quote) = (text.len() < argument.len(), text.chars().next().filter(|quote| "'\"".contains(*quote))?);
    let (text, rest) = text.get(1..)?.split_once(quote)?;
    // What is filled in first is the package that the file is in.
    let (up, text) = match text.strip_prefix('{').filter(|_| is_filled) {
        Some(own) => (1, own.split_once("}.")?.1),
        None => (text.len() - text.trim_start_matches('.').len(), text.trim_start_matches('.')),
    };
    let known = text.split('{').next().filter(|_| is_filled).unwrap_or(text);
    let is_folder = known.len() < text.len() || rest.trim_start().starts_with(['+', '%']) || known.ends_with('.');
    let module = if is_folder { known.rsplit_once('.')?.0 } else { known };
    let is_name = |part: &str| !part.is_empty() && part.chars().all(|letter| letter.is_alphanumeric() || letter == '_');
    module.split('.').all(is_name).then_some(Loaded { up, module, is_folder })
}
