#!/usr/bin/env python3
"""Checks the layering of the workspace.

Four tables define it: which of our crates a crate may use, which external crates it must not depend on
even indirectly, which modules of a crate may use which, and which calls belong at the edge. Each finding is
printed; any finding fails.

    layering.py                 checks this workspace
    layering.py --graph CRATE   prints which modules of a crate use which
    layering.py --self-test     tests that each of several deliberate violations in a small
                                workspace is found
"""

import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import module_graph

ROOT = Path(__file__).resolve().parent.parent

LIBRARIES = ["mutants", "json", "policy", "mcp", "catalogue", "clients", "store", "admin", "gateway", "server", "pharo"]

# Normal and build dependencies between our crates. Only test programs list `testkit`: other crates use it
# as a dev-dependency, which is not checked here.
MAY_USE = {
    "mutants": [],
    "json": ["mutants"],
    "policy": ["json", "mutants"],
    "mcp": ["json", "mutants"],
    "catalogue": ["policy", "json", "mutants"],
    "clients": ["json", "mutants"],
    "store": ["policy", "mutants"],
    # `mcp` for the revisions that a grant can require. Never `gateway`: the two meet in the store.
    "admin": ["store", "mcp", "policy", "json", "mutants"],
    "gateway": ["store", "catalogue", "mcp", "policy", "json", "mutants"],
    "server": ["gateway", "admin", "store", "catalogue", "policy", "mcp", "json", "mutants"],
    "pharo": ["mcp", "json", "mutants"],
    "indexer": ["catalogue", "policy", "json", "mutants"],
    "cli": LIBRARIES,
    "testkit": LIBRARIES + ["cli"],
    "bench": LIBRARIES + ["cli", "testkit"],
    "fuzz": LIBRARIES + ["cli", "testkit"],
}

PURE = ["mutants", "json", "policy", "mcp", "catalogue", "clients"]
RUNTIME = ["tokio", "async-std", "smol", "mio"]
HTTP = ["axum", "h2", "hyper", "reqwest", "ureq"]
SQL = ["libsqlite3-sys", "postgres", "rusqlite", "sqlx", "sqlx-core", "tokio-postgres"]
LOGGING = ["env_logger", "log", "tracing", "tracing-core"]
RANDOMNESS = ["fastrand", "getrandom", "rand", "rand_core"]
# Parsers of foreign source code, written in C. Only the indexer may contain them.
GRAMMARS = ["tree-sitter", "tree-sitter-javascript", "tree-sitter-python", "tree-sitter-typescript"]

# External crates that a crate must not depend on, even indirectly.
MUST_NOT_REACH = {crate_name: RUNTIME + HTTP + SQL + LOGGING + RANDOMNESS + GRAMMARS for crate_name in PURE} | {
    "store": HTTP + GRAMMARS,
    "admin": GRAMMARS,
    "gateway": GRAMMARS,
    "server": GRAMMARS,
    "cli": GRAMMARS,
}

# Accepted indirect dependencies: (the crate that depends on it, the crate) and the reason.
ACCEPTED = {
    ("ahash", "getrandom"): "seeds the hash maps inside jsonschema; no result depends on it",
}

# External crates that only some crates may depend on directly.
ONLY_IN = {dependency: ["store"] for dependency in SQL} | {
    "anyhow": ["cli", "indexer"],
    "clap": ["cli", "indexer"],
    "rmcp": ["gateway"],
} | {dependency: ["indexer"] for dependency in GRAMMARS}

# The modules of a crate in layers, lowest first. A module may use those of lower layers. Modules in one layer must not
# use each other, unless a tuple makes them one node. The crate root is above all layers: no module may use what it
# defines, and a name that it takes from a module counts as that module.
MODULE_LAYERS: dict[str, list[list[str | tuple[str, ...]]]] = {
    "admin": [["file_entry_names", "header_template", "name_suggestion", "server_url"], ["administration"],
              ["call_log_pruning", "grant_changes", "policy_versions", "server_changes", "tool_changes"]],
    "gateway": [
        ["active_policy", "runtime", "settings"], ["body"], ["telemetry"], ["upstream"], ["config_snapshot"],
        ["session"], ["refusal"], ["request_context"], ["reply"], ["responder"], ["call_recorder"], ["suspended_calls"],
        ["services"], ["upstream_session"], ["pipeline"], ["methods", "housekeeping"], ["aggregate"], ["client"],
        ["transport"],
    ],
    "policy": [["duration_text", "string_enum"], ["syntax"], ["call"], ["operators"], ["compile"], ["eval"], ["lint"], ["tools"]],
    "store": [["clock", "model"], ["audit_chain", "counters"], ["traits"], ["memory", "sqlite"], ["store"],
              ["conformance"]],
}

# Calls that belong at the edge. Grouped imports count: `use std::{env, fmt}` names the environment.
ONLY_AT_THE_EDGE = {
    "the environment": re.compile(r"\bstd::(env\b|\{[^;]*?\benv\b)"),
    "files": re.compile(r"\bstd::(fs\b|\{[^;]*?\bfs\b)"),
    "printing": re.compile(r"\b(e?println?|dbg)!"),
    "leaving the process": re.compile(r"\bprocess::(exit|abort)\b"),
    "the clock": re.compile(r"\b(SystemTime|Timestamp|Zoned)::now\b"),
}
NOT_IN_PURE = {
    "sockets": re.compile(r"\b(Tcp|Udp|Unix)(Stream|Listener|Socket|Datagram)\b"),
    "a monotonic clock": re.compile(r"\bInstant::now\b"),
}
# Who may prove that a message is allowed to go to a server: the reservation of a call, and a resource that the grant
# may watch. The trait is below both in the layers, so the compiler cannot hold it.
PERMIT_PROOF = re.compile(r"\bPermitProof\s+for\s+\w+")
PERMIT_PROOFS = {
    "crates/gateway/src/pipeline/reserve.rs": ["PermitProof for CallReservation"],
    "crates/gateway/src/upstream_session/resource_subscription.rs": ["PermitProof for AllowedResource"],
}
# Which protocol generation the client or the server speaks is known where a request enters and leaves. The steps of a
# call ask the request context what follows from it.
PROTOCOL_GENERATION = re.compile(
    r"\b(ProtocolGeneration|ProtocolTranslation|ClientProtocol|Stateful|Stateless|NotStateless|is_absent_in|supports_stateless"
    r"|is_local(\(\)|:)|local_session\(\)|to_(stateful|stateless)\w*|generation\(\)|translation\(\)|Revision::R\w+)")
WITHOUT_GENERATIONS = re.compile(r"crates/gateway/src/(pipeline|methods)(\.rs$|/)")
# The command line is the edge, and the testkit is for tests. `bench` and `fuzz` are outside `crates/` and `tools/`.
EDGE = ["cli", "testkit"]
# The modules of the indexer's program, by their first name below `src`. Its library is pure.
PROGRAM = {"indexer": ["main", "cli", "commands", "console_output", "exit", "file_io", "installed_index", "process_environment"]}
PURE_LIBRARIES = ["indexer"]
# Folders of packages outside `crates/`.
OTHER_FOLDERS = {"bench": Path("bench"), "fuzz": Path("fuzz"), "indexer": Path("tools/indexer")}
# A store on disk manages its own files. The composition root reads what a gateway starts with, but does not print or
# exit: other front ends use it, too. The variable that selects a mutant is read in test builds only.
EXEMPT = {"store": ["files"], "server": ["the environment", "files", "the clock"], "mutants": ["the environment"]}


def source_folder(root: Path, crate_name: str) -> Path:
    return root / OTHER_FOLDERS.get(crate_name, Path("crates") / crate_name)


def crate_folder(package: str) -> str:
    """Return the folder of a package: `gatelodge-json` is in `json`."""
    return "cli" if package == "gatelodge" else package.removeprefix("gatelodge-")


def cargo(root: Path, *arguments: str) -> str:
    done = subprocess.run(["cargo", *arguments], cwd=root, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"error: cargo {' '.join(arguments)} failed\n{done.stderr}")
    return done.stdout


def check_manifests(packages: list[dict], root: Path) -> list[str]:
    """Check what the manifests declare, on every platform and with every feature."""
    findings = []
    ours = {package["name"] for package in packages}
    for package in packages:
        name, crate_name = package["name"], crate_folder(package["name"])
        if crate_name not in MAY_USE or (name != "gatelodge" and not name.startswith("gatelodge-")):
            findings.append(f"`{name}` is not in the table of crates")
            continue
        home = OTHER_FOLDERS.get(crate_name, Path("crates") / crate_name)
        if Path(package["manifest_path"]).resolve() != (root / home / "Cargo.toml").resolve():
            findings.append(f"`{name}` is not in {home}")
        for dependency in package["dependencies"]:
            used = dependency["name"]
            if dependency["kind"] == "dev":
                continue
            if dependency.get("path") and used not in ours:
                findings.append(f"`{name}` uses `{used}`, a crate outside the workspace")
            if used in ours and crate_folder(used) not in MAY_USE[crate_name]:
                findings.append(f"`{name}` must not use `{used}`")
            if used in ONLY_IN and crate_name not in ONLY_IN[used]:
                findings.append(f"`{name}` must not use `{used}`; only {ONLY_IN[used]} may")
            # `cargo tree` is for this platform only; the manifest is for all.
            if used in MUST_NOT_REACH.get(crate_name, []):
                findings.append(f"`{name}` must not depend on `{used}`")
    return findings


def check_reach(name: str, tree: str) -> list[str]:
    """Check indirect dependencies: `tree` is the output of `cargo tree --prefix depth`."""
    findings = []
    path: list[str] = []
    for line in filter(None, tree.splitlines()):
        depth, dependency = re.match(r"(\d+)(\S+)", line).groups()
        del path[int(depth):]
        path.append(dependency)
        # Direct dependencies were checked in the manifests.
        indirect = len(path) > 2
        if indirect and dependency in MUST_NOT_REACH[crate_folder(name)] and tuple(path[-2:]) not in ACCEPTED:
            findings.append(f"`{name}` must not reach `{dependency}`: {' > '.join(path)}")
    return findings


def without_tests(text: str) -> str:
    """Remove comments and `#[cfg(test)]` modules, and keep the line numbers."""
    lines, in_tests, marked = [], False, False
    for line in text.splitlines():
        if in_tests:
            # In formatted code the closing brace of a top-level module is in the first column.
            in_tests = line != "}"
            line = ""
        elif marked and re.match(r"(pub )?mod \w+ \{$", line):
            in_tests, line = True, ""
        marked = line.strip() == "#[cfg(test)]" or (marked and line.startswith("#["))
        lines.append("" if line.lstrip().startswith("//") else line)
    return "\n".join(lines)


def check_lines(root: Path) -> list[str]:
    """Check the sources outside the edge, tests and examples."""
    findings = []
    for source in sorted([*root.glob("crates/*/src/**/*.rs"), *root.glob("tools/*/src/**/*.rs")]):
        place = source.relative_to(root)
        crate_name = place.parts[1]
        inside = place.parts[3:]
        if crate_name in EDGE or inside[-1] == "tests.rs" or "tests" in inside[:-1]:
            continue
        if inside[0].removesuffix(".rs") in PROGRAM.get(crate_name, []):
            continue
        text = without_tests(source.read_text(encoding="utf-8"))
        for proof in PERMIT_PROOF.findall(text):
            if " ".join(proof.split()) not in PERMIT_PROOFS.get(place.as_posix(), []):
                findings.append(f"{place}: `{proof}` would let messages through without a decision")
        if WITHOUT_GENERATIONS.match(place.as_posix()):
            for hit in PROTOCOL_GENERATION.finditer(without_comments(text)):
                line = text.count("\n", 0, hit.start()) + 1
                findings.append(f"{place}:{line}: `{hit[0]}` depends on the protocol generation; ask the request context")
        patterns = ONLY_AT_THE_EDGE | (NOT_IN_PURE if crate_name in PURE + PURE_LIBRARIES else {})
        for what, pattern in patterns.items():
            if what in EXEMPT.get(crate_name, []):
                continue
            for hit in pattern.finditer(text):
                line = text.count("\n", 0, hit.start()) + 1
                findings.append(f"{place}:{line}: {what} (`{hit[0].split()[0]}`) belongs at the edge")
    return findings


def without_comments(text: str) -> str:
    """Blank out line comments, so that positions stay the same."""
    return re.sub(r"//[^\n]*", lambda comment: " " * len(comment[0]), text)


def check(root: Path, module_layers: dict[str, list[list[str | tuple[str, ...]]]]) -> list[str]:
    metadata = cargo(root, "metadata", "--locked", "--no-deps", "--format-version=1")
    packages = json.loads(metadata)["packages"]
    findings = check_manifests(packages, root) + check_lines(root)
    for crate_name, layers in module_layers.items():
        findings += module_graph.check_modules(crate_name, source_folder(root, crate_name), layers, root)
    for name in [package["name"] for package in packages]:
        if crate_folder(name) in MUST_NOT_REACH:
            tree = cargo(root, "tree", "--locked", "--package", name, "--edges=normal",
                         "--all-features", "--prefix=depth", "--format={p}")
            findings += check_reach(name, tree)
    return findings


# ---- self-test -------------------------------------------------------------------------------

def crate(folder: Path, name: str, dependencies: str = "", source: str = "", file: str = "lib.rs") -> None:
    written = folder / "src" / file
    written.parent.mkdir(parents=True, exist_ok=True)
    manifest = f'[package]\nname = "{name}"\nversion = "1.0.0"\nedition = "2024"\n{dependencies}\n'
    (folder / "Cargo.toml").write_text(manifest)
    (folder / "src/lib.rs").touch()
    written.write_text(source)


def small_workspace(root: Path) -> None:
    """Write four valid crates, and some external crates in a folder, so that no network is needed."""
    (root / "Cargo.toml").write_text('[workspace]\nresolver = "3"\nmembers = ["crates/*", "tools/*"]\n')
    # The toolchain of this workspace, which is installed.
    shutil.copy(ROOT / "rust-toolchain.toml", root)
    (root / ".cargo").mkdir()
    (root / ".cargo/config.toml").write_text(
        '[source.crates-io]\nreplace-with = "folder"\n[source.folder]\ndirectory = "external"\n')
    external = {"getrandom": "", "ahash": 'getrandom = "1"', "between": 'getrandom = "1"', "tree-sitter": "",
              "parser": 'tree-sitter = "1"'}
    for dependency, uses in external.items():
        crate(root / "external" / dependency, dependency, f"[dependencies]\n{uses}")
        (root / "external" / dependency / ".cargo-checksum.json").write_text('{"files":{}}')
    crate(root / "crates/json", "gatelodge-json")
    crate(root / "crates/policy", "gatelodge-policy",
          '[dependencies]\ngatelodge-json = { path = "../json" }\nahash = "1"',
          "//! Says nothing.\n// std::env\n#[cfg(test)]\nmod tests {\n    fn f() { println!() }\n}\n")


    crate(root / "crates/cli", "gatelodge", POLICY_OF_CLI)
    crate(root / "tools/indexer", "gatelodge-indexer", '[dependencies]\ntree-sitter = "1"')
    # The program prints, its library does not.
    (root / "tools/indexer/src/main.rs").write_text("fn main() { println!() }\n")


POLICY_OF_CLI = '[dependencies]\ngatelodge-policy = { path = "../policy" }\n'
POLICY_ON_JSON = '[dependencies]\ngatelodge-json = { path = "../json" }\n'

# Deliberate violations, as arguments of `crate`, and part of the expected finding.
DELIBERATE = [
    (("crates/mcp", "gatelodge-mcp", '[dependencies]\ngatelodge-policy = { path = "../policy" }'),
     "`gatelodge-mcp` must not use `gatelodge-policy`"),
    (("crates/mcp", "gatelodge-mcp", '[build-dependencies]\ngatelodge-policy = { path = "../policy" }'),
     "`gatelodge-mcp` must not use `gatelodge-policy`"),
    (("crates/extra", "gatelodge-extra"), "`gatelodge-extra` is not in the table"),
    (("crates/extra", "json"), "`json` is not in the table"),
    (("crates/wire", "gatelodge-mcp"), "is not in crates/mcp"),
    (("crates/policy", "gatelodge-policy", POLICY_ON_JSON + 'between = "1"'),
     "gatelodge-policy > between > getrandom"),
    (("crates/policy", "gatelodge-policy", POLICY_ON_JSON + 'getrandom = "1"'),
     "`gatelodge-policy` must not depend on `getrandom`"),
    (("crates/policy", "gatelodge-policy",
      "[target.'cfg(windows)'.dependencies]\ngetrandom = { version = \"1\", optional = true }"),
     "`gatelodge-policy` must not depend on `getrandom`"),
    # No parser of foreign source code in the gateway, even indirectly.
    (("crates/cli", "gatelodge", POLICY_OF_CLI + 'parser = "1"'), "gatelodge > parser > tree-sitter"),
    (("crates/store", "gatelodge-store", '[dependencies]\nparser = "1"'), "gatelodge-store > parser > tree-sitter"),
    (("crates/pharo", "gatelodge-pharo", '[dependencies]\ntree-sitter = "1"'), "only ['indexer'] may"),
    (("tools/indexer", "gatelodge-indexer", "", "fn f() { println!() }\n"), "tools/indexer/src/lib.rs:1: printing"),
    (("tools/indexer", "gatelodge-indexer", "", "fn f() { Instant::now(); }\n"), "a monotonic clock"),
    (("tools/json", "gatelodge-other"), "`gatelodge-other` is not in the table"),
    (("crates/json", "gatelodge-json", "", "use std::{\n    env,\n    fmt,\n};\n"), "lib.rs:1: the environment"),
    (("crates/json", "gatelodge-json", "", "\nfn f() { std::env::var(\"A\"); }\n"), "lib.rs:2: the environment"),
    (("crates/json", "gatelodge-json", "", "use std::fs::File;\n"), "lib.rs:1: files"),
    (("crates/json", "gatelodge-json", "", "fn f() { eprintln!(); }\n"), "lib.rs:1: printing"),
    (("crates/json", "gatelodge-json", "", "fn f() { std::process::exit(1) }\n"), "leaving the process"),
    (("crates/json", "gatelodge-json", "", "#[cfg(test)]\nmod tests {\n}\nfn f() { SystemTime::now(); }\n"),
     "lib.rs:4: the clock"),
    (("crates/json", "gatelodge-json", "", "fn f() { Instant::now(); }\n"), "a monotonic clock"),
    (("crates/json", "gatelodge-json", "", "impl PermitProof for A {}\n"), "would let messages through"),
    (("crates/server", "gatelodge-server", "", "fn f() { std::env::var(\"A\"); println!(); }\n"), "lib.rs:1: printing"),
    (("crates/gateway", "gatelodge-gateway", "", "fn f() {\n    ctx.translation();\n}\n", "pipeline/reserve.rs"),
     "reserve.rs:2: `translation()` depends on the protocol generation"),
    (("crates/gateway", "gatelodge-gateway", "", "fn f() { reply(ctx.generation()); }\n", "methods/tools/call.rs"),
     "`generation()` depends on the protocol generation"),
    (("crates/gateway", "gatelodge-gateway", "", "fn f() { matches!(found, NotStateless); }\n", "methods.rs"),
     "`NotStateless` depends on the protocol generation"),
    (("crates/gateway", "gatelodge-gateway", "", "fn f() { S { is_local: false } }\n", "methods/initialize.rs"),
     "`is_local:` depends on the protocol generation"),
    (("crates/gateway", "gatelodge-gateway", "", "fn f() { ctx.local_session(); }\n", "methods/initialize.rs"),
     "`local_session()` depends on the protocol generation"),
    (("crates/gateway", "gatelodge-gateway", "", "fn f() { to_stateful(text); }\n", "pipeline.rs"),
     "`to_stateful` depends on the protocol generation"),
    (("crates/gateway", "gatelodge-gateway", "", "// Stateless\nuse mcp::ClientProtocol;\n", "methods.rs"),
     "methods.rs:2: `ClientProtocol` depends on the protocol generation"),
    (("crates/policy", "gatelodge-policy", POLICY_ON_JSON, "mod extra {}\n"), "module `extra` is in no layer"),
]


def self_test() -> None:
    def findings_of(*violation: str) -> list[str]:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder).resolve()
            small_workspace(root)
            if violation:
                crate(root / violation[0], *violation[1:])
            cargo(root, "generate-lockfile", "--offline")
            return check(root, {"policy": []})

    faults = []
    if clean := findings_of():
        faults.append(f"a clean workspace has findings: {clean}")
    for violation, expected in DELIBERATE:
        findings = findings_of(*violation)
        if len(findings) != 1 or expected not in findings[0]:
            faults.append(f"violation {violation}\n  expected: {expected}\n  found: {findings}")
    with tempfile.TemporaryDirectory() as folder:
        module_violations, module_faults = module_graph.self_test(Path(folder).resolve())
    faults += module_faults
    if faults:
        sys.exit("\n".join(faults))
    print(f"layering: {len(DELIBERATE) + module_violations} deliberate violations found")


def main() -> None:
    if sys.argv[1:] == ["--self-test"]:
        self_test()
    elif sys.argv[1:2] == ["--graph"] and sys.argv[2:] and sys.argv[2] in MAY_USE:
        print(module_graph.graph_text(source_folder(ROOT, sys.argv[2]), MODULE_LAYERS.get(sys.argv[2], [])))
    elif sys.argv[1:]:
        sys.exit(__doc__)
    elif findings := check(ROOT, MODULE_LAYERS):
        sys.exit("\n".join(findings))
    else:
        print("layering: in order")


main()
