"""Published packages: names, registries, and what their archives contain, without running them."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import html.parser
import io
import json
import os
import re
import subprocess
import tarfile
import time
import urllib.error
import urllib.parse
import urllib.request
import zipfile
from collections.abc import Iterable, Iterator
from typing import Any

from pip._internal.models.index import PyPI
from pip._vendor.packaging.utils import canonicalize_name
from pip._vendor.packaging.version import InvalidVersion, Version

Json = dict[str, Any]

DEV_BELOW = 102  # first byte of sha256(name): 102 of 256 values, two fifths, are the development set
MAX_ARCHIVE = 40 << 20
MAX_MEMBER = 8 << 20
MAX_UNPACKED = 150 << 20

TEXT_SUFFIXES = (".js", ".mjs", ".cjs", ".ts", ".py", ".json", ".toml", ".yaml", ".yml", ".md", ".example", "METADATA")
SOURCE_SUFFIXES = (".js", ".mjs", ".cjs", ".ts", ".py", ".json")

HINT_WORDS = (b"OnlyHint", b"tructiveHint", b"only_hint", b"tructive_hint", b"ToolAnnotations")
# A value must follow: a bundle that contains the SDK has the bare words in its schema of annotations.
ANNOTATED = re.compile(
    rb"""(?:readOnlyHint|destructiveHint|read_only_hint|destructive_hint)["']?\s*[:=]\s*["']?(?:true|false|!0|!1)"""
    rb"""|ToolAnnotations\(""",
    re.IGNORECASE,
)
ENV_READ = re.compile(
    rb"""(?:process\.env\.|process\.env\[["']|environ(?:\.get\(|\[)\s*["']|getenv\(\s*["'])([A-Z][A-Z0-9_]{2,60})"""
)
ENV_MENTION = re.compile(rb"\b([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*_(?:KEY|TOKEN|SECRET|PASSWORD|URL|EMAIL|USERNAME))\b")


@dataclasses.dataclass(frozen=True)
class Package:
    """A published package: its source (`npm` or `pypi`), its name, and its version once known."""

    source: str
    name: str
    version: str = ""

    @classmethod
    def parse(cls, line: str) -> Package:
        """Read `npm:NAME`, `npm:NAME@VERSION`, `pypi:NAME` or `pypi:NAME==VERSION`; further columns are ignored."""
        source, _, rest = line.split()[0].partition(":")
        if source == "pypi":
            name, _, version = rest.partition("==")
            return cls(source, canonicalize_name(name), version)
        if source != "npm":
            raise ValueError(f"no package: {line!r}")
        at = rest.find("@", 1)
        return cls(source, rest, "") if at < 0 else cls(source, rest[:at], rest[at + 1 :])

    def __str__(self) -> str:
        """The form that `parse` reads."""
        if not self.version:
            return self.key
        return f"{self.key}{'==' if self.source == 'pypi' else '@'}{self.version}"

    @property
    def split(self) -> str:
        """Return the set of this package by its name, so that a new version stays in the same set."""
        return "dev" if hashlib.sha256(self.name.encode()).digest()[0] < DEV_BELOW else "held"

    @property
    def key(self) -> str:
        """The package without its version."""
        return f"{self.source}:{self.name}"

    @property
    def order(self) -> bytes:
        """Return a pseudo-random position in the queue. It is salted, because the plain hash decides the split."""
        return hashlib.sha256(f"order:{self.key}".encode()).digest()


@dataclasses.dataclass
class Release:
    """The newest archive of a package, and what reading it showed."""

    package: Package
    url: str
    uploaded: str = ""
    annotated: bool = False
    extras: tuple[str, ...] = ()
    variables: frozenset[str] = frozenset()


def get(url: str, accept: str = "*/*", limit: int = MAX_ARCHIVE) -> bytes:
    """Fetch with two retries; a larger answer than `limit` is an error, not a truncated archive."""
    request = urllib.request.Request(url, headers={"Accept": accept})
    for attempt in range(3):
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                body: bytes = answer.read(limit + 1)
            if len(body) > limit:
                raise ValueError("archive too large")
            return body
        except urllib.error.HTTPError as error:
            if error.code not in (429, 500, 502, 503, 504) or attempt == 2:
                raise
        except OSError:
            if attempt == 2:
                raise
        time.sleep(2.0**attempt)
    raise OSError("unreachable")


def pypi_index() -> str:
    """The simple index pip is set up with, by environment, configuration or its own default."""
    asked = subprocess.run(["pip", "config", "get", "global.index-url"], capture_output=True, text=True, check=False)
    return (os.environ.get("PIP_INDEX_URL") or asked.stdout.strip() or PyPI.simple_url).rstrip("/") + "/"


def npm_index() -> str:
    """The registry npm is set up with."""
    asked = subprocess.run(["npm", "config", "get", "registry"], capture_output=True, text=True, check=True)
    return asked.stdout.strip().rstrip("/") + "/"


class Links(html.parser.HTMLParser):
    """The links of a simple index page in its HTML form: attributes and text of each anchor."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[tuple[dict[str, str], str]] = []
        self._open: dict[str, str] | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "a":
            self._open = {key: value or "" for key, value in attrs}

    def handle_data(self, data: str) -> None:
        if self._open is not None:
            self.links.append((self._open, data.strip()))
            self._open = None


SIMPLE_FORMS = "application/vnd.pypi.simple.v1+json, text/html;q=0.5"


def pypi_names(containing: str) -> Iterator[str]:
    """Every project name of the simple index that contains a word."""
    body = get(pypi_index(), SIMPLE_FORMS, 1 << 30)
    if body.lstrip()[:1] == b"{":
        names: Iterable[str] = (project["name"] for project in json.loads(body)["projects"])
    else:
        names = re.findall(r">([^<>\n]+)</a>", body.decode("utf-8", "replace"))
    return iter(sorted({canonicalize_name(name) for name in names if containing in name.lower()}))


def pypi_files(index: str, name: str) -> list[Json]:
    """The files of a project as (filename, url, upload-time), whichever form the index speaks."""
    page = urllib.parse.urljoin(index, name + "/")
    body = get(page, SIMPLE_FORMS)
    if body.lstrip()[:1] == b"{":
        return [file for file in json.loads(body)["files"] if not file.get("yanked")]
    parser = Links()
    parser.feed(body.decode("utf-8", "replace"))
    return [
        {
            "filename": text,
            "url": urllib.parse.urljoin(page, attributes["href"]).split("#")[0],
            "upload-time": attributes.get("data-upload-time", ""),
        }
        for attributes, text in parser.links
        if "data-yanked" not in attributes and "href" in attributes
    ]


def file_version(filename: str) -> Version | None:
    """The version a wheel's or source archive's name states."""
    stem = filename.removesuffix(".tar.gz").removesuffix(".zip")
    text = filename.split("-")[1] if filename.endswith(".whl") else stem.rpartition("-")[2]
    with contextlib.suppress(InvalidVersion):
        return Version(text)
    return None


def pypi_release(index: str, package: Package) -> Release:
    """The wheel to read: of the wanted version, else of the newest final one. Source archives are not built."""
    wheels: dict[Version, Json] = {}
    for file in pypi_files(index, package.name):
        version = file_version(file["filename"]) if file["filename"].endswith(".whl") else None
        if version is not None:
            wheels[version] = file
    if package.version:
        wheels = {version: file for version, file in wheels.items() if str(version) == package.version}
    if not wheels:
        raise LookupError("no wheel")
    version = max(wheels, key=lambda version: (not version.is_prerelease, version))
    file = wheels[version]
    return Release(dataclasses.replace(package, version=str(version)), file["url"], file.get("upload-time") or "")


def npm_release(index: str, package: Package) -> Release:
    """The tarball to read: of the wanted version, else of the one tagged latest."""
    form = "application/vnd.npm.install-v1+json, application/json;q=0.5"
    about = json.loads(get(index + package.name.replace("/", "%2f"), form))
    version = package.version or about["dist-tags"]["latest"]
    tarball = about["versions"][version]["dist"]["tarball"]
    return Release(dataclasses.replace(package, version=version), tarball)


def members(archive: bytes) -> Iterator[tuple[str, bytes]]:
    """Text files of a wheel or tarball; oversized members are skipped and the whole is bounded, against bombs."""
    total = 0
    if archive[:2] == b"PK":
        with zipfile.ZipFile(io.BytesIO(archive)) as opened:
            for info in opened.infolist():
                if info.filename.endswith(TEXT_SUFFIXES) and info.file_size <= MAX_MEMBER and total < MAX_UNPACKED:
                    with opened.open(info) as file:
                        body = file.read(MAX_MEMBER)
                    total += len(body)
                    yield info.filename, body
        return
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r|gz") as opened_tar:
        for member in opened_tar:
            total += member.size
            if total > MAX_UNPACKED:
                return
            if member.isfile() and member.name.endswith(TEXT_SUFFIXES) and member.size <= MAX_MEMBER:
                extracted = opened_tar.extractfile(member)
                if extracted is not None:
                    yield member.name, extracted.read(MAX_MEMBER)


def sets_annotations(body: bytes) -> bool:
    """Whether a source file gives a hint a value; plain words first, as the pattern is slow on large bundles."""
    return any(word in body for word in HINT_WORDS) and bool(ANNOTATED.search(body))


def read_release(release: Release, always: bool = False) -> Release:
    """Look for annotations; where there are some, or `always`, for variables it reads and extras that bring its server."""
    archive = get(release.url)
    release.annotated = any(sets_annotations(body) for name, body in members(archive) if name.endswith(SOURCE_SUFFIXES))
    if not (release.annotated or always):
        return release
    variables: set[str] = set()
    for name, body in members(archive):
        pattern = ENV_READ if name.endswith(SOURCE_SUFFIXES) else ENV_MENTION
        variables.update(match.decode() for match in pattern.findall(body))
        if name.endswith("METADATA"):
            found = re.findall(r"^Provides-Extra: (mcp|server|mcp-server)\s*$", body.decode("utf-8", "replace"), re.M)
            release.extras = tuple(found)
    release.variables = frozenset(sorted(variables)[:400])
    return release
