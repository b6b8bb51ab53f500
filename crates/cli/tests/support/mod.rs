//! Runs the real program, in a folder of its own where it needs files.

#![allow(dead_code, reason = "each test file uses its own part")]

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

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

    /// Runs with variables in the environment.
    pub fn run_with(&self, variables: &[(&str, &str)], args: &[&str]) -> Run {
        self.finish(Command::new(env!("CARGO_BIN_EXE_gatelodge")).args(args).envs(variables.iter().copied()))
    }

    /// Runs a line of a shell, as a person would paste it.
    pub fn paste(&self, line: &str) -> Run {
        self.finish(Command::new("bash").args(["-c", line]))
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Starts a gateway and waits until it is ready; `data` is where it keeps its data.
    pub fn start(&self, data: &str, variables: &[(&str, &str)], args: &[&str]) -> Running {
        let note = self.path(data).join("gateway.json");
        let _ = std::fs::remove_file(&note);
        let (out, err) = (self.path(&format!("{data}.out")), self.path(&format!("{data}.err")));
        let child = Command::new(env!("CARGO_BIN_EXE_gatelodge"))
            .args(args)
            .current_dir(self.0.path())
            .env("NO_COLOR", "1")
            .env("TZ", "UTC")
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .stdout(File::create(&out).expect("a file"))
            .stderr(File::create(&err).expect("a file"))
            .spawn()
            .expect("the program starts");
        let running = Running { child, note, out, err };
        until("the gateway is ready", || running.note.exists() && running.log().contains("health, readiness"));
        if args.first() == Some(&"up") {
            // What to try is printed once it can be tried.
            until("everything is printed", || running.printed().contains("Stop with Ctrl-C."));
        }
        running
    }

    /// Runs where the output can take nothing.
    pub fn run_to_full_disk(&self, args: &[&str]) -> Run {
        let script = r#"exec "$0" "$@" > /dev/full"#;
        self.finish(Command::new("bash").args(["-c", script, env!("CARGO_BIN_EXE_gatelodge")]).args(args))
    }

    /// Runs with a text on standard input.
    pub fn run_with_input(&self, args: &[&str], input: &str) -> Run {
        self.write(".input", input);
        let file = File::open(self.0.path().join(".input")).expect("a file in the temporary folder");
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
        let output = command
            .current_dir(self.0.path())
            .env("NO_COLOR", "1")
            .env("TZ", "UTC")
            .env("XDG_DATA_HOME", self.path("share"))
            .env_remove("GATELODGE_CONFIG")
            .env_remove("GATELODGE_DATA")
            .stdin(input)
            .output()
            .expect("the program runs");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
        Run { code: output.status.code().unwrap_or(-1), stdout: text(output.stdout), stderr: text(output.stderr) }
    }
}

/// A gateway that runs until it is stopped or dropped.
pub struct Running {
    child: Child,
    note: PathBuf,
    out: PathBuf,
    err: PathBuf,
}

impl Running {
    /// The address of a server behind it.
    pub fn url(&self, server: &str) -> String {
        let note: serde_json::Value = serde_json::from_str(&read(&self.note)).expect("a note");
        format!("http://{}/mcp/{server}", note.get("listen").and_then(|listen| listen.as_str()).expect("an address"))
    }

    /// What it printed.
    pub fn printed(&self) -> String {
        read(&self.out)
    }

    /// What it logged.
    pub fn log(&self) -> String {
        read(&self.err)
    }

    pub fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([&format!("-{name}"), &pid]).status().expect("kill runs").success());
    }

    /// Stops it as a service manager would, and gives its exit code.
    pub fn stop(mut self) -> i32 {
        self.signal("TERM");
        self.child.wait().expect("it ends").code().unwrap_or(-1)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// Waits until something is so.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(20), "not within 20 s: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
