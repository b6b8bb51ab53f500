//! Parses source files within a step limit.

use std::ops::ControlFlow;

use tree_sitter::{Language, ParseOptions, ParseState, Parser, Tree};

/// Number of parser steps that any file may take, to which a number proportional to its length is added. The limit is
/// needed because the parser may take very many steps on invalid code. Steps are counted instead of time so that the
/// same file always gives the same tools.
const EXTRA_PARSER_STEPS: usize = 50_000;

/// Returns a file's syntax tree, or `None` if the step limit is reached.
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
