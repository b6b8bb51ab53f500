//! Functions that get another name than the one they are defined by: `run.__name__ = "get_book"`.

use std::collections::HashMap;
use std::rc::Rc;

use super::PyAnalyzer;
use super::value::PyFunction;
use gatelodge_catalogue::SourceFile;

/// The names that functions of a file get, by the names they are defined by.
pub type FunctionRenames = HashMap<Rc<str>, FunctionRename>;

/// What becomes of one.
#[derive(Debug)]
pub struct FunctionRename {
    /// The other name, if it is written out.
    new_name: Option<Rc<str>>,
    /// Whether the file has no other function of the name.
    is_unique: bool,
}

/// What the functions of a file are renamed to.
pub fn function_renames(file: &SourceFile<'_>) -> FunctionRenames {
    let (mut defined, mut renames): (HashMap<&str, usize>, FunctionRenames) = (HashMap::new(), HashMap::new());
    for line in file.text.lines().map(str::trim_start) {
        let def = line.strip_prefix("async ").unwrap_or(line).strip_prefix("def ");
        if let Some((name, _)) = def.and_then(|def| def.split_once('(')) {
            *defined.entry(name.trim_end()).or_default() += 1;
        }
        let Some((name, other)) = line.split_once(".__name__ = ") else { continue };
        let given = find_string_literal(other).map(Rc::from);
        let known =
            renames.entry(name.into()).or_insert_with(|| FunctionRename { new_name: given.clone(), is_unique: true });
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
    /// The name that a function goes by, if it can be told.
    pub fn find_function_name(&self, function: &PyFunction) -> Option<Rc<str>> {
        let name = &function.def.name;
        let file = self.scopes.get(function.scope)?.file;
        let Some(renamed) = self.function_renames.get(&file).and_then(|own| own.get(name)) else {
            return Some(name.clone());
        };
        // Of several, it is one that is made for the purpose.
        let is_open = self.modules.get(&file).is_some_and(|(scope, _)| *scope == function.scope);
        if is_open && !renamed.is_unique { Some(name.clone()) } else { renamed.new_name.clone() }
    }
}
