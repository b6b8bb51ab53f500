//! Environment variables, programs on `PATH`, and the current user.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use gatelodge_json::escape_for_terminal;

/// Looks up an environment variable. A value that is not valid UTF-8 is treated as missing.
#[expect(clippy::disallowed_methods, reason = "the only place where the environment is read")]
pub fn find_variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Returns all environment variables that are valid UTF-8, except those whose names start with `prefix`.
pub fn variables_without_prefix(prefix: &str) -> Vec<(String, String)> {
    let text =
        std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    text.filter(|(name, _)| !name.starts_with(prefix)).collect()
}

/// Finds a program in the directory that contains this program, or else in the directories on `PATH`.
///
/// Relative directories on `PATH` are skipped: a file in the current directory must not be run in place of the program.
pub fn find_program(name: &str) -> Option<PathBuf> {
    let path = find_variable("PATH").unwrap_or_default();
    let own_folder = std::env::current_exe().ok().and_then(|program| Some(program.parent()?.to_owned()));
    let folders = own_folder.into_iter().chain(std::env::split_paths(&path)).filter(|folder| folder.is_absolute());
    folders.map(|folder| folder.join(name)).find(|program| can_run(program))
}

fn can_run(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| found.is_file() && found.mode() & 0o111 != 0)
}

/// Returns why a program cannot be run with `directory` as the current directory, or `None` if it can.
pub fn find_program_problem(program: &str, directory: &Path) -> Option<String> {
    let shown = escape_for_terminal(program);
    if program.contains('/') {
        return match directory.join(program) {
            path if can_run(&path) => None,
            path if path.exists() => Some(format!("`{shown}` is not an executable program")),
            _ => Some(format!("there is no program `{shown}`")),
        };
    }
    let path = find_variable("PATH").unwrap_or_default();
    if path.split(':').any(|directory| can_run(&Path::new(directory).join(program))) {
        return None;
    }
    let help = "install it, or use its full path: desktop applications have another `PATH` than a shell";
    Some(format!("there is no program `{shown}` on `PATH`; {help}"))
}

/// Returns the name of the current user according to the operating system, for the admin log.
pub fn current_user() -> String {
    // The user can set the variables `USER` and `LOGNAME` to anything; `id` asks the system.
    let output = Command::new("id").arg("-un").stdin(Stdio::null()).stderr(Stdio::null()).output();
    let output = output.ok().filter(|output| output.status.success());
    let name = output.and_then(|output| String::from_utf8(output.stdout).ok()).map(|name| name.trim().to_owned());
    name.filter(|name| !name.is_empty()).unwrap_or_else(|| "unknown".to_owned())
}
