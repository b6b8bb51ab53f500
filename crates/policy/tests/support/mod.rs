//! Runs case files from their text, as `policy test` does. In a folder, for a file would be a test of its own.

use std::path::Path;

use gatelodge_policy::{CaseFile, CaseReport, Fault, Format, Policy, PolicySource, load_inline, parse};

/// The language that a file's name says.
pub fn format_of(path: &Path) -> Format {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("json") => Format::Json,
        Some("yaml") => Format::Yaml,
        other => panic!("`{}`: {other:?} is neither JSON nor YAML", path.display()),
    }
}

/// Runs the cases of a text. `find` gives the policy that a path in it names, or its faults.
pub fn run<'p>(text: &str, format: Format, find: Find<'_, 'p>) -> Vec<CaseReport> {
    let file = CaseFile::read(text.as_bytes(), format).unwrap_or_else(|faults| panic!("{}", told(text, &faults)));
    let inline: BTreeMap<&str, Result<Policy, Vec<Fault>>> = file
        .sources()
        .into_iter()
        .filter_map(|source| match source {
            PolicySource::Inline(json) => Some((json.as_str(), load_inline(json))),
            PolicySource::Path(_) => None,
        })
        .collect();
    file.run(&|source| match source {
        PolicySource::Inline(json) => inline[json.as_str()].as_ref().map_err(Vec::as_slice),
        PolicySource::Path(path) => find(path),
    })
}

/// Each fault as `code line:column message`.
pub fn told(text: &str, faults: &[Fault]) -> String {
    let line = |fault: &Fault| format!("{} {} {}", fault.code, place(text.as_bytes(), fault.span.start), fault.message);
    faults.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// `line:column` of a byte offset, both from one, columns in code points.
pub fn place(text: &[u8], at: usize) -> String {
    let before = String::from_utf8_lossy(text.get(..at).unwrap_or(text));
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    format!("{line}:{column}")
}

fn load(source: &PolicySource, folder: &Path) -> Result<Policy, Vec<Fault>> {
    match source {
        PolicySource::Inline(json) => load_inline(json),
        PolicySource::Path(name) => {
            let path = folder.join(name);
            let text = std::fs::read(&path).unwrap_or_else(|error| panic!("`{}`: {error}", path.display()));
            parse(&text, format_of(&path))
        }
    }
}
