//! Prints results to standard output and messages to standard error.

use std::io::Write;

use anyhow::{Result, anyhow};
use gatelodge_json::{escape_unprintable, is_unprintable};
use serde::Serialize;

/// Maximum width of a column. Wider cells are not truncated, but extend beyond their column.
const MAX_COLUMN_WIDTH: usize = 200;

/// Prints a message to standard error. A failure to write it is ignored.
pub fn say(text: &str) {
    let _ = writeln!(anstream::stderr().lock(), "{text}");
}

/// Prints a value as indented JSON. Control characters and hidden characters in strings are escaped.
pub fn json(value: &impl Serialize) -> Result<()> {
    let text = serde_json::to_string_pretty(value)?;
    // A line end in the text is one of the indentation: those in strings are escaped.
    print(&text.split('\n').flat_map(|line| [escape_unprintable(line), "\n".to_owned()]).collect::<String>())
}

/// Prints to standard output. A closed pipe is not an error.
pub fn print(text: &str) -> Result<()> {
    let mut out = anstream::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(anyhow!("cannot write to standard output: {error}; the output is not complete"))
        }
        _ => Ok(()),
    }
}

/// Formats rows as aligned columns with two spaces between them.
pub fn table(rows: &[Vec<String>]) -> String {
    let mut widths: Vec<usize> = Vec::new();
    for row in rows {
        for (column, cell) in row.iter().enumerate() {
            let width = cell.chars().count().min(MAX_COLUMN_WIDTH);
            match widths.get_mut(column) {
                Some(widest) => *widest = width.max(*widest),
                None => widths.push(width),
            }
        }
    }
    let mut out = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        out.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        out.push('\n');
    }
    out
}

/// Formats a count with its noun: `1 server`, `2 servers`.
pub fn counted(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

/// Escapes the control characters and hidden characters in untrusted text, so that it can be shown on one line.
pub fn shown(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match is_unprintable(character) {
            true => out.extend(character.escape_unicode()),
            false => out.push(character),
        }
    }
    out
}
