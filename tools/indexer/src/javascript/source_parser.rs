//! Text to tree, within bounds.

use std::ops::ControlFlow;

use tree_sitter::{Language, ParseOptions, ParseState, Parser, Tree};

/// Steps that the parser may take for a file, over what its length allows: invalid text costs
/// more than valid text, and must not cost without end. Counted, not timed, so that the same
/// text always gives the same tools.
const EXTRA_PARSER_STEPS: usize = 50_000;

/// The tree of a file, or `None` where it would take too long.
pub(super) fn parse(path: &str, text: &str) -> Option<Tree> {
    let mut parser = Parser::new();
    parser.set_language(&language(path)).ok()?;
    let allowed = EXTRA_PARSER_STEPS + text.len() / 20;
    let mut steps = 0_usize;
    let mut count = |_: &ParseState| {
        steps += 1;
        if steps > allowed { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let options = ParseOptions::new().progress_callback(&mut count);
    let bytes = text.as_bytes();
    parser.parse_with_options(&mut |at, _| bytes.get(at..).unwrap_or_default(), None, Some(options))
}

fn language(path: &str) -> Language {
    match path.rsplit('.').next() {
        Some("ts" | "mts" | "cts") => tree_sitter_typescript::LANGUAGE_TYPESCRIPT.into(),
        Some("tsx") => tree_sitter_typescript::LANGUAGE_TSX.into(),
        _ => tree_sitter_javascript::LANGUAGE.into(),
    }
}
