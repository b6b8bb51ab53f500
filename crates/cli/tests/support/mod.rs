//! Runs the real program in a temporary directory.

#![allow(dead_code, reason = "each test file uses its own part")]

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Output and exit code of a finished run.
#[derive(Debug)]
pub struct Run {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

/// Runs the program in an empty directory.
pub fn gatelodge(args: &[&str]) -> Run {
    TestDir::new().run(args)
}

/// Path of a file under `examples/`.
pub fn example(name: &str) -> String {
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "..", "..", "examples", name].iter().collect();
    path.display().to_string()
}

/// Temporary directory that is removed when the test ends.
pub struct TestDir(tempfile::TempDir);

impl TestDir {
    pub fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary directory"))
    }

    pub fn write(&self, name: &str, text: &str) {
        self.write_bytes(name, text.as_bytes());
    }

    pub fn write_bytes(&self, name: &str, text: &[u8]) {
        std::fs::write(self.0.path().join(name), text).expect("a file in the temporary directory");
    }

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.0.path().join(name)).expect("a file in the temporary directory")
    }

    pub fn file_names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.0.path()).expect("the temporary directory");
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect()
    }

    pub fn run(&self, args: &[&str]) -> Run {
        self.run_command(Command::new(env!("CARGO_BIN_EXE_gatelodge")).args(args))
    }

    /// Runs with a limit on the size of written files of one kilobyte, like on a full disk.
    pub fn run_with_file_size_limit(&self, args: &[&str]) -> Run {
        let script = r#"trap "" XFSZ; ulimit -f 1; exec "$0" "$@""#;
        self.run_command(Command::new("bash").args(["-c", script, env!("CARGO_BIN_EXE_gatelodge")]).args(args))
    }

    /// Runs with additional environment variables.
    pub fn run_with(&self, variables: &[(&str, &str)], args: &[&str]) -> Run {
        self.run_command(Command::new(env!("CARGO_BIN_EXE_gatelodge")).args(args).envs(variables.iter().copied()))
    }

    /// Runs a shell command, as pasted into a terminal.
    pub fn run_shell(&self, line: &str) -> Run {
        self.run_command(Command::new("bash").args(["-c", line]))
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Starts a gateway with the data directory `data`, and waits until it is ready.
    pub fn start(&self, data: &str, variables: &[(&str, &str)], args: &[&str]) -> RunningGateway {
        let status_file = self.path(data).join("gateway.json");
        let _ = std::fs::remove_file(&status_file);
        let (stdout_file, stderr_file) = (self.path(&format!("{data}.out")), self.path(&format!("{data}.err")));
        let child = Command::new(env!("CARGO_BIN_EXE_gatelodge"))
            .args(args)
            .current_dir(self.0.path())
            .env("NO_COLOR", "1")
            .env("TZ", "UTC")
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .stdout(File::create(&stdout_file).expect("a file"))
            .stderr(File::create(&stderr_file).expect("a file"))
            .spawn()
            .expect("the program starts");
        let running = RunningGateway { child, status_file, stdout_file, stderr_file };
        wait_until("the gateway is ready", || {
            running.status_file.exists() && running.log().contains("health, readiness")
        });
        if args.first() == Some(&"up") {
            // `up` prints the commands to try only after the servers are ready.
            wait_until("everything is printed", || running.stdout().contains("Stop with Ctrl-C."));
        }
        running
    }

    /// Runs with a standard output on which every write fails.
    pub fn run_to_full_disk(&self, args: &[&str]) -> Run {
        let script = r#"exec "$0" "$@" > /dev/full"#;
        self.run_command(Command::new("bash").args(["-c", script, env!("CARGO_BIN_EXE_gatelodge")]).args(args))
    }

    /// Runs with `input` on standard input.
    pub fn run_with_input(&self, args: &[&str], input: &str) -> Run {
        self.write(".input", input);
        let file = File::open(self.0.path().join(".input")).expect("a file in the temporary directory");
        self.run_command_with_stdin(Command::new(env!("CARGO_BIN_EXE_gatelodge")).args(args), file.into())
    }

    /// Makes a file read-only for all users.
    pub fn make_read_only(&self, name: &str) {
        let path = self.0.path().join(name);
        let mut permissions = std::fs::metadata(&path).expect("a file in the temporary directory").permissions();
        permissions.set_readonly(true);
        std::fs::set_permissions(&path, permissions).expect("a file of ours");
    }

    fn run_command(&self, command: &mut Command) -> Run {
        self.run_command_with_stdin(command, Stdio::null())
    }

    fn run_command_with_stdin(&self, command: &mut Command, input: Stdio) -> Run {
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

/// A gateway process, killed when this is dropped.
pub struct RunningGateway {
    child: Child,
    status_file: PathBuf,
    stdout_file: PathBuf,
    stderr_file: PathBuf,
}

impl RunningGateway {
    /// URL of the endpoint of `server`.
    pub fn url(&self, server: &str) -> String {
        let status_file: serde_json::Value = serde_json::from_str(&read(&self.status_file)).expect("a status file");
        format!(
            "http://{}/mcp/{server}",
            status_file.get("listen").and_then(|listen| listen.as_str()).expect("an address")
        )
    }

    /// Standard output so far.
    pub fn stdout(&self) -> String {
        read(&self.stdout_file)
    }

    /// Log (standard error) so far.
    pub fn log(&self) -> String {
        read(&self.stderr_file)
    }

    pub fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([&format!("-{name}"), &pid]).status().expect("kill runs").success());
    }

    /// Stops the gateway as a service manager does, with SIGTERM, and returns its exit code.
    pub fn stop(mut self) -> i32 {
        self.signal("TERM");
        self.child.wait().expect("it ends").code().unwrap_or(-1)
    }
}

impl Drop for RunningGateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// Polls `condition` until it holds; fails the test after 20 seconds.
pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(20), "not within 20 s: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
