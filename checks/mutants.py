#!/usr/bin/env python3
"""Runs the tests against every mutant: a deliberate bug that the tests must catch.

A mutant is a branch `if mutant!("name")` in the source (see `crates/mutants`). One build has all of them, and the
environment variable GATELODGE_MUTANT activates one. Without a mutant everything must pass; with each mutant a test must
fail. Mutants of `json` and `policy` are run against the comparison with the reference model, the others against the
tests of the crate that `TESTED_BY` names.

With `--record`, the test that caught each mutant is written into `checks/mutant_hints.toml`. If that file exists, the
test that it names for a mutant runs first, and all tests of the crate run only if it passes.

    mutants.py                        runs all mutants
    mutants.py --only NAME…           runs these
    mutants.py --crate CRATE…         runs the mutants of these crates
    mutants.py --shard K/N            runs every Nth mutant, from the Kth on
    mutants.py --record               also writes the catching tests into `checks/mutant_hints.toml`
    mutants.py --list                 lists the mutants
    mutants.py --absent BINARY…       fails if a binary contains the name of a mutant
"""

import argparse
import json
import os
import re
import subprocess
import sys
import time
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HINTS = ROOT / "checks/mutant_hints.toml"
VARIABLE = "GATELODGE_MUTANT"
REFERENCE = "reference"
# The tests that must catch the mutants of a crate: the comparison with the reference model, or those of a package.
TESTED_BY = {
    "json": REFERENCE,
    "policy": REFERENCE,
    "mcp": "gatelodge-gateway",
    "store": "gatelodge-gateway",
    "gateway": "gatelodge-gateway",
    "pharo": "gatelodge-pharo",
}
# Few pairs catch nearly every mutant within a second; the second number is for the rest.
PAIRS = [2_000, 20_000]
# A mutant may make a test hang.
NEXTEST_CONFIG = '[profile.default]\nslow-timeout = { period = "60s", terminate-after = 2 }\n'
NO_TESTS_RUN = 4
# How often all tests run if the failed one is flaky.
ROUNDS = 3
# Most tests spend most of their time waiting.
TEST_THREADS = 4 * (os.cpu_count() or 1)

USE = re.compile(r'\bmutant!\(\s*("[^"]*")')
NAME = re.compile(r'"[a-z0-9]+(-[a-z0-9]+)+"')
FAILURE = re.compile(r"^ *(?:FAIL|TIMEOUT|ABORT|SIG[A-Z]+) \[[^]]*\] (?:\([^)]*\) )?(\S+) (\S+)$", re.MULTILINE)


def find_mutants(root: Path) -> dict[str, str]:
    """Return the crate of each mutant by name."""
    mutants: dict[str, str] = {}
    errors = []
    for source in sorted(root.glob("crates/*/src/**/*.rs")):
        crate = source.relative_to(root).parts[1]
        if crate == "mutants":
            continue
        for quoted in USE.findall(source.read_text(encoding="utf-8")):
            place, name = source.relative_to(root), quoted.strip('"')
            if not NAME.fullmatch(quoted):
                errors.append(f"{place}: `{name}` is not in kebab-case")
            if name in mutants:
                errors.append(f"{place}: `{name}` is used twice")
            if crate not in TESTED_BY:
                errors.append(f"{place}: TESTED_BY in checks/mutants.py does not say what tests `{crate}`")
            mutants[name] = crate
    if errors:
        sys.exit("\n".join(errors))
    if not mutants:
        sys.exit("error: no mutants found")
    return mutants


def read_hints(mutants: dict[str, str]) -> dict[str, str]:
    hints = tomllib.loads(HINTS.read_text(encoding="utf-8")) if HINTS.exists() else {}
    if unknown := sorted(set(hints) - set(mutants)):
        sys.exit(f"error: {HINTS.name} names mutants that do not exist: {', '.join(unknown)}")
    return hints


def write_hints(hints: dict[str, str]) -> None:
    head = ("# The test that catches each mutant, which `mutants.py` runs first. Written by `checks/mutants.py --record`.\n"
            "# A mutant or a test that is not here is not an error: then all tests of the crate run.\n\n")
    HINTS.write_text(head + "".join(f'{name} = "{test}"\n' for name, test in sorted(hints.items())), encoding="utf-8")


def check_absent(binaries: list[Path], mutants: dict[str, str]) -> list[str]:
    """Return the findings: each binary and a name in it."""
    findings = []
    for binary in binaries:
        content = binary.read_bytes()
        findings += [f"{binary} contains `{name}`" for name in [*mutants, VARIABLE] if name.encode() in content]
    return findings


class Build:
    """All tests, and the program that is compared with the reference model, built with mutants."""

    def __init__(self, targets: set[str]) -> None:
        usual = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve()
        self.folder = usual / "mutants"
        self.folder.mkdir(parents=True, exist_ok=True)
        # Dependencies come from the usual build. The programs are put into a folder of their own.
        self.environment = os.environ | {
            "CARGO_TARGET_DIR": str(self.folder),
            "CARGO_BUILD_BUILD_DIR": str(usual),
            "RUSTC_WORKSPACE_WRAPPER": str(ROOT / "checks/rustc-mutants"),
        }
        self.environment.pop(VARIABLE, None)
        self.binaries: list[Path] = []
        # The whole workspace is selected, as in `./test`: packages selected alone get other features, and all their
        # dependencies would be built again.
        if REFERENCE in targets:
            self.cargo("build", "--profile", "quick", "--locked", "--workspace", "--example", "answer")
            self.answer = self.folder / "quick/examples/answer"
            self.binaries.append(self.answer)
        if packages := targets - {REFERENCE}:
            metadata = self.cargo("metadata", "--locked", "--format-version=1")
            tests = [f"--test={target['name']}" for package in json.loads(metadata)["packages"]
                     if package["name"] in packages for target in package["targets"] if "test" in target["kind"]]
            built = self.cargo("nextest", "list", "--cargo-profile", "quick", "--locked", "--workspace", "--lib", *tests,
                               "--list-type", "binaries-only", "--message-format", "json")
            (self.folder / "binaries.json").write_text(built)
            (self.folder / "metadata.json").write_text(metadata)
            (self.folder / "nextest.toml").write_text(NEXTEST_CONFIG)
            programs = json.loads(built)["rust-binaries"].values()
            self.binaries += [Path(program["binary-path"]) for program in programs]

    def cargo(self, *arguments: str) -> str:
        done = subprocess.run(["cargo", *arguments], cwd=ROOT, env=self.environment, stdout=subprocess.PIPE, text=True)
        if done.returncode != 0:
            sys.exit(f"error: cargo {' '.join(arguments)} failed")
        return done.stdout

    def run(self, command: list[str], mutant: str | None) -> tuple[int, str]:
        environment = self.environment | ({VARIABLE: mutant} if mutant else {})
        done = subprocess.run(command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace")
        return done.returncode, done.stdout

    def compare(self, pairs: int, mutant: str | None) -> tuple[bool, str]:
        """Return whether the comparison found a difference, and its output."""
        compare = ROOT / "crates/policy/reference/compare.py"
        seed = os.environ.get("GATELODGE_SEED", "1")
        code, output = self.run([sys.executable, str(compare), "--pairs", str(pairs), "--min-count", "0", "--seed", seed,
                                 "--jobs", "2", "--subject", str(self.answer)], mutant)
        if code not in (0, 1) or "\nTraceback" in output:
            sys.exit(f"{output}\nerror: the comparison itself failed with exit code {code}")
        return code == 1, output

    def test(self, chosen: str, mutant: str | None, retries: int = 0) -> tuple[str | None, str]:
        """Return the first failed test of those that a filter selects, and the output. A filter may select none."""
        code, output = self.run(
            ["cargo", "nextest", "run", "--binaries-metadata", str(self.folder / "binaries.json"), "--cargo-metadata",
             str(self.folder / "metadata.json"), "--tool-config-file", f"mutants:{self.folder / 'nextest.toml'}",
             "--no-tests", "fail", "--fail-fast", "--test-threads", str(TEST_THREADS), "--retries", str(retries), "--status-level", "fail", "--color", "never", "-E", chosen], mutant)
        if failed := FAILURE.search(output):
            return " ".join(failed.groups()), output
        if code not in (0, NO_TESTS_RUN):
            sys.exit(f"{output}\nerror: cargo nextest ended with {code} and names no failed test")
        return None, output

    def passes(self, target: str) -> tuple[bool, str]:
        """Return whether the tests pass without a mutant."""
        if target == REFERENCE:
            differs, output = self.compare(PAIRS[-1], None)
            return not differs, output
        failed, output = self.test(f"package({target})", None, retries=1)
        return failed is None and " passed" in output, output

    def catch(self, mutant: str, target: str, hint: str | None) -> tuple[str | None, str]:
        """Return what catches a mutant, and the last output."""
        if target == REFERENCE:
            for pairs in PAIRS:
                differs, output = self.compare(pairs, mutant)
                if differs:
                    return f"the comparison of {pairs:,} pairs", output
            return None, output
        if hint:
            failed, output = self.test(one_test(hint), mutant)
            if failed:
                return failed, output
        chosen = f"package({target})"
        for _ in range(ROUNDS):
            failed, output = self.test(chosen, mutant)
            if not failed:
                break
            if self.test(one_test(failed), mutant)[0] and not self.test(one_test(failed), None)[0]:
                return failed, output
            # The test is flaky, so it catches nothing. Its failure may have kept another test from running.
            chosen += f" & not ({one_test(failed)})"
        return None, output


def one_test(test: str) -> str:
    binary, name = test.split()
    return f"binary_id({binary}) & test(={name})"


def run(options: argparse.Namespace, mutants: dict[str, str]) -> int:
    hints = read_hints(mutants)
    chosen = {name: crate for name, crate in sorted(mutants.items())
              if name in (options.only or mutants) and crate in (options.crate or TESTED_BY)}
    first, step = options.shard
    chosen = dict(list(chosen.items())[first - 1::step])
    targets = {TESTED_BY[crate] for crate in chosen.values()}
    if not chosen:
        sys.exit("error: no mutant is chosen")
    build = Build(targets)
    # Shows that `--absent` finds what is there.
    text = b"".join(binary.read_bytes() for binary in build.binaries)
    if missing := [name for name in chosen if name.encode() not in text]:
        sys.exit(f"error: the build with mutants does not contain {', '.join(missing)}")
    # Without a mutant, else a failure shows nothing. With `--only` each test that fails is checked for itself.
    for target in sorted(targets) if not options.only else []:
        started = time.monotonic()
        passed, output = build.passes(target)
        if not passed:
            sys.exit(f"{output}\nerror: {target} fails without a mutant")
        print(f"no mutant: {target} passes ({time.monotonic() - started:.0f} s)", flush=True)
    missed = []
    for name, crate in chosen.items():
        started = time.monotonic()
        caught_by, output = build.catch(name, TESTED_BY[crate], hints.get(name))
        verdict = f"caught by {caught_by}" if caught_by else "MISSED"
        print(f"{name:<42} {verdict} ({time.monotonic() - started:.0f} s)", flush=True)
        if not caught_by:
            missed.append(name)
            print("\n".join(output.splitlines()[-20:]), flush=True)
        elif TESTED_BY[crate] != REFERENCE:
            hints[name] = caught_by
    if options.record:
        write_hints(hints)
    print(f"{len(chosen) - len(missed)} of {len(chosen)} mutants caught")
    return 1 if missed else 0


def shard(text: str) -> tuple[int, int]:
    first, count = map(int, text.split("/"))
    if not 1 <= first <= count:
        raise ValueError
    return first, count


def main() -> int:
    mutants = find_mutants(ROOT)
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=sorted(mutants), help="run these mutants")
    parser.add_argument("--crate", nargs="+", choices=sorted(TESTED_BY), help="run the mutants of these crates")
    parser.add_argument("--shard", type=shard, default=(1, 1), metavar="K/N", help="run every Nth mutant from the Kth on")
    parser.add_argument("--record", action="store_true", help=f"write the catching tests into {HINTS.relative_to(ROOT)}")
    parser.add_argument("--list", action="store_true", help="list the mutants and their crates")
    parser.add_argument("--absent", nargs="+", type=Path, metavar="BINARY", help="check that no mutant is in these")
    options = parser.parse_args()
    if options.list:
        print("\n".join(f"{name:<42} {crate}" for name, crate in sorted(mutants.items())))
        return 0
    if options.absent:
        findings = check_absent(options.absent, mutants)
        print("\n".join(findings) or f"mutants: none of {len(mutants)} names is in {len(options.absent)} binaries")
        return 1 if findings else 0
    return run(options, mutants)


sys.exit(main())
