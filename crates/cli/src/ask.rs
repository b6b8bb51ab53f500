//! Questions to the person at the terminal. Every question has a flag that answers it, and without a terminal none is
//! asked.

use std::io::{BufRead, IsTerminal, Write};

use crate::exit::Usage;

/// Whether somebody is there to be asked.
pub fn can_ask() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// Asks for leave; anything but a yes is a no.
///
/// # Errors
/// Nobody is there to be asked, and no flag answers.
pub fn leave(yes: bool, question: &str) -> Result<bool, Usage> {
    if yes {
        return Ok(true);
    }
    if !can_ask() {
        return Err(Usage(
            "nothing was written: there is no terminal to ask at; look at the above and add `--yes`".into(),
        ));
    }
    Ok(matches!(line(&format!("{question} [y/N] ")).to_ascii_lowercase().as_str(), "y" | "yes"))
}

/// Asks for a line of text; empty if nobody answers.
pub fn line(question: &str) -> String {
    let mut err = anstream::stderr().lock();
    let _ = write!(err, "{question}").and_then(|()| err.flush());
    let mut answer = String::new();
    let _ = std::io::stdin().lock().read_line(&mut answer);
    answer.trim().to_owned()
}
