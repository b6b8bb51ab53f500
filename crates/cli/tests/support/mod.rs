//! Runs the real program, in a folder of its own where it needs files.

use std::path::PathBuf;
use std::process::{Command, Stdio};

/// What a run printed, and how it ended.
#[derive(Debug)]
pub struct Run {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

/// Runs the program where nothing is.
pub fn gatelodge(args: &[&str]) -> Run {
    house().run(args)
}

/// The path of a file under `examples/`.
pub fn example(name: &str) -> String {
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "..", "..", "examples", name].iter().collect();
    path.display().to_string()
}

/// A folder that goes when the test ends.
pub struct House(tempfile::TempDir);

pub fn house() -> House {
    House(tempfile::tempdir().expect("a temporary folder"))
}

impl House {
    pub fn write(&self, name: &str, text: &str) {
        self.write_bytes(name, text.as_bytes());
    }

    pub fn write_bytes(&self, name: &str, text: &[u8]) {
        std::fs::write(self.0.path().join(name), text).expect("a file in the temporary folder");
    }

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.0.path().join(name)).expect("a file in the temporary folder")
    }

    pub fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.0.path()).expect("the temporary folder");
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect()
    }

    pub fn run(&self, args: &[&str]) -> Run {
        self.finish(Command::new(env!("CARGO_BIN_EXE_gatelodge")).args(args))
    }

    /// Runs where no file can grow beyond a kilobyte.
    pub fn run_limited(&self, args: &[&str]) -> Run {
        let script = r#"trap "" XFSZ; ulimit -f 1; exec "$0" "$@""#;
        self.finish(Command::new("bash").args(["-c", script, env!("CARGO_BIN_EXE_gatelodge")]).args(args))
    }

    /// Runs where the output can take nothing.
    pub fn run_to_full_disk(&self, args: &[&str]) -> Run {
        let script = r#"exec "$0" "$@" > /dev/full"#;
        self.finish(Command::new("bash").args(["-c", script, env!("CARGO_BIN_EXE_gatelodge")]).args(args))
    }

    /// Runs with a text on standard input.
    pub fn run_with_input(&self, args: &[&str], input: &str) -> Run {
        self.write(".input", input);
        let file = std::fs::File::open(self.0.path().join(".input")).expect("a file in the temporary folder");
        self.finish_with(Command::new(env!("CARGO_BIN_EXE_gatelodge")).args(args), file.into())
    }

    /// Takes everybody's leave to write a file.
    pub fn protect(&self, name: &str) {
        let path = self.0.path().join(name);
        let mut permissions = std::fs::metadata(&path).expect("a file in the temporary folder").permissions();
        permissions.set_readonly(true);
        std::fs::set_permissions(&path, permissions).expect("a file of ours");
    }

    fn finish(&self, command: &mut Command) -> Run {
        self.finish_with(command, Stdio::null())
    }

    fn finish_with(&self, command: &mut Command, input: Stdio) -> Run {
        let output =
            command.current_dir(self.0.path()).env("NO_COLOR", "1").stdin(input).output().expect("the program runs");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
        Run { code: output.status.code().unwrap_or(-1), stdout: text(output.stdout), stderr: text(output.stderr) }
    }
}
