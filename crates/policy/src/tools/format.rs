//! Canonical layout of a policy: JSON with its comments in place, indented by two spaces, with short values on one
//! line.
//!
//! Only whitespace changes: keys keep their order, and strings and numbers stay as written. The policy is not
//! validated.

mod comment_attachment;
mod layout;
mod yaml_comment_count;

use std::ops::Range;

use gatelodge_json::{JsonLimits, read_with_comments};

use crate::syntax::diagnostic::{Diagnostic, DiagnosticCode, sorted_for_display};
use crate::syntax::syntax_tree::{self, DocumentFormat};
pub(crate) use yaml_comment_count::count_yaml_comments as comments_of_yaml;

/// A document in canonical layout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FormattedPolicy {
    /// The text of the document, which is always JSON.
    pub text: String,
    /// Number of comments that were dropped. Always 0 for JSON; YAML is converted to JSON without its comments.
    pub comments_lost: usize,
}

/// Formats a document. It must parse, but need not be a valid policy.
///
/// # Errors
/// Returns syntax errors and repeated keys.
///
/// # Examples
/// ```
/// use gatelodge_policy::{DocumentFormat, format};
///
/// let formatted = format(b"version: '1'\ndefault: deny\n", DocumentFormat::Yaml).expect("a document");
/// assert_eq!(formatted.text, "{\n  \"version\": \"1\",\n  \"default\": \"deny\"\n}\n");
/// ```
pub fn format(text: &[u8], format: DocumentFormat) -> Result<FormattedPolicy, Vec<Diagnostic>> {
    format_document(text, format).map_err(sorted_for_display)
}

fn format_document(text: &[u8], format: DocumentFormat) -> Result<FormattedPolicy, Vec<Diagnostic>> {
    match format {
        DocumentFormat::Json => Ok(FormattedPolicy { text: format_json(text)?, comments_lost: 0 }),
        DocumentFormat::Yaml => {
            let (root, repeats) = syntax_tree::read(text, format).map_err(|diagnostic| vec![diagnostic])?;
            fail_if_any(repeats)?;
            let json = root.to_json();
            // Spans in the generated JSON mean nothing to the author of the YAML.
            let laid_out =
                format_json(json.as_bytes()).map_err(|diagnostics| replace_spans(diagnostics, 0..text.len()))?;
            Ok(FormattedPolicy { text: laid_out, comments_lost: comments_of_yaml(text, &root) })
        }
    }
}

fn format_json(text: &[u8]) -> Result<String, Vec<Diagnostic>> {
    let (document, repeats) = read_with_comments(text, &JsonLimits::DOCUMENT)
        .map_err(|diagnostic| vec![syntax_tree::diagnostic_from_json(&diagnostic)])?;
    fail_if_any(repeats.iter().map(syntax_tree::diagnostic_from_json).collect())?;
    let laid_out = layout::render_layout(&comment_attachment::attach_comments(&document));
    if laid_out.len() > JsonLimits::DOCUMENT.max_bytes {
        let message = "the formatted text would exceed the maximum size of a policy";
        return Err(vec![Diagnostic::error(DiagnosticCode::TooLarge, 0..text.len(), message)]);
    }
    Ok(laid_out)
}

fn fail_if_any(diagnostics: Vec<Diagnostic>) -> Result<(), Vec<Diagnostic>> {
    if diagnostics.is_empty() { Ok(()) } else { Err(diagnostics) }
}

fn replace_spans(mut diagnostics: Vec<Diagnostic>, span: Range<usize>) -> Vec<Diagnostic> {
    for diagnostic in &mut diagnostics {
        diagnostic.span = span.clone();
    }
    diagnostics
}
