//! Results, on standard output.

use std::io::Write;

use anyhow::{Result, anyhow};
use gatelodge_json::escape_unprintable;

use crate::diagnostic_report;
use crate::exit_code::CommandExitCode;

/// Prints a value as JSON.
pub fn print_json(value: &impl serde::Serialize) -> Result<()> {
    print(&json_text(value)?)
}

/// A value as JSON, laid out. What a terminal would act on or not show is escaped.
pub fn json_text(value: &impl serde::Serialize) -> Result<String> {
    let text = serde_json::to_string_pretty(value)?;
    // Line ends of the layout alone are not in a string.
    Ok(text.split('\n').flat_map(|line| [escape_unprintable(line), "\n".to_owned()]).collect())
}

/// A value as JSON on one line. What a terminal would act on or not show is escaped, which stands for the same.
pub fn json_line(value: &impl serde::Serialize) -> Result<String> {
    Ok(format!("{}\n", escape_unprintable(&serde_json::to_string(value)?)))
}

/// Prints an error that ended a command, for programs.
pub fn print_error_json(message: &str, exit: CommandExitCode) -> Result<()> {
    print_json(&serde_json::json!({"error": {"message": message, "exit_code": exit as u8}}))
}

/// Prints to standard output; whoever closed it early wanted no more.
///
/// # Errors
/// Not all of the text could be written.
pub fn print(text: &str) -> Result<()> {
    write_to(anstream::stdout().lock(), text)
}

/// Prints every byte as it is, for texts that hashes cover: nothing is taken out where no terminal listens.
///
/// # Errors
/// Not all of the text could be written.
pub fn print_raw(text: &str) -> Result<()> {
    write_to(std::io::stdout().lock(), text)
}

/// Whether nobody can read standard output any more, which writing alone would tell later.
pub fn is_stdout_closed() -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let out = std::io::stdout();
    let mut polled = [PollFd::new(&out, PollFlags::empty())];
    let is_told = poll(&mut polled, Some(&Timespec::default())).is_ok();
    is_told && polled.iter().any(|out| out.revents().intersects(PollFlags::ERR | PollFlags::HUP))
}

fn write_to(mut out: impl Write, text: &str) -> Result<()> {
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(anyhow!(
            "cannot write to standard output: {error}; what is there is not whole: make room and run it again"
        )),
        _ => Ok(()),
    }
}

/// Prints a list: as JSON for programs, as a table for people; where there is nothing, `none` says how to come by
/// something.
pub fn print_list<T: serde::Serialize>(
    all: &[T],
    json: bool,
    none: &str,
    rows: impl Fn(&T) -> Vec<Vec<String>>,
) -> Result<()> {
    match all {
        all if json => print_json(&all),
        [] => {
            diagnostic_report::print_stderr(none);
            Ok(())
        }
        all => print(&format_table(&all.iter().flat_map(rows).collect::<Vec<_>>())),
    }
}

/// A cell that is wider than this is not waited for by those above and below it.
const MAX_COLUMN_WIDTH: usize = 200;

/// Lines up columns, two spaces between them.
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
    fn a_cell_without_end_is_told_whole_and_keeps_no_other_apart() {
        let long = "x".repeat(70_000);
        let told = format_table(&[vec![long.clone(), "a".to_owned()], vec!["y".to_owned(), "b".to_owned()]]);
        assert_eq!(told, format!("{long}  a\n{:200}  b\n", "y"));
    }
}
