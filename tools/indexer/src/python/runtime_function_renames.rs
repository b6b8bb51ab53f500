//! Finds functions that are renamed at run time: `run.__name__ = "get_book"`.

use std::collections::HashMap;
use std::rc::Rc;

use super::PyAnalyzer;
use super::static_value::PyFunction;
use gatelodge_catalogue::SourceFile;

/// The functions that a file renames, keyed by the name in their definition.
pub type RuntimeFunctionRenames = HashMap<Rc<str>, RuntimeFunctionRename>;

/// The name that a function is given at run time.
#[derive(Debug)]
pub struct RuntimeFunctionRename {
    /// The new name, if it is a literal.
    new_name: Option<Rc<str>>,
    /// Whether only one function in the file has the original name.
    is_unique: bool,
}

/// Returns the functions that a file renames at run time.
pub fn function_renames(file: &SourceFile<'_>) -> RuntimeFunctionRenames {
    let (mut defined, mut renames): (HashMap<&str, usize>, RuntimeFunctionRenames) = (HashMap::new(), HashMap::new());
    for line in file.text.lines().map(str::trim_start) {
        let def = line.strip_prefix("async ").unwrap_or(line).strip_prefix("def ");
        if let Some((name, _)) = def.and_then(|def| def.split_once('(')) {
            *defined.entry(name.trim_end()).or_default() += 1;
        }
        let Some((name, other)) = line.split_once(".__name__ = ") else { continue };
        let given = find_string_literal(other).map(Rc::from);
        let known = renames
            .entry(name.into())
            .or_insert_with(|| RuntimeFunctionRename { new_name: given.clone(), is_unique: true });
        known.new_name = known.new_name.take().filter(|known| given.as_ref() == Some(known));
    }
    for (name, renamed) in &mut renames {
        renamed.is_unique = defined.get(&**name).is_none_or(|count| *count == 1);
    }
    renames
}

fn find_string_literal(text: &str) -> Option<&str> {
    let quote = text.chars().next().filter(|letter| matches!(letter, '"' | '\''))?;
    text.get(1..)?.split_once(quote).map(|(name, _)| name)
}

impl PyAnalyzer<'_> {
    /// Returns the name that a function has at run time, or `None` if it is unknown.
    pub fn find_function_name(&self, function: &PyFunction) -> Option<Rc<str>> {
        let name = &function.def.name;
        let file = self.scopes.get(function.scope)?.file;
        let Some(renamed) = self.function_renames.get(&file).and_then(|own| own.get(name)) else {
            return Some(name.clone());
        };
        // If several functions have the name, only a nested one is renamed.
        let is_open = self.modules.get(&file).is_some_and(|(scope, _)| *scope == function.scope);
        if is_open && !renamed.is_unique { Some(name.clone()) } else { renamed.new_name.clone() }
    }
}
