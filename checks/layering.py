#!/usr/bin/env python3
"""Checks who may use whom.

Three tables say what holds: which of our crates a crate may use, which guests it must not reach
by any road, and which lines belong at the rim. Each finding is printed; any finding fails.

    layering.py               checks this workspace
    layering.py --self-test   plants one violation after another in a small workspace and
                           fails unless each is found
"""

import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

ROOMS = ["mutants", "json", "policy", "mcp", "catalogue", "store", "gateway", "console", "pharo"]

# Normal and build dependencies between our crates. `testkit` is in no list but those of programs
# that only test: it is used from `tests/`, as a dev-dependency, which is not looked at here.
MAY_USE = {
    "mutants": [],
    "json": ["mutants"],
    "policy": ["json", "mutants"],
    "mcp": ["json", "mutants"],
    "catalogue": ["mcp", "policy", "json", "mutants"],
    "store": ["policy", "mutants"],
    "gateway": ["store", "catalogue", "mcp", "policy", "json", "mutants"],
    "console": ["store", "catalogue", "policy", "json", "mutants"],
    "pharo": ["mcp", "json", "mutants"],
    "indexer": ["catalogue", "policy", "json", "mutants"],
    "cli": ROOMS,
    "testkit": ROOMS + ["cli"],
    "bench": ROOMS + ["cli", "testkit"],
    "fuzz": ROOMS + ["cli", "testkit"],
}

PURE = ["mutants", "json", "policy", "mcp", "catalogue"]
RUNTIME = ["tokio", "async-std", "smol", "mio"]
HTTP = ["axum", "h2", "hyper", "reqwest", "ureq"]
SQL = ["libsqlite3-sys", "postgres", "rusqlite", "sqlx", "sqlx-core", "tokio-postgres"]
LOGGING = ["env_logger", "log", "tracing", "tracing-core"]
CHANCE = ["fastrand", "getrandom", "rand", "rand_core"]
# Parsers of foreign source code, in C. Only the indexer has them.
GRAMMARS = ["tree-sitter", "tree-sitter-javascript", "tree-sitter-python", "tree-sitter-typescript"]

# Guests that a crate reaches by no road at all, however many crates lie between.
MUST_NOT_REACH = {room: RUNTIME + HTTP + SQL + LOGGING + CHANCE + GRAMMARS for room in PURE} | {
    "store": HTTP + GRAMMARS,
    "gateway": GRAMMARS,
    "cli": GRAMMARS,
}

# Roads to such a guest that are accepted: (who brings it in, the guest) and why.
ACCEPTED = {
    ("ahash", "getrandom"): "seeds the hash maps inside jsonschema; no answer depends on it",
}

# Guests that only some crates may name in their manifest.
ONLY_IN = {guest: ["store"] for guest in SQL} | {
    "anyhow": ["cli", "indexer"],
    "clap": ["cli", "indexer"],
    "rmcp": ["gateway"],
} | {guest: ["indexer"] for guest in GRAMMARS}

# Lines that belong at the rim. Grouped imports count: `use std::{env, fmt}` names the environment.
AT_THE_RIM = {
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
# The command line is the rim, and the testkit is only tests. `bench` and `fuzz` lie outside `crates/` and `tools/`.
RIM = ["cli", "testkit"]
# The modules of the indexer's program, by their first name below `src`. Its library is pure.
PROGRAM = {"indexer": ["main", "cli", "commands", "data_dir", "environment", "exit", "file", "output"]}
PURE_LIBRARIES = ["indexer"]
# Folders of packages that do not live below `crates/`.
HOMES = {"bench": Path("bench"), "fuzz": Path("fuzz"), "indexer": Path("tools/indexer")}
# A store on disk looks after its own files. The variable that selects a mutant is read in test builds only.
MAY_SAY = {"store": ["files"], "mutants": ["the environment"]}


def room_of(package: str) -> str:
    """The folder's name for a package of ours: `gatelodge-json` lives in `json`."""
    return "cli" if package == "gatelodge" else package.removeprefix("gatelodge-")


def cargo(root: Path, *arguments: str) -> str:
    done = subprocess.run(["cargo", *arguments], cwd=root, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"error: cargo {' '.join(arguments)} failed\n{done.stderr}")
    return done.stdout


def check_manifests(packages: list[dict], root: Path) -> list[str]:
    """What the manifests declare, on every platform and with every feature."""
    findings = []
    ours = {package["name"] for package in packages}
    for package in packages:
        name, room = package["name"], room_of(package["name"])
        if room not in MAY_USE or (name != "gatelodge" and not name.startswith("gatelodge-")):
            findings.append(f"`{name}` is not in the table of rooms")
            continue
        home = HOMES.get(room, Path("crates") / room)
        if Path(package["manifest_path"]).resolve() != (root / home / "Cargo.toml").resolve():
            findings.append(f"`{name}` does not live in {home}")
        for dependency in package["dependencies"]:
            used = dependency["name"]
            if dependency["kind"] == "dev":
                continue
            if dependency.get("path") and used not in ours:
                findings.append(f"`{name}` uses `{used}`, a crate outside the workspace")
            if used in ours and room_of(used) not in MAY_USE[room]:
                findings.append(f"`{name}` must not use `{used}`")
            if used in ONLY_IN and room not in ONLY_IN[used]:
                findings.append(f"`{name}` must not use `{used}`; only {ONLY_IN[used]} may")
            # The tree below is the one of this platform; the manifest speaks for all.
            if used in MUST_NOT_REACH.get(room, []):
                findings.append(f"`{name}` must not know `{used}`")
    return findings


def check_reach(name: str, tree: str) -> list[str]:
    """What a crate reaches: `tree` is the answer of `cargo tree --prefix depth`."""
    findings = []
    road: list[str] = []
    for line in filter(None, tree.splitlines()):
        depth, guest = re.match(r"(\d+)(\S+)", line).groups()
        del road[int(depth):]
        road.append(guest)
        # What the crate names itself, the manifests have shown already.
        indirect = len(road) > 2
        if indirect and guest in MUST_NOT_REACH[room_of(name)] and tuple(road[-2:]) not in ACCEPTED:
            findings.append(f"`{name}` must not reach `{guest}`: {' > '.join(road)}")
    return findings


def without_tests(text: str) -> str:
    """Leaves out comments and `#[cfg(test)]` modules; the line numbers stay."""
    lines, in_tests, marked = [], False, False
    for line in text.splitlines():
        if in_tests:
            # Formatted code closes a module of the file with a brace in the first column.
            in_tests = line != "}"
            line = ""
        elif marked and re.match(r"(pub )?mod \w+ \{$", line):
            in_tests, line = True, ""
        marked = line.strip() == "#[cfg(test)]" or (marked and line.startswith("#["))
        lines.append("" if line.lstrip().startswith("//") else line)
    return "\n".join(lines)


def check_lines(root: Path) -> list[str]:
    """What the sources say, outside the rim and outside tests and examples."""
    findings = []
    for source in sorted([*root.glob("crates/*/src/**/*.rs"), *root.glob("tools/*/src/**/*.rs")]):
        place = source.relative_to(root)
        room = place.parts[1]
        inside = place.parts[3:]
        if room in RIM or inside[-1] == "tests.rs" or "tests" in inside[:-1]:
            continue
        if inside[0].removesuffix(".rs") in PROGRAM.get(room, []):
            continue
        text = without_tests(source.read_text(encoding="utf-8"))
        patterns = AT_THE_RIM | (NOT_IN_PURE if room in PURE + PURE_LIBRARIES else {})
        for what, pattern in patterns.items():
            if what in MAY_SAY.get(room, []):
                continue
            for hit in pattern.finditer(text):
                line = text.count("\n", 0, hit.start()) + 1
                findings.append(f"{place}:{line}: {what} (`{hit[0].split()[0]}`) belongs at the rim")
    return findings


def check(root: Path) -> list[str]:
    metadata = cargo(root, "metadata", "--locked", "--no-deps", "--format-version=1")
    packages = json.loads(metadata)["packages"]
    findings = check_manifests(packages, root) + check_lines(root)
    for name in [package["name"] for package in packages]:
        if room_of(name) in MUST_NOT_REACH:
            tree = cargo(root, "tree", "--locked", "--package", name, "--edges=normal",
                         "--all-features", "--prefix=depth", "--format={p}")
            findings += check_reach(name, tree)
    return findings


# ---- self-test -------------------------------------------------------------------------------

def crate(folder: Path, name: str, dependencies: str = "", source: str = "") -> None:
    (folder / "src").mkdir(parents=True, exist_ok=True)
    manifest = f'[package]\nname = "{name}"\nversion = "1.0.0"\nedition = "2024"\n{dependencies}\n'
    (folder / "Cargo.toml").write_text(manifest)
    (folder / "src/lib.rs").write_text(source)


def small_workspace(root: Path) -> None:
    """Four crates in order, and some guests from a folder, so that no network is needed."""
    (root / "Cargo.toml").write_text('[workspace]\nresolver = "3"\nmembers = ["crates/*", "tools/*"]\n')
    # The same toolchain as outside: it is the one that is there.
    shutil.copy(ROOT / "rust-toolchain.toml", root)
    (root / ".cargo").mkdir()
    (root / ".cargo/config.toml").write_text(
        '[source.crates-io]\nreplace-with = "folder"\n[source.folder]\ndirectory = "guests"\n')
    guests = {"getrandom": "", "ahash": 'getrandom = "1"', "between": 'getrandom = "1"', "tree-sitter": "",
              "parser": 'tree-sitter = "1"'}
    for guest, uses in guests.items():
        crate(root / "guests" / guest, guest, f"[dependencies]\n{uses}")
        (root / "guests" / guest / ".cargo-checksum.json").write_text('{"files":{}}')
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

# What is planted, as arguments of `crate`, and words of the finding that must come.
PLANTED = [
    (("crates/mcp", "gatelodge-mcp", '[dependencies]\ngatelodge-policy = { path = "../policy" }'),
     "`gatelodge-mcp` must not use `gatelodge-policy`"),
    (("crates/mcp", "gatelodge-mcp", '[build-dependencies]\ngatelodge-policy = { path = "../policy" }'),
     "`gatelodge-mcp` must not use `gatelodge-policy`"),
    (("crates/extra", "gatelodge-extra"), "`gatelodge-extra` is not in the table"),
    (("crates/extra", "json"), "`json` is not in the table"),
    (("crates/wire", "gatelodge-mcp"), "does not live in crates/mcp"),
    (("crates/policy", "gatelodge-policy", POLICY_ON_JSON + 'between = "1"'),
     "gatelodge-policy > between > getrandom"),
    (("crates/policy", "gatelodge-policy", POLICY_ON_JSON + 'getrandom = "1"'),
     "`gatelodge-policy` must not know `getrandom`"),
    (("crates/policy", "gatelodge-policy",
      "[target.'cfg(windows)'.dependencies]\ngetrandom = { version = \"1\", optional = true }"),
     "`gatelodge-policy` must not know `getrandom`"),
    # No parser of foreign source code in the gateway, by whatever road.
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
]


def self_test() -> None:
    def findings_of(*planted: str) -> list[str]:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder).resolve()
            small_workspace(root)
            if planted:
                crate(root / planted[0], *planted[1:])
            cargo(root, "generate-lockfile", "--offline")
            return check(root)

    faults = []
    if clean := findings_of():
        faults.append(f"a clean workspace has findings: {clean}")
    for planted, expected in PLANTED:
        findings = findings_of(*planted)
        if len(findings) != 1 or expected not in findings[0]:
            faults.append(f"planted {planted}\n  expected: {expected}\n  found: {findings}")
    if faults:
        sys.exit("\n".join(faults))
    print(f"layering: {len(PLANTED)} planted violations found")


def main() -> None:
    if sys.argv[1:] == ["--self-test"]:
        self_test()
    elif findings := check(ROOT):
        sys.exit("\n".join(findings))
    else:
        print("layering: in order")


main()
