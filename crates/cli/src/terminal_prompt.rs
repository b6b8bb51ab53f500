//! Prompts on the terminal. Each prompt can be answered in advance with a flag, and no prompt is shown without a
//! terminal.

use std::io::{BufRead, IsTerminal, Write};

use crate::exit_code::UsageError;

/// Returns whether standard input and standard error are terminals, so that a person can answer.
pub fn is_interactive() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// Asks for confirmation. Anything but `y` or `yes` means no.
///
/// # Errors
/// There is no terminal, and `--yes` was not given.
pub fn confirm(yes: bool, question: &str) -> Result<bool, UsageError> {
    if yes {
        return Ok(true);
    }
    if !is_interactive() {
        return Err(UsageError(
            "nothing was changed: there is no terminal to ask on; `--yes` confirms without asking".into(),
        ));
    }
    Ok(matches!(read_answer(&format!("{question} [y/N] ")).to_ascii_lowercase().as_str(), "y" | "yes"))
}

/// Asks for a line of text. Returns an empty string at the end of input.
pub fn read_answer(question: &str) -> String {
    let mut err = anstream::stderr().lock();
    let _ = write!(err, "{question}").and_then(|()| err.flush());
    let mut answer = String::new();
    let _ = std::io::stdin().lock().read_line(&mut answer);
    answer.trim().to_owned()
}
