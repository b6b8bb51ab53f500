"""Installs packages as an unprivileged user, without running any of their code."""

from __future__ import annotations

import configparser
import dataclasses
import datetime
import json
import os
import re
import signal
import subprocess
from pathlib import Path

from pip._vendor.packaging.utils import canonicalize_name

from package import Package, Release, npm_index, pypi_index

INSTALL_SECONDS = 150.0
INSTALL_UID = 61234  # owns the caches and installs
RUN_UID = 61235  # runs foreign code: can read the install, can write only to its own home


@dataclasses.dataclass(frozen=True)
class Tools:
    """Programs that are used. All must be readable by an unprivileged user."""

    uv: str
    python: str
    node: str
    work: Path
    bun: str | None = None

    @property
    def bytecode(self) -> Path:
        """Return the folder for compiled Python, shared because installs use few paths and mostly the same dependencies."""
        return self.work / "bytecode"

    @property
    def npm_cache(self) -> Path:
        return self.work / "npm-cache"

    @property
    def uv_cache(self) -> Path:
        return self.work / "uv-cache"


def as_user(uid: int) -> list[str]:
    """Return a command prefix that drops all privileges permanently."""
    ids = [f"--reuid={uid}", f"--regid={uid}", "--clear-groups"]
    return ["setpriv", *ids, "--no-new-privs", "--inh-caps=-all", "--bounding-set=-all"]


class InstallError(Exception):
    """An install that did not work; the text is the reason for the log."""


def install_step(command: list[str], where: Path, tools: Tools) -> str:
    """Run one installer command as the installing user."""
    env = {**os.environ, "HOME": str(where), "npm_config_cache": str(tools.npm_cache)}
    env |= {"BUN_INSTALL_CACHE_DIR": str(tools.npm_cache), "UV_CACHE_DIR": str(tools.uv_cache)}
    env |= {"UV_NO_CONFIG": "1", "TMPDIR": str(where)}
    process = subprocess.Popen(
        [*as_user(INSTALL_UID), *command],
        cwd=where,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        output = process.communicate(timeout=INSTALL_SECONDS)[0].decode("utf-8", "replace")
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise InstallError("timeout") from None
    if process.returncode != 0:
        raise InstallError(" ".join(output.split())[-300:])
    return output


TOO_HEAVY = re.compile(r"^ \+ (torch|tensorflow|nvidia-[a-z0-9-]+|triton|jaxlib|pyspark|vllm)==", re.MULTILINE)


def install_pypi(release: Release, where: Path, tools: Tools) -> list[list[str]]:
    """Install into a virtual environment, wheels only, with the dependencies of the day of the release.

    Without the date, a server written for one major version of its SDK would get the next and not start.
    """
    extras = f"[{','.join(release.extras)}]" if release.extras else ""
    wanted = f"{release.package.name}{extras}=={release.package.version}"
    install_step([tools.uv, "venv", "--python", tools.python, "venv"], where, tools)
    options = ["--python", "venv/bin/python", "--only-binary", ":all:", "--default-index", pypi_index()]
    if release.uploaded:
        day = datetime.date.fromisoformat(release.uploaded[:10]) + datetime.timedelta(days=2)
        options += ["--exclude-newer", day.isoformat()]
    plan = install_step([tools.uv, "pip", "install", "--dry-run", *options, wanted], where, tools)
    heavy = TOO_HEAVY.search(plan)
    if heavy:
        raise InstallError(f"too heavy: {heavy[1]}")
    install_step([tools.uv, "pip", "install", *options, wanted], where, tools)
    return pypi_commands(release.package, where / "venv")


def pypi_commands(package: Package, venv: Path) -> list[list[str]]:
    """Console scripts of the package itself, else its runnable modules."""
    python = str(venv / "bin" / "python")
    scripts: list[str] = []
    modules: list[str] = []
    for info in venv.glob("lib/python3*/site-packages/*.dist-info"):
        if canonicalize_name(info.name.removesuffix(".dist-info").rpartition("-")[0]) != package.name:
            continue
        points = configparser.ConfigParser(delimiters=("=",), strict=False, interpolation=None)
        points.optionxform = str  # type: ignore[assignment,method-assign]
        if (info / "entry_points.txt").exists():
            points.read_string((info / "entry_points.txt").read_text())
        if points.has_section("console_scripts"):
            scripts += [name for name, _ in points.items("console_scripts")]
        modules += re.findall(r"^([A-Za-z_]\w*)/__main__\.py,", (info / "RECORD").read_text(), re.MULTILINE)
    ranked = sorted(scripts, key=lambda name: likeliness(name, package.name))
    commands = [[python, str(venv / "bin" / name)] for name in ranked if (venv / "bin" / name).exists()]
    return commands or [[python, "-m", module] for module in modules]


def install_npm(release: Release, where: Path, tools: Tools) -> list[list[str]]:
    """Install without running any script of any package; Bun does it with a tenth of npm's work."""
    (where / "package.json").write_text('{"private":true}')
    os.chown(where / "package.json", INSTALL_UID, INSTALL_UID)
    wanted = f"{release.package.name}@{release.package.version}"
    if tools.bun:
        command = [tools.bun, "add", "--ignore-scripts", "--omit=dev", "--registry", npm_index(), wanted]
    else:
        quiet = ["--no-audit", "--no-fund", "--no-package-lock", "--loglevel=error"]
        command = ["npm", "install", "--ignore-scripts", "--omit=dev", *quiet, wanted]
    install_step(command, where, tools)
    return npm_commands(release.package, where, tools)


def npm_commands(package: Package, where: Path, tools: Tools) -> list[list[str]]:
    """Programs named in the manifest, else its main module."""
    root = where / "node_modules" / package.name
    manifest = json.loads((root / "package.json").read_text())
    bins = manifest.get("bin") or {}
    if isinstance(bins, str):
        bins = {package.name.rpartition("/")[2]: bins}
    ranked = sorted(bins, key=lambda name: likeliness(name, package.name))
    paths = list(dict.fromkeys(root / bins[name] for name in ranked)) or [root / manifest.get("main", "index.js")]
    return [program(path, tools) for path in paths if path.is_file()]


def program(path: Path, tools: Tools) -> list[str]:
    """Return the command for a file: shell wrappers and binaries directly, others with Node."""
    with path.open("rb") as file:
        head = file.read(80)
    if head.startswith(b"\x7fELF") or (head.startswith(b"#!") and b"sh" in head.split(b"\n")[0]):
        return [str(path)]
    return [tools.node, str(path)]


def likeliness(name: str, package: str) -> tuple[bool, bool, bool, str]:
    """Sort key: of several programs the one that speaks MCP is most likely named for it, then for the package."""
    base = package.rpartition("/")[2]
    helper = bool(re.search(r"setup|install|auth|login|init|test|client|http|sse|config", name))
    return (helper and name != base, "mcp" not in name, name != base, name)
