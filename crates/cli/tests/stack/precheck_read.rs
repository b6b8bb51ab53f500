//! `precheck --read`: packages that `gatelodge-indexer` reads. A script takes the place of that program; the tests of
//! `tools/indexer` check that the program prints this JSON.

use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use super::support::{Run, TestDir};
use super::test_registry::wheel;
use super::{dir_with_index, package, tool};

/// A directory with a copy of the program in `bin`, next to no other program, and an empty directory `path` for `PATH`.
fn dir_with_program() -> TestDir {
    let dir = dir_with_index();
    std::fs::create_dir_all(dir.path("bin")).unwrap();
    std::fs::create_dir_all(dir.path("path")).unwrap();
    let (program, copy) = (env!("CARGO_BIN_EXE_gatelodge"), dir.path("bin/gatelodge"));
    std::fs::hard_link(program, &copy).or_else(|_| std::fs::copy(program, &copy).map(drop)).unwrap();
    dir
}

/// Writes a script that appends its arguments to `arguments`, prints `output` and exits with `code`.
fn write_indexer(dir: &TestDir, directory: &str, output: &str, code: u8) {
    dir.write("output", output);
    let (arguments, output) = (dir.path("arguments"), dir.path("output"));
    let script =
        format!("#!/bin/sh\necho \"$@\" >>'{}'\ncat '{}'\nexit {code}\n", arguments.display(), output.display());
    let path = format!("{directory}/gatelodge-indexer");
    dir.write(&path, &script);
    std::fs::set_permissions(dir.path(&path), std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// Runs `precheck` with a `PATH` that has no other `gatelodge-indexer`.
fn precheck(dir: &TestDir, args: &str) -> Run {
    let (program, path) = (dir.path("bin/gatelodge"), dir.path("path"));
    let command = format!("'{}' precheck --index i.glx {args}", program.display());
    dir.run_shell(&format!("PATH='{}':/usr/bin:/bin {command}", path.display()))
}

fn indexer_output(outcome: &str, facts: Option<&str>) -> String {
    let facts: Value = facts.map(|facts| serde_json::from_str(facts).unwrap()).unwrap_or_default();
    json!({"source": "npm", "package": "new", "version": "1.0.0", "outcome": outcome, "facts": facts}).to_string()
}

#[test]
fn precheck_without_read_starts_no_program() {
    let dir = dir_with_program();
    write_indexer(&dir, "bin", &indexer_output("tools", None), 0);
    assert_eq!(precheck(&dir, "npm:new").code, 1);
    assert!(!dir.path("arguments").exists());
}

#[test]
fn missing_indexer_is_an_error_that_says_how_to_install_it() {
    let dir = dir_with_program();
    // A program in the current directory does not count, nor does a file that is not executable.
    write_indexer(&dir, ".", &indexer_output("tools", None), 0);
    dir.write("path/gatelodge-indexer", "");
    for path in ["", "PATH= ", "PATH=: ", "PATH=.:path "] {
        let program = dir.path("bin/gatelodge");
        let run = match path {
            "" => precheck(&dir, "npm:new --read"),
            _ => dir.run_shell(&format!("{path}'{}' precheck --index i.glx npm:new --read", program.display())),
        };
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{path}: {}", run.stderr);
        assert!(run.stderr.contains("needs the program `gatelodge-indexer`"), "{}", run.stderr);
        assert!(run.stderr.contains("`cargo install --path tools/indexer`"), "{}", run.stderr);
    }
    assert!(!dir.path("arguments").exists());
}

#[test]
fn package_that_is_not_in_the_index_is_read_and_rated() {
    for directory in ["bin", "path"] {
        let dir = dir_with_program();
        let facts = package("npm", "new", &[tool("delete_it", "Destructive", &[])]);
        write_indexer(&dir, directory, &indexer_output("tools", Some(&facts)), 0);
        let run = precheck(&dir, "npm:new --read --json");
        assert_eq!(run.code, 0, "{}", run.stderr);
        let result: Value = serde_json::from_str(&run.stdout).unwrap();
        let server = &result["servers"][0];
        assert_eq!((&server["server"], &server["verdict"]), (&json!("npm:new"), &json!("connect-with-rule")));
        assert_eq!(server["version"], "1.0.0");
        assert!(server["rule"].as_str().unwrap().contains("delete_it"), "{server}");
        assert_eq!(dir.read("arguments"), "read -- npm:new\n");
    }
}

#[test]
fn exact_version_is_read_and_a_range_gets_the_newest() {
    let dir = dir_with_program();
    let facts = package("npm", "new", &[tool("get_it", "Read", &[])]);
    write_indexer(&dir, "bin", &indexer_output("tools", Some(&facts)), 0);
    for (package, argument, is_exact) in [
        ("npm:new@1.0.0", "npm:new@1.0.0", true),
        ("pypi:new==1.0.0", "pypi:new==1.0.0", true),
        ("npm:new@latest", "npm:new", true),
        ("npm:new@>=0.5", "npm:new", false),
        ("npm:new@^1.0.0", "npm:new", false),
        ("npm:new@1.0", "npm:new", false),
        ("npm:new@next", "npm:new", false),
        ("pypi:new>=0.5", "pypi:new", false),
    ] {
        let run = precheck(&dir, &format!("'{package}' --read"));
        assert_eq!(run.code, 0, "{package}: {}{}", run.stdout, run.stderr);
        let has_warning = run.stdout.contains("version 1.0.0 was read; another one may start");
        assert_eq!(has_warning, !is_exact, "{package}: {}", run.stdout);
        assert!(dir.read("arguments").ends_with(&format!("read -- {argument}\n")), "{package}");
    }
}

#[test]
fn facts_that_are_read_replace_those_of_the_index() {
    let dir = dir_with_program();
    let facts = package("npm", "@example/files", &[tool("run_it", "Execute", &[])]).replace("1.0.0", "2.0.0");
    write_indexer(&dir, "bin", &indexer_output("tools", Some(&facts)), 0);
    dir.write(
        "server.json",
        r#"{"packages": [{"registryType": "npm", "identifier": "@example/files", "version": "2.0.0"}]}"#,
    );
    for target in ["npm:@example/files", "server.json"] {
        let run = precheck(&dir, &format!("{target} --read"));
        assert!(run.stdout.contains("run_it") && !run.stdout.contains("list_files"), "{target}: {}", run.stdout);
    }
}

#[test]
fn package_that_a_bundle_starts_is_read() {
    let dir = dir_with_program();
    let manifest = json!({"manifest_version": "0.3", "name": "box", "version": "1.0.0", "tools": [{"name": "run_it"}],
        "server": {"type": "node", "mcp_config": {"command": "npx", "args": ["-y", "new@1.0.0"]}}});
    dir.write_bytes("x.mcpb", &wheel(&[("manifest.json", &manifest.to_string())]));
    let facts = |name: &str| package("npm", "new", &[tool(name, "Execute", &[])]);
    for (output, code, message) in [
        (indexer_output("tools", Some(&facts("run_it"))), 0, "box (npm:new): connect-with-rule"),
        (indexer_output("tools", Some(&facts("other"))), 1, "lists tools that were not found in the package"),
        (indexer_output("hostile", None), 1, "its archive is corrupt or malicious"),
    ] {
        write_indexer(&dir, "bin", &output, 0);
        let run = precheck(&dir, "x.mcpb --read");
        assert!(run.code == code && run.stdout.contains(message), "{message}: {}{}", run.stdout, run.stderr);
        assert!(dir.read("arguments").ends_with("read -- npm:new@1.0.0\n"));
    }
}

#[test]
fn incident_is_compared_with_the_version_that_was_read() {
    let dir = dir_with_program();
    for (version, code) in [("0.1.15", 1), ("0.1.29", 0)] {
        let facts = package("npm", "mcp-remote", &[tool("get_it", "Read", &[])]).replace("1.0.0", version);
        write_indexer(&dir, "bin", &indexer_output("tools", Some(&facts)), 0);
        let run = precheck(&dir, "npm:mcp-remote --read");
        assert!(run.code == code && run.stdout.contains("mcp-remote-cve-2025-6514"), "{version}: {}", run.stdout);
    }
}

#[test]
fn package_without_facts_is_ask_first_with_the_reason() {
    let dir = dir_with_program();
    for (outcome, reason) in [
        ("not-found", "the registry has no such package"),
        ("no-tools", "no tool was found"),
        ("too-large", "too large to be read completely"),
        ("something-new", "it could not be read"),
    ] {
        write_indexer(&dir, "bin", &indexer_output(outcome, None), 0);
        let run = precheck(&dir, "npm:@example/githubb --read");
        assert!(run.code == 1 && run.stdout.contains(reason), "{outcome}: {}", run.stdout);
        assert!(!run.stdout.contains("not in the index"), "{}", run.stdout);
        assert!(run.stdout.contains("has a similar name"), "{}", run.stdout);
    }
}

#[test]
fn failing_indexer_is_an_error() {
    let dir = dir_with_program();
    for (output, code, expected, message) in [
        ("", 4, 4, "cannot fetch `npm:new`"),
        ("", 2, 2, "refused to read `npm:new`"),
        ("", 5, 5, "failed for `npm:new`: exit status: 5"),
        ("garbage", 0, 5, "for `npm:new` is not valid"),
        ("{}", 0, 5, "for `npm:new` is not valid"),
        ("", 0, 5, "for `npm:new` is not valid"),
    ] {
        write_indexer(&dir, "bin", output, code);
        let run = precheck(&dir, "npm:new --read");
        assert_eq!((run.code, run.stdout.as_str()), (expected, ""), "{code}: {}", run.stderr);
        assert!(run.stderr.contains(message), "{message}: {}", run.stderr);
    }
}

#[test]
fn name_without_a_registry_is_refused() {
    let run = precheck(&dir_with_program(), "mail --read");
    assert!(run.code == 2 && run.stderr.contains("write `npm:mail` or `pypi:mail`"), "{}", run.stderr);
}
