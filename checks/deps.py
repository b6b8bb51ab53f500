#!/usr/bin/env python3
"""Checks dependencies: licenses, bans, sources.

Reads `cargo metadata --locked`, so it sees every crate of the lock file that any platform,
feature or test may pull in. Each finding is printed; any finding fails.

    deps.py               checks this workspace
    deps.py --self-test   tests that deliberate violations are found
"""

import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

OUR_LICENSE = "Apache-2.0"

# Licenses that require no more than a notice.
PERMISSIVE = {
    "0BSD", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "BSD-2-Clause", "BSD-3-Clause",
    "BSL-1.0", "CC0-1.0", "CDLA-Permissive-2.0", "ISC", "MIT", "MIT-0", "Unicode-3.0", "Unlicense", "Zlib",
}

# Name, version prefix ("" is all versions), and reason. Bans apply to what the programs are built from, on every platform.
# Crates that only tests use, or that are locked but never built, only need an accepted license.
BANNED = [
    ("openssl", "", "TLS is rustls; no system library decides what we trust"),
    ("openssl-sys", "", "TLS is rustls; no system library decides what we trust"),
    ("ring", "", "there is one cryptography provider, and it is another one"),
    ("chrono", "", "time is jiff's; two calendars disagree"),
    ("serde_yaml", "", "no longer maintained"),
    ("reqwest", "0.12.", "one HTTP client in the tree; 0.12 is the old one"),
]


def license_is_permissive(expression: str) -> bool:
    """Evaluate an SPDX expression: OR is a choice, AND requires both.

    Raises ValueError if it is not a valid expression.
    """
    # Old manifests write OR as a slash.
    tokens = re.findall(r"[()]|[^\s()]+", expression.replace("/", " OR "))

    def next_token() -> str:
        if not tokens:
            raise ValueError(f"`{expression}` ends too early")
        return tokens.pop(0)

    def either() -> bool:
        holds = both()
        while tokens[:1] == ["OR"]:
            next_token()
            holds = both() or holds
        return holds

    def both() -> bool:
        holds = one()
        while tokens[:1] == ["AND"]:
            next_token()
            holds = one() and holds
        return holds

    def one() -> bool:
        token = next_token()
        if token == "(":
            holds = either()
            if next_token() != ")":
                raise ValueError(f"`{expression}` lacks a closing bracket")
            return holds
        if token in (")", "AND", "OR", "WITH"):
            raise ValueError(f"`{expression}` has `{token}` where a license should be")
        # An exception is part of the license's name in our list, so an unknown one is refused.
        if tokens[:1] == ["WITH"]:
            next_token()
            token = f"{token} WITH {next_token()}"
        return token in PERMISSIVE

    holds = either()
    if tokens:
        raise ValueError(f"`{expression}` goes on after its end")
    return holds


def check_license(package: dict) -> list[str]:
    name = f"`{package['name']}` {package['version']}"
    if package["source"] is None:
        fine = package["license"] == OUR_LICENSE
        return [] if fine else [f"{name} is ours and not under {OUR_LICENSE}"]
    if not package["license"]:
        return [f"{name} names no license"]
    try:
        fine = license_is_permissive(package["license"])
    except ValueError as error:
        return [f"{name} has a license we cannot read: {error}"]
    return [] if fine else [f"{name} has a license we do not take: {package['license']}"]


def check_bans(package: dict) -> list[str]:
    return [
        f"`{name}` {package['version']} is banned: {why}"
        for name, versions, why in BANNED
        if package["name"] == name and package["version"].startswith(versions)
    ]


def check_sources(packages: list[dict]) -> list[str]:
    """Check that all dependencies come from the default registry.

    Our manifests name no registry, so our direct dependencies come from the default one.
    If all dependencies share one source, that source is the default registry.
    """
    findings = []
    guests = [package for package in packages if package["source"] is not None]
    for package in guests:
        if not package["source"].startswith(("registry+", "sparse+")):
            findings.append(f"`{package['name']}` comes from {package['source']}, not from a registry")
    registries = {p["source"] for p in guests if p["source"].startswith(("registry+", "sparse+"))}
    if len(registries) > 1:
        findings.append(f"crates come from more than one registry: {sorted(registries)}")
    for package in packages:
        if package["source"] is None:
            findings += [
                f"`{package['name']}` asks another registry for `{dependency['name']}`"
                for dependency in package["dependencies"] if dependency["registry"]
            ]
    return findings


def check(metadata: dict, built: set[tuple[str, str]] | None = None) -> list[str]:
    """Check all packages. `built` has name and version of those that programs are built from; None means all."""
    packages = metadata["packages"]
    findings = check_sources(packages)
    members = set(metadata["workspace_members"])
    for package in packages:
        if package["source"] is None and package["id"] not in members:
            findings.append(f"`{package['name']}` comes from a folder outside the workspace")
        findings += check_license(package)
        if built is None or (package["name"], package["version"]) in built:
            findings += check_bans(package)
    return findings


def read_built() -> set[tuple[str, str]]:
    """Return what our programs are built from, on any platform, with any feature."""
    command = ["cargo", "tree", "--locked", "--workspace", "--all-features", "--target=all", "--edges=normal,build",
               "--prefix=none", "--format={p}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"error: {' '.join(command)} failed\n{done.stderr}")
    words = [line.split() for line in done.stdout.splitlines() if line]
    return {(name, version.removeprefix("v")) for name, version, *_ in words}


def read_metadata() -> dict:
    command = ["cargo", "metadata", "--locked", "--all-features", "--format-version=1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"error: {' '.join(command)} failed\n{done.stderr}")
    return json.loads(done.stdout)


# ---- self-test -------------------------------------------------------------------------------

LICENSES = {
    "MIT": True,
    "GPL-3.0-only": False,
    "MIT OR GPL-3.0-only": True,
    "GPL-3.0-only OR MIT": True,
    "MIT AND GPL-3.0-only": False,
    "MIT/Apache-2.0": True,
    "(MIT OR Apache-2.0) AND Unicode-3.0": True,
    "(MIT OR Apache-2.0) AND GPL-2.0-only": False,
    # AND has precedence over OR.
    "MIT OR Apache-2.0 AND GPL-2.0-only": True,
    "GPL-2.0-only AND MIT OR GPL-3.0-only": False,
    "Apache-2.0 WITH LLVM-exception": True,
    "Apache-2.0 WITH Another-exception": False,
    "mit": False,
    "": None, "MIT OR": None, "(MIT": None, "MIT)": None, "MIT Apache-2.0": None, "AND MIT": None,
}


def package(name: str, **changes) -> dict:
    fine = {"name": name, "id": name, "version": "1.0.0", "license": "MIT",
            "source": "registry+default", "dependencies": []}
    return fine | changes


DELIBERATE = [
    (package("a", license="GPL-3.0-only"), "a license we do not take"),
    (package("a", license=None), "names no license"),
    (package("a", license="MIT OR"), "a license we cannot read"),
    (package("ring"), "`ring` 1.0.0 is banned"),
    (package("reqwest", version="0.12.9"), "`reqwest` 0.12.9 is banned"),
    (package("a", source="git+https://example.org/a"), "not from a registry"),
    (package("a", source="registry+other"), "more than one registry"),
    (package("ours", source=None), "ours and not under"),
    (package("stray", source=None, license=OUR_LICENSE), "a folder outside the workspace"),
    (package("ours", source=None, license=OUR_LICENSE, dependencies=[{"name": "a", "registry": "other"}]),
     "asks another registry"),
]


def self_test() -> None:
    faults = []
    for expression, expected in LICENSES.items():
        try:
            found = license_is_permissive(expression)
        except ValueError:
            found = None
        if found is not expected:
            faults.append(f"`{expression}`: expected {expected}, found {found}")
    clean = [package("a"), package("reqwest", version="0.13.1"),
             package("gatelodge", source=None, license=OUR_LICENSE)]
    members = ["gatelodge", "ours"]
    if findings := check({"packages": clean, "workspace_members": members}):
        faults.append(f"clean packages have findings: {findings}")
    for violation, expected in DELIBERATE:
        findings = check({"packages": clean + [violation], "workspace_members": members})
        if len(findings) != 1 or expected not in findings[0]:
            faults.append(f"expected `{expected}`, found {findings}")
    if faults:
        sys.exit("\n".join(faults))
    print(f"deps: {len(LICENSES)} expressions read, {len(DELIBERATE)} deliberate violations found")


def main() -> None:
    if sys.argv[1:] == ["--self-test"]:
        self_test()
        return
    metadata = read_metadata()
    if findings := check(metadata, read_built()):
        sys.exit("\n".join(findings))
    print(f"deps: {len(metadata['packages'])} crates in order")


main()
