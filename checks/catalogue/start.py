"""Tries to start an unknown server: with dummy credentials, and with arguments that its output mentions."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from pathlib import Path

from install import Tools
from package import Release
from session import Session, speak

START_SECONDS = 25.0  # from the start of a server to its last page of tools
PACKAGE_SECONDS = 90.0  # all attempts to start one package together

ENV_FILLED = re.compile(
    r"(?:^|_)(?:KEY|APIKEY|TOKEN|PAT|SECRET|PASSWORD|PASS|USERNAME|LOGIN|EMAIL|URL|URI|HOST|HOSTNAME|ENDPOINT|DOMAIN"
    r"|ID|ACCOUNT|ORG|ORGANIZATION|WORKSPACE|TENANT|TEAM|PROJECT|REGION|SITE|SUBDOMAIN|INSTANCE|DSN|CREDENTIALS|COOKIE)$"
)
ENV_NEVER = re.compile(
    r"^(?:NODE_|NPM_|PYTHON|UV_|PIP_|SSL_|CURL_|LD_|GIT_|OTEL_|XDG_|VITEST|JEST|CI$|HOME$|PATH$|USER$|SHELL$|TERM$|LANG$)"
)


def dummy(name: str, home: Path) -> str:
    """Return a value of the right format for a variable; nothing listens at dummy addresses."""
    if re.search(r"(URL|URI|ENDPOINT|DSN|CONNECTION_STRING|SITE|INSTANCE)$", name):
        for word, scheme in (("MONGO", "mongodb"), ("REDIS", "redis"), ("MYSQL", "mysql")):
            if word in name:
                return f"{scheme}://user:pass@127.0.0.1:9/db"
        if re.search(r"POSTGRES|PG_|DATABASE|^DB_", name):
            return "postgresql://user:pass@127.0.0.1:9/db"
        return "http://127.0.0.1:9"
    if re.search(r"(HOST|HOSTNAME|DOMAIN|SERVER|ADDRESS)$", name):
        return "127.0.0.1"
    if name.endswith("PORT"):
        return "9"
    if name.endswith("EMAIL"):
        return "user@example.org"
    if name.endswith("REGION"):
        return "us-east-1"
    if re.search(r"(DIR|PATH|ROOT|FOLDER|VAULT|DIRECTORY)$", name):
        return str(home)
    if re.search(r"PRIVATE_KEY$", name):
        return "0x" + "1" * 64
    if re.search(r"(^|_)ID$", name):
        return "123456789"
    return "dummy0123456789abcdef0123456789abcdef"


def environment(names: Iterable[str], home: Path, tools: Tools, secure: bool = False) -> dict[str, str]:
    """A small environment with dummies for the credentials and addresses a program asks for, and nothing else set.

    Switches (modes, log levels, read-only flags) stay unset: they would change which tools are offered.
    """
    path = f"{Path(tools.node).parent}:/usr/local/bin:/usr/bin:/bin"
    base = {"PATH": path, "HOME": str(home), "LANG": "C.UTF-8", "PYTHONUNBUFFERED": "1", "TMPDIR": "/tmp"}
    base |= {"MCP_TRANSPORT": "stdio", "TRANSPORT": "stdio", "FASTMCP_SHOW_CLI_BANNER": "false"}
    base["PYTHONPYCACHEPREFIX"] = str(tools.bytecode)
    filled = {name: dummy(name, home) for name in names if not ENV_NEVER.match(name)}
    if secure:
        filled = {name: re.sub(r"^http:", "https:", value) for name, value in filled.items()}
    return filled | base


def asked_variables(said: str) -> set[str]:
    """Variables that an error message names."""
    words = set(re.findall(r"\b[A-Z][A-Z0-9]*_[A-Z0-9_]*[A-Z0-9]\b|\b[A-Z]{5,}\b", said))
    return {word for word in words if "_" in word or ENV_FILLED.search(word)}


BROKEN = re.compile(r"ModuleNotFoundError|ImportError|Cannot find module|ERR_MODULE_NOT_FOUND|SyntaxError")
ARGUMENTS = (
    ["--stdio"],
    ["stdio"],
    ["mcp"],
    ["serve"],
    ["server"],
    ["start"],
    ["run"],
    ["--transport", "stdio"],
    ["mcp", "serve"],
    ["mcp", "start"],
    ["mcp-server"],
    ["serve", "--stdio"],
    ["--mcp"],
)


def hinted_arguments(said: str, home: Path) -> list[list[str]]:
    """Return arguments that may start a program as a server, if its output mentions them."""
    words = set(re.findall(r"(?<![\w-])[a-z-]{3,}(?![\w-])", said))
    hints = [args for args in ARGUMENTS if all(word in words for word in args)]
    wants_path = re.search(r"usage|director|path|folder|argument", said, re.IGNORECASE)
    return hints[:4] + ([[str(home)]] if wants_path else [])


def list_tools(commands: list[list[str]], release: Release, home: Path, tools: Tools) -> Session:
    """Try the ways to start a server until one yields tools."""
    end = time.monotonic() + PACKAGE_SECONDS
    likely = {name for name in release.variables if ENV_FILLED.search(name)}
    best = Session(said="no command")

    def attempt(command: list[str], names: Iterable[str], secure: bool = False) -> bool:
        nonlocal best
        left = end - time.monotonic()
        if left < 2:
            return False
        session = speak(command, environment(names, home, tools, secure), min(START_SECONDS, left))
        if best.tools is None or session.tools:
            best = session
        return bool(session.tools)

    for command in commands[:3]:
        if attempt(command, likely):
            return best
        said, died = best.said, best.died
        if BROKEN.search(said):
            continue
        asked = asked_variables(said) - likely
        secure = "https" in said
        if (asked or secure) and attempt(command, likely | asked, secure):
            return best
        if died and likely and attempt(command, ()):
            return best
        help_text = speak([*command, "--help"], environment((), home, tools), 8.0).said
        for arguments in hinted_arguments(said + help_text, home):
            if attempt([*command, *arguments], likely | asked, secure):
                return best
    return best
