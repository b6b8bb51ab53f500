//! What the process was given: its environment, and who runs it.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Looks a variable up. One that is no text counts as missing.
#[expect(clippy::disallowed_methods, reason = "this is the door through which the environment comes in")]
pub fn find_variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// All variables that are text, but those whose names begin with `but`.
pub fn variables_without_prefix(but: &str) -> Vec<(String, String)> {
    let text =
        std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    text.filter(|(name, _)| !name.starts_with(but)).collect()
}

/// Finds a program in the folder of this program, or else in the folders of `PATH`.
///
/// Relative folders of `PATH` are skipped: a file in the current directory must not be run in place of the program.
pub fn find_program(name: &str) -> Option<PathBuf> {
    let path = find_variable("PATH").unwrap_or_default();
    let own_folder = std::env::current_exe().ok().and_then(|program| Some(program.parent()?.to_owned()));
    let folders = own_folder.into_iter().chain(std::env::split_paths(&path)).filter(|folder| folder.is_absolute());
    folders.map(|folder| folder.join(name)).find(|program| can_run(program))
}

fn can_run(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| found.is_file() && found.mode() & 0o111 != 0)
}

/// Why a program cannot be run from a folder; none if it can.
pub fn find_program_problem(program: &str, folder: &Path) -> Option<String> {
    let shown = crate::diagnostic_report::escape_for_terminal(program);
    if program.contains('/') {
        return match folder.join(program) {
            path if can_run(&path) => None,
            path if path.exists() => Some(format!("`{shown}` is not a program that can be run")),
            _ => Some(format!("there is no program `{shown}`")),
        };
    }
    let folders = find_variable("PATH").unwrap_or_default();
    if folders.split(':').any(|folder| can_run(&Path::new(folder).join(program))) {
        return None;
    }
    let help = "install it, or name it by its whole path: clients of the desktop have another `PATH` than a shell";
    Some(format!("there is no program `{shown}` in the folders of `PATH`; {help}"))
}

/// The user as the operating system knows it, for the admin log.
pub fn current_user() -> String {
    // The variables `USER` and `LOGNAME` say what the user likes; `id` asks the system.
    let asked = Command::new("id").arg("-un").stdin(Stdio::null()).stderr(Stdio::null()).output();
    let told = asked.ok().filter(|output| output.status.success());
    let name = told.and_then(|output| String::from_utf8(output.stdout).ok()).map(|name| name.trim().to_owned());
    name.filter(|name| !name.is_empty()).unwrap_or_else(|| "unknown".to_owned())
}

/// How this program is started, so that a line that is printed can be pasted anywhere: its name if a shell finds it by
/// that, else its full path.
pub fn own_program_command() -> String {
    let Ok(full) = std::env::current_exe() else { return "gatelodge".to_owned() };
    let path = find_variable("PATH").unwrap_or_default();
    let name = full.file_name().unwrap_or_default();
    let first = std::env::split_paths(&path).map(|folder| folder.join(name)).find(|there| there.is_file());
    let is_same = first.is_some_and(|first| first.canonicalize().ok() == full.canonicalize().ok());
    quote_for_shell(&if is_same { name.to_string_lossy().into_owned() } else { full.display().to_string() })
}

/// A text as a shell takes it for one word.
pub fn quote_for_shell(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'.' | b'-' | b'_' | b':' | b'=');
    if !text.is_empty() && text.bytes().all(is_plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}
