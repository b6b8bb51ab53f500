//! `read`: the JSON that `gatelodge precheck --read` parses.

use serde_json::{Value, json};

use crate::support::TestDir;
use crate::test_registry::{TestRegistry, tarball, wheel};

const PYTHON_SERVER: &str =
    "from fastmcp import FastMCP\nmcp = FastMCP('x')\n@mcp.tool()\ndef get_book(title: str):\n    'Secret words.'\n";

#[test]
fn package_is_read_and_its_facts_are_printed() {
    let registry = TestRegistry::serve([("book-mcp", wheel(&[("book/server.py", PYTHON_SERVER)]))]);
    let dir = TestDir::new();
    for package in ["pypi:book-mcp", "pypi:Book_MCP", "pypi:book-mcp==1.0"] {
        let run = dir.run(&["read", package, "--index", &registry.address()]);
        assert_eq!(run.code, 0, "{package}: {}", run.stderr);
        let output: Value = serde_json::from_str(&run.stdout).expect("JSON");
        assert_eq!((&output["outcome"], &output["version"]), (&json!("tools"), &json!("1.0")), "{package}");
        assert_eq!(output["facts"]["tools"][0]["name"], "get_book", "{package}");
        assert!(!run.stdout.contains("Secret"), "{}", run.stdout);
    }
    // No file is left.
    assert_eq!(std::fs::read_dir(dir.path("")).unwrap().count(), 0);
}

#[test]
fn npm_package_is_read_in_its_newest_or_an_exact_version() {
    let code = "import { McpServer } from \"@modelcontextprotocol/sdk/server/mcp.js\";\nconst server = new \
                McpServer({ name: \"x\" });\nserver.tool(\"get_book\", {}, async () => ({}));\n";
    let manifest = r#"{"name": "book-mcp", "version": "1.0.0", "main": "index.js"}"#;
    let files = [("package/package.json", manifest), ("package/index.js", code)];
    let registry = TestRegistry::serve([("book-mcp", tarball(&files))]);
    for package in ["npm:book-mcp", "npm:book-mcp@1.0.0"] {
        let run = TestDir::new().run(&["read", package, "--index", &registry.npm_address()]);
        assert_eq!(run.code, 0, "{package}: {}", run.stderr);
        let output: Value = serde_json::from_str(&run.stdout).expect("JSON");
        assert_eq!(output["facts"]["tools"][0]["name"], "get_book", "{package}: {output}");
    }
}

#[test]
fn package_without_facts_has_an_outcome() {
    let registry = TestRegistry::serve([("plain", wheel(&[("plain.py", "print(1)\n")]))]);
    let dir = TestDir::new();
    let cases = [("pypi:plain", "no-mcp"), ("pypi:missing", "not-found"), ("pypi:plain==9.9", "no-files")];
    for (package, outcome) in cases {
        let run = dir.run(&["read", package, "--index", &registry.address()]);
        assert_eq!(run.code, 0, "{package}: {}", run.stderr);
        let output: Value = serde_json::from_str(&run.stdout).expect("JSON");
        assert_eq!((&output["outcome"], &output["facts"]), (&json!(outcome), &Value::Null), "{package}");
    }
}

#[test]
fn name_without_a_registry_or_with_a_range_is_refused() {
    let dir = TestDir::new();
    for package in ["book-mcp", "pypi:book-mcp>=1.0", "https://a.example.com/?k=hunter2", "../x"] {
        let run = dir.run(&["read", package, "--index", "http://127.0.0.1:1"]);
        assert!(run.code == 2 && run.stderr.contains("use `npm:name@1.0.0`"), "{package}: {}", run.stderr);
        assert!(!run.stderr.contains("hunter2"), "{}", run.stderr);
    }
}

#[test]
fn registry_that_does_not_answer_is_unreachable() {
    let run = TestDir::new().run(&["read", "pypi:book-mcp", "--index", "http://127.0.0.1:1"]);
    assert!(run.code == 4 && run.stdout.is_empty(), "{}", run.stderr);
}
