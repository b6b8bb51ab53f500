//! What a policy probably does not mean, though it loads: the warnings of `policy check`.
//!
//! Where a warning could be wrong there is none: one false alarm and nobody reads the others.

mod anchor;
mod compare;
mod contradiction;
mod limit;
mod located_block;
mod nearest;
mod offered;
mod predicate;
mod schema_lookup;
mod table;
mod tool_list;
mod value_shape;

use crate::diagnostic::{Diagnostic, truncate_with_notice};
use crate::parse;
use crate::syntax_tree::DocumentFormat;
use limit::Bounds;
use located_block::{PolicySection, located_blocks};
use nearest::Offers;
use predicate::Guarded;
pub use tool_list::ToolList;

/// More warnings than this are not shown.
const MAX_WARNINGS: usize = 1_000;

/// Longer messages are cut.
const MOST_LETTERS: usize = 600;

/// Gives all errors of a document; if there are none, its warnings, in the order of their places.
///
/// With the tools that a server offers, conditions are held against what their schemas declare.
pub fn check(text: &[u8], format: DocumentFormat, tools: Option<&ToolList>) -> Vec<Diagnostic> {
    let (policy, root) = match policy_parser::read(text, format) {
        Ok(read) => read,
        Err(faults) => return faults,
    };
    let sections = located_blocks(&policy, &root);
    let all_tools = sections.iter().find(|section| section.field == PolicySection::AllTools);
    let guarded = all_tools.map(Guarded::of);
    let bounds = all_tools.map(Bounds::of);
    let mut offers = Offers::default();
    let mut warnings = Vec::new();
    for section in &sections {
        let is_under = section.field.is_under_all_tools();
        predicate::check(section, guarded.as_ref().filter(|_| is_under), &mut offers, &mut warnings);
        limit::check(section, bounds.as_ref().filter(|_| is_under), &mut warnings);
    }
    table::find_shadowed(&policy, &root, &sections, &mut warnings);
    if let Some(tools) = tools {
        table::find_not_offered(&root, tools, &mut offers, &mut warnings);
        offered::check(&policy, &sections, tools, offers, &mut warnings);
    }
    warnings.sort_by_key(|warning| (warning.span.start, warning.code));
    truncate_with_notice(&mut warnings, MAX_WARNINGS);
    for warning in &mut warnings {
        warning.message = plain(&warning.message);
        warning.help = warning.help.as_deref().map(plain);
    }
    warnings
}

/// Names of tools and arguments are foreign text: in a message they are short, and steer no terminal.
fn plain(text: &str) -> String {
    let is_odd =
        |letter: char| letter.is_control() || matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let letters = text.chars().map(|letter| if is_odd(letter) { '\u{fffd}' } else { letter });
    let mut plain: String = letters.take(MOST_LETTERS).collect();
    if text.chars().nth(MOST_LETTERS).is_some() {
        plain.push('…');
    }
    plain
}
