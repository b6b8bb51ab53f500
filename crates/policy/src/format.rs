//! The canonical layout of a policy: JSON with its comments where they stand, two spaces, one line where it fits.
//!
//! Only the white space changes: keys keep their order, strings and numbers their spelling. Nothing is judged here.

mod layout;
mod remark;
mod yaml_comment;

use std::ops::Range;

use gatelodge_json::{JsonLimits, read_with_comments};

use crate::diagnostic::{Diagnostic, DiagnosticCode, sorted_for_display};
use crate::syntax_tree::{self, DocumentFormat};
pub(crate) use yaml_comment::count as comments_of_yaml;

/// A document in its canonical layout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Formatted {
    /// The text, JSON.
    pub text: String,
    /// How many comments could not be kept. Always 0 for JSON; YAML becomes JSON without its comments.
    pub comments_lost: usize,
}

/// Lays a document out. It need not be a valid policy, as long as it can be read.
///
/// # Errors
/// What keeps the text from being read, and repeated keys.
pub fn format(text: &[u8], format: DocumentFormat) -> Result<Formatted, Vec<Diagnostic>> {
    lay_out(text, format).map_err(sorted_for_display)
}

fn lay_out(text: &[u8], format: DocumentFormat) -> Result<Formatted, Vec<Diagnostic>> {
    match format {
        DocumentFormat::Json => Ok(Formatted { text: format_json(text)?, comments_lost: 0 }),
        DocumentFormat::Yaml => {
            let (root, repeats) = syntax_tree::read(text, format).map_err(|fault| vec![fault])?;
            refuse(repeats)?;
            let json = root.to_json();
            // Places in the JSON that was made mean nothing to whoever wrote the YAML.
            let laid_out = format_json(json.as_bytes()).map_err(|faults| move_all(faults, 0..text.len()))?;
            Ok(Formatted { text: laid_out, comments_lost: comments_of_yaml(text, &root) })
        }
    }
}

fn format_json(text: &[u8]) -> Result<String, Vec<Diagnostic>> {
    let (document, repeats) = read_with_comments(text, &JsonLimits::DOCUMENT)
        .map_err(|fault| vec![syntax_tree::diagnostic_from_json(&fault)])?;
    refuse(repeats.iter().map(syntax_tree::diagnostic_from_json).collect())?;
    let laid_out = layout::lay_out(&remark::attach(&document));
    if laid_out.len() > JsonLimits::DOCUMENT.max_bytes {
        let message = "laid out, the text would be larger than a policy may be";
        return Err(vec![Diagnostic::error(DiagnosticCode::TooLarge, 0..text.len(), message)]);
    }
    Ok(laid_out)
}

fn refuse(faults: Vec<Diagnostic>) -> Result<(), Vec<Diagnostic>> {
    if faults.is_empty() { Ok(()) } else { Err(faults) }
}

fn move_all(mut faults: Vec<Diagnostic>, span: Range<usize>) -> Vec<Diagnostic> {
    for fault in &mut faults {
        fault.span = span.clone();
    }
    faults
}
