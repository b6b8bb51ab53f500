//! Questions to the person at the terminal. Every question has a flag that answers it, and without a terminal none is
//! asked.

use std::io::{BufRead, IsTerminal, Write};

use crate::exit_code::UsageError;

/// Whether somebody is there to be asked.
pub fn is_interactive() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// Asks for leave; anything but a yes is a no.
///
/// # Errors
/// Nobody is there to be asked, and no flag answers.
pub fn confirm(yes: bool, question: &str) -> Result<bool, UsageError> {
    if yes {
        return Ok(true);
    }
    if !is_interactive() {
        return Err(UsageError(
            "nothing was written: there is no terminal to ask at; look at the above and add `--yes`".into(),
        ));
    }
    Ok(matches!(read_answer(&format!("{question} [y/N] ")).to_ascii_lowercase().as_str(), "y" | "yes"))
}

/// Asks for a line of text; empty if nobody answers.
pub fn read_answer(question: &str) -> String {
    let mut err = anstream::stderr().lock();
    let _ = write!(err, "{question}").and_then(|()| err.flush());
    let mut answer = String::new();
    let _ = std::io::stdin().lock().read_line(&mut answer);
    answer.trim().to_owned()
}
