//! Shortens long runs of comment lines. At each comment line the parser scans all following ones to find the
//! indentation of the next statement, which takes quadratic time.

use std::borrow::Cow;

/// Maximum number of consecutive comment lines that are kept.
const MAX_COMMENT_RUN_LINES: usize = 100;

/// Quotes that delimit multi-line strings.
const TRIPLE_QUOTES: [&str; 2] = ["\"\"\"", "'''"];

/// Returns the source code without excess comment lines.
pub fn shorten_comment_runs(text: &str) -> Cow<'_, str> {
    if max_comment_run(text) <= MAX_COMMENT_RUN_LINES {
        return Cow::Borrowed(text);
    }
    let (mut out, mut row, mut open) = (String::with_capacity(text.len()), 0, None);
    for line in text.split_inclusive('\n') {
        if open.is_none() && is_comment_line(line) {
            row += 1;
        } else if open.is_some() || !line.trim().is_empty() {
            row = 0;
            open = open_quotes_after(line, open);
        }
        if row <= MAX_COMMENT_RUN_LINES {
            out.push_str(line);
        }
    }
    Cow::Owned(out)
}

fn is_comment_line(line: &str) -> bool {
    line.trim_start().starts_with('#')
}

fn max_comment_run(text: &str) -> usize {
    let (mut row, mut longest) = (0, 0);
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        row = if is_comment_line(line) { row + 1 } else { 0 };
        longest = longest.max(row);
    }
    longest
}

/// Returns the quotes of the string that is open at the end of a line, given those of the string open at its start.
fn open_quotes_after<'t>(line: &'t str, before: Option<&'t str>) -> Option<&'t str> {
    let (mut open, mut rest) = (before, line);
    while let Some(first) = rest.chars().next() {
        let width = match open {
            _ if first == '\\' => 1 + rest.chars().nth(1).map_or(0, char::len_utf8),
            None if first == '#' => break,
            None if matches!(first, '"' | '\'') => {
                open = rest.get(..3).filter(|quotes| TRIPLE_QUOTES.contains(quotes)).or(rest.get(..1));
                open.map_or(1, str::len)
            }
            Some(quotes) if rest.starts_with(quotes) => {
                open = None;
                quotes.len()
            }
            // A string in single quotes continues only after a backslash.
            Some(quotes) if quotes.len() == 1 && first == '\n' => {
                open = None;
                1
            }
            _ => first.len_utf8(),
        };
        rest = rest.get(width..).unwrap_or_default();
    }
    open
}
