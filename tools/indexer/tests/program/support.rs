//! Runs the program in a temporary directory.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use gatelodge_catalogue::{IndexedServer, PackageIndex};
use serde_json::{Value, json};

/// Output and exit code of a run.
#[derive(Debug)]
pub struct Run {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

/// Temporary directory that is removed when the test ends.
pub struct TestDir(tempfile::TempDir);

impl TestDir {
    pub fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary directory"))
    }

    /// A directory with the facts of four servers in `facts.jsonl`, and an index of them in `i.glx`.
    pub fn with_index() -> Self {
        let dir = Self::new();
        dir.write("facts.jsonl", facts());
        let run = dir.run(&["index", "facts.jsonl", "--date", "2026-11-16", "--out", "i.glx"]);
        assert_eq!(run.code, 0, "{}", run.stderr);
        dir
    }

    pub fn run(&self, args: &[&str]) -> Run {
        let output = Command::new(env!("CARGO_BIN_EXE_gatelodge-indexer"))
            .args(args)
            .current_dir(self.0.path())
            .env("NO_COLOR", "1")
            .env("XDG_DATA_HOME", self.path("share"))
            .env_remove("GATELODGE_DATA")
            .stdin(Stdio::null())
            .output()
            .expect("the program runs");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
        Run { code: output.status.code().unwrap_or(-1), stdout: text(output.stdout), stderr: text(output.stderr) }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), text).expect("a file in the temporary directory");
    }

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).expect("a file in the temporary directory")
    }

    pub fn index(&self, name: &str) -> PackageIndex {
        PackageIndex::open(&std::fs::read(self.path(name)).expect("an index file")).expect("an index")
    }
}

pub fn tool(name: &str, category: &str) -> Value {
    json!({"name": name, "parameters": [{"name": "path", "type": "string", "required": true}], "category": category,
        "confidence": 0.9, "signals": ["takes_path"], "flow": [], "hash": "0123456789abcdef"})
}

pub fn package(source: &str, name: &str, tools: &[Value]) -> String {
    json!({"source": source, "package": name, "version": "1.0.0", "date": "2026-11-01", "tools": tools}).to_string()
}

pub fn facts() -> String {
    [
        package("npm", "@example/github", &[tool("read_issue", "Read"), tool("delete_repository", "Destructive")]),
        package("npm", "@example/files", &[tool("list_files", "Read")]),
        package("pypi", "mail", &[tool("send_mail", "Write")]),
        package("pypi", "notes", &[tool("get_note", "Read")]),
    ]
    .join("\n")
}

/// Names of the packages of an index.
pub fn packages(index: &PackageIndex) -> Vec<String> {
    let name = |server: IndexedServer<'_>| format!("{}:{}", server.source().as_str(), server.package());
    index.servers().map(name).collect()
}
