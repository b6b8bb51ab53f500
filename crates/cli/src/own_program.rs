//! The command that starts this program.

use gatelodge_clients::quote_for_shell;
use gatelodge_server::process_environment::find_variable;

/// Returns the command that starts this program, for printed command lines: its name if it is on `PATH`, otherwise its
/// full path.
pub fn own_program_command() -> String {
    let Ok(full) = std::env::current_exe() else { return "gatelodge".to_owned() };
    let path = find_variable("PATH").unwrap_or_default();
    let name = full.file_name().unwrap_or_default();
    let first =
        std::env::split_paths(&path).map(|directory| directory.join(name)).find(|candidate| candidate.is_file());
    let is_same = first.is_some_and(|first| first.canonicalize().ok() == full.canonicalize().ok());
    quote_for_shell(&if is_same { name.to_string_lossy().into_owned() } else { full.display().to_string() })
}
