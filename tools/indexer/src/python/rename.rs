//! Functions that get another name than the one they are defined by: `run.__name__ = "get_book"`.

use std::collections::HashMap;
use std::rc::Rc;

use super::PyAnalyzer;
use super::value::PyFunction;
use gatelodge_catalogue::SourceFile;

/// The names that functions of a file get, by the names they are defined by.
pub type Renames = HashMap<Rc<str>, Renamed>;

/// What becomes of one.
#[derive(Debug)]
pub struct Renamed {
    /// The other name, if it is written out.
    given: Option<Rc<str>>,
    /// Whether the file has no other function of the name.
    is_only: bool,
}

/// What the functions of a file are renamed to.
pub fn renames(file: &SourceFile<'_>) -> Renames {
    let (mut defined, mut renames): (HashMap<&str, usize>, Renames) = (HashMap::new(), HashMap::new());
    for line in file.text.lines().map(str::trim_start) {
        let def = line.strip_prefix("async ").unwrap_or(line).strip_prefix("def ");
        if let Some((name, _)) = def.and_then(|def| def.split_once('(')) {
            *defined.entry(name.trim_end()).or_default() += 1;
        }
        let Some((name, other)) = line.split_once(".__name__ = ") else { continue };
        let given = written_out(other).map(Rc::from);
        let known = renames.entry(name.into()).or_insert_with(|| Renamed { given: given.clone(), is_only: true });
        known.given = known.given.take().filter(|known| given.as_ref() == Some(known));
    }
    for (name, renamed) in &mut renames {
        renamed.is_only = defined.get(&**name).is_none_or(|count| *count == 1);
    }
    renames
}

fn written_out(text: &str) -> Option<&str> {
    let quote = text.chars().next().filter(|letter| matches!(letter, '"' | '\''))?;
    text.get(1..)?.split_once(quote).map(|(name, _)| name)
}

impl PyAnalyzer<'_> {
    /// The name that a function goes by, if it can be told.
    pub fn own_name(&self, function: &PyFunction) -> Option<Rc<str>> {
        let name = &function.def.name;
        let file = self.scopes.get(function.scope)?.file;
        let Some(renamed) = self.function_renames.get(&file).and_then(|own| own.get(name)) else {
            return Some(name.clone());
        };
        // Of several, it is one that is made for the purpose.
        let is_open = self.modules.get(&file).is_some_and(|(scope, _)| *scope == function.scope);
        if is_open && !renamed.is_only { Some(name.clone()) } else { renamed.given.clone() }
    }
}
