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

/// The modules that a text loads.
pub fn loads(text: &str) -> Vec<Loaded<'_>> {
    let calls = LOADING.iter().flat_map(|call| text.match_indices(call).map(|(at, call)| at + call.len()));
    calls.filter_map(|at| loaded(text.get(at..)?.trim_start())).collect()
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
