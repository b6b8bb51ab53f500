//! Prints results to standard output.

use std::io::Write;

use anyhow::{Result, anyhow};
use gatelodge_json::escape_unprintable;

use crate::diagnostic_report;
use crate::exit_code::CommandExitCode;

/// Prints a value as JSON.
pub fn print_json(value: &impl serde::Serialize) -> Result<()> {
    print(&json_text(value)?)
}

/// Returns a value as indented JSON. Control and invisible characters are escaped.
pub fn json_text(value: &impl serde::Serialize) -> Result<String> {
    let text = serde_json::to_string_pretty(value)?;
    // Line breaks outside of strings are not escaped.
    Ok(text.split('\n').flat_map(|line| [escape_unprintable(line), "\n".to_owned()]).collect())
}

/// Returns a value as JSON on one line. Control and invisible characters are written as equivalent JSON escapes.
pub fn json_line(value: &impl serde::Serialize) -> Result<String> {
    Ok(format!("{}\n", escape_unprintable(&serde_json::to_string(value)?)))
}

/// Prints the error that ended a command, as JSON.
pub fn print_error_json(message: &str, exit: CommandExitCode) -> Result<()> {
    print_json(&serde_json::json!({"error": {"message": message, "exit_code": exit as u8}}))
}

/// Prints to standard output. A closed pipe is not an error: the program that reads the output needs no more of it.
///
/// # Errors
/// The output could not be written completely.
pub fn print(text: &str) -> Result<()> {
    write_to(anstream::stdout().lock(), text)
}

/// Prints every byte unchanged, for content that is covered by a hash. [`print()`] removes color codes if standard
/// output is not a terminal.
///
/// # Errors
/// The output could not be written completely.
pub fn print_raw(text: &str) -> Result<()> {
    write_to(std::io::stdout().lock(), text)
}

/// Returns whether the program reading standard output has closed it. A command that waits for data can then stop at
/// once, instead of noticing it at its next write.
pub fn is_stdout_closed() -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let out = std::io::stdout();
    let mut polled = [PollFd::new(&out, PollFlags::empty())];
    let is_polled = poll(&mut polled, Some(&Timespec::default())).is_ok();
    is_polled && polled.iter().any(|out| out.revents().intersects(PollFlags::ERR | PollFlags::HUP))
}

fn write_to(mut out: impl Write, text: &str) -> Result<()> {
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(anyhow!(
            "cannot write to standard output: {error}; the output is incomplete: free disk space and run the command again"
        )),
        _ => Ok(()),
    }
}

/// Prints a list as JSON or as a table. If the list is empty, prints `empty_hint`, which says how to add an entry, to
/// standard error.
pub fn print_list<T: serde::Serialize>(
    all: &[T],
    json: bool,
    empty_hint: &str,
    rows: impl Fn(&T) -> Vec<Vec<String>>,
) -> Result<()> {
    match all {
        all if json => print_json(&all),
        [] => {
            diagnostic_report::print_stderr(empty_hint);
            Ok(())
        }
        all => print(&format_table(&all.iter().flat_map(rows).collect::<Vec<_>>())),
    }
}

/// Columns are padded to at most this width. A wider cell shifts only the rest of its own row.
const MAX_COLUMN_WIDTH: usize = 200;

/// Formats rows as aligned columns, with two spaces between them.
pub fn format_table(rows: &[Vec<String>]) -> String {
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

#[cfg(test)]
mod tests {
    use super::format_table;

    #[test]
    fn a_very_long_cell_is_printed_whole_and_does_not_widen_other_rows() {
        let long = "x".repeat(70_000);
        let table = format_table(&[vec![long.clone(), "a".to_owned()], vec!["y".to_owned(), "b".to_owned()]]);
        assert_eq!(table, format!("{long}  a\n{:200}  b\n", "y"));
    }
}
