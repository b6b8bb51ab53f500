"""Reads which top-level modules of a crate use which, and checks them against a list of layers.

A use is a path that starts with `crate`, `self` or `super`, in a `use` or anywhere else; grouped imports are expanded.
Comments, texts and test code do not count. A name of the crate root counts as the module that the root takes it from,
and as a use of the root itself, `lib`, if it is defined there.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path

# The crate root, which may use every module. No module may use what is defined in it.
ROOT_MODULE = "lib"

TOKEN = re.compile(
    r"""
      (?P<comment>//[^\n]*)
    | (?P<text>[bc]?r(?P<hashes>\#*)".*?"(?P=hashes) | [bc]?"(?:\\.|[^"\\])*" | b?'(?:\\[^']+|\\'|[^\\'])')
    | (?P<lifetime>'\w+)
    | (?P<word>(?:r\#)?\w+)
    | (?P<mark>::|\S)
    """,
    re.VERBOSE | re.DOTALL,
)
BLOCK_COMMENT_MARK = re.compile(r"/\*|\*/")
DEFINITIONS = {"struct", "enum", "fn", "trait", "type", "const", "static", "union"}
ITEM_WORDS = DEFINITIONS | {"mod", "use", "impl", "macro_rules", "extern"}
CLOSING = {"(": ")", "[": "]", "{": "}"}


@dataclass
class Token:
    text: str
    line: int


@dataclass
class SourceFile:
    """What a source file says of modules."""

    # The paths that it uses: the module that contains the use, the line, and the segments as written.
    uses: list[tuple[tuple[str, ...], int, list[str]]] = field(default_factory=list)
    # Names that `use` statements of the file's own module bring in, with the path as written.
    imports: dict[str, list[str]] = field(default_factory=dict)
    # Names that the file's own module defines, without its modules.
    definitions: set[str] = field(default_factory=set)
    inline_modules: set[str] = field(default_factory=set)
    macros: set[str] = field(default_factory=set)
    # Modules in files of their own that only tests contain.
    test_modules: list[tuple[str, ...]] = field(default_factory=list)


@dataclass(frozen=True)
class Use:
    """A use of one top-level module by another."""

    user: str
    used: str
    file: Path
    line: int


class ModuleGraph:
    """The top-level modules of a crate, and the uses between them."""

    def __init__(self, crate_folder: Path):
        source = crate_folder / "src"
        root = source / "lib.rs" if (source / "lib.rs").exists() else source / "main.rs"
        files = {path: module_of(path.relative_to(source)) for path in sorted(source.rglob("*.rs")) if path != root}
        # Other programs of the package are crates of their own.
        files = {path: module for path, module in files.items() if module[0] not in ("bin", "main", "build")}
        parsed = {path: parse(path.read_text(encoding="utf-8"), module) for path, module in files.items()}
        self.root = parse(root.read_text(encoding="utf-8"), ())
        tests = [module for file in [self.root, *parsed.values()] for module in file.test_modules]
        is_test = {path: any(module[: len(test)] == test for test in tests) for path, module in files.items()}
        kept = {path: file for path, file in parsed.items() if not is_test[path]}
        self.modules = sorted({files[path][0] for path in kept} | self.root.inline_modules)
        self.macros = {name: files[path][0] for path, file in kept.items() for name in file.macros}
        self.uses: list[Use] = []
        self.unresolved: list[str] = []
        for path, file in [(root, self.root), *kept.items()]:
            for module, line, segments in file.uses:
                user, used = module[0] if module else ROOT_MODULE, self.resolve(module, segments)
                if used is None:
                    self.unresolved.append(f"{path}:{line}: `{'::'.join(segments)}` has no module: write it in full")
                elif used not in ("", user):
                    self.uses.append(Use(user, used, path, line))

    def resolve(self, module: tuple[str, ...], segments: list[str]) -> str | None:
        """Return the top-level module of a path, the root, `""` for another crate, or `None` if it is unknown."""
        absolute = absolute_path(module, segments)
        if absolute is None:
            return ""
        if not absolute or absolute[0] == "*":
            return ROOT_MODULE
        name = absolute[0]
        if name in self.modules:
            return name
        if name in self.root.definitions:
            return ROOT_MODULE
        if name in self.root.imports:
            path = self.root.imports[name]
            path = absolute_path((), path) if path[0] in ("crate", "self") else path
            return path[0] if path and path[0] in self.modules else ""
        return self.macros.get(name)

    def files_by_use(self) -> dict[tuple[str, str], int]:
        """Return for each pair of modules how many files of the first one use the second one."""
        files: dict[tuple[str, str], set[Path]] = {}
        for use in self.uses:
            files.setdefault((use.user, use.used), set()).add(use.file)
        return {pair: len(found) for pair, found in files.items()}

    def cycles(self) -> list[list[str]]:
        """Return the groups of modules that reach each other."""
        modules = [*self.modules, ROOT_MODULE]
        reached = {module: {use.used for use in self.uses if use.user == module} for module in modules}
        for middle in reached:
            for near in reached.values():
                if middle in near:
                    near |= reached[middle]
        groups = {tuple(sorted(other for other in reached if other in reached[module] and module in reached[other]))
                  for module in reached if module in reached[module]}
        return [list(group) for group in sorted(groups)]


def module_of(path: Path) -> tuple[str, ...]:
    parts = [*path.parts[:-1], path.name.removesuffix(".rs")]
    return tuple(parts[:-1] if parts[-1] == "mod" else parts)


def absolute_path(module: tuple[str, ...], segments: list[str]) -> list[str] | None:
    """Return a path from the crate root, or `None` if it leads out of the crate."""
    path = [] if segments[0] == "crate" else list(module)
    for index, segment in enumerate(segments):
        if segment == "super":
            if not path:
                return None
            path.pop()
        elif segment != "self" and (index, segment) != (0, "crate"):
            path.append(segment)
    return path


def tokens_of(text: str) -> list[Token]:
    """Split a source file into words and marks, without comments and texts."""
    tokens, position, line = [], 0, 1
    while position < len(text):
        if text.startswith("/*", position):
            end = block_comment_end(text, position)
        elif match := TOKEN.match(text, position):
            end = match.end()
            if match["word"] or match["mark"]:
                tokens.append(Token((match["word"] or match["mark"]).removeprefix("r#"), line))
            elif match["text"]:
                tokens.append(Token('""', line))
        else:
            end = position + 1
        line += text.count("\n", position, end)
        position = end
    return tokens


def block_comment_end(text: str, start: int) -> int:
    depth = 0
    for mark in BLOCK_COMMENT_MARK.finditer(text, start):
        depth += 1 if mark[0] == "/*" else -1
        if depth == 0:
            return mark.end()
    return len(text)


def parse(text: str, module: tuple[str, ...]) -> SourceFile:
    """Read a source file of a module."""
    tokens, file = tokens_of(text), SourceFile()
    # Inline modules around the position, each with the depth of its braces.
    inside: list[tuple[str, int]] = []
    depth, at = 0, 0

    def says(index: int, *words: str) -> bool:
        return [token.text for token in tokens[index:index + len(words)]] == list(words)

    while at < len(tokens):
        word, own = tokens[at].text, not inside
        if says(at, "#", "!", "[", "cfg", "(", "test", ")"):
            return SourceFile(test_modules=[module])
        if says(at, "#", "[", "cfg", "(", "test", ")") or says(at, "#", "[", "cfg", "(", "all", "(", "test"):
            end = item_end(tokens, at)
            names = [tokens[index + 1].text for index in range(at, end - 1) if tokens[index].text == "mod"]
            if names and tokens[end - 1].text == ";":
                file.test_modules.append((*module, *(name for name, _ in inside), names[0]))
            at = end
            continue
        if word == "{":
            depth += 1
        elif word == "}":
            depth -= 1
            if inside and inside[-1][1] > depth:
                inside.pop()
        elif word == "mod" and at + 2 < len(tokens) and tokens[at + 2].text == "{":
            if own and depth == 0:
                file.inline_modules.add(tokens[at + 1].text)
            inside.append((tokens[at + 1].text, depth + 1))
        elif word == "macro_rules" and says(at + 1, "!"):
            file.macros.add(tokens[at + 2].text)
            if depth == 0:
                file.definitions.add(tokens[at + 2].text)
        elif word in DEFINITIONS and depth == 0 and at + 1 < len(tokens):
            file.definitions.add(tokens[at + 1].text)
        elif word == "use" and own and depth == 0:
            for name, path in paths_from(tokens, at + 1)[0]:
                file.imports[name] = path
        is_start = at == 0 or tokens[at - 1].text != "::"
        is_visibility = at >= 3 and [token.text for token in tokens[at - 3:at]] == ["pub", "(", "in"]
        if word in ("crate", "self", "super") and says(at + 1, "::") and is_start and not is_visibility:
            paths, end = paths_from(tokens, at)
            here = (*module, *(name for name, _ in inside))
            file.uses += [(here, tokens[at].line, path) for _, path in paths]
            at = end
            continue
        at += 1
    return file


def paths_from(tokens: list[Token], at: int) -> tuple[list[tuple[str, list[str]]], int]:
    """Read a path, which may end in a group, and return each path in it with its name, and the end."""
    segments: list[str] = []
    while at < len(tokens):
        text = tokens[at].text
        if text == "{":
            paths, at = [], at + 1
            while at < len(tokens) and tokens[at].text != "}":
                if tokens[at].text == ",":
                    at += 1
                    continue
                before = at
                found, at = paths_from(tokens, at)
                paths += [(name if path != ["self"] or name != "self" else segments[-1], segments + path)
                          for name, path in found]
                at = max(at, before + 1)
            return paths, at + 1
        if text != "*" and not re.fullmatch(r"\w+", text):
            break
        segments.append(text)
        at += 1
        if at >= len(tokens) or tokens[at].text != "::":
            break
        at += 1
    name = segments[-1] if segments else ""
    if at + 1 < len(tokens) and tokens[at].text == "as":
        name, at = tokens[at + 1].text, at + 2
    return ([(name, segments)] if segments else []), at


def item_end(tokens: list[Token], at: int) -> int:
    """Return the end of the item after the attribute at a position."""
    is_item, open_marks = False, []
    while at < len(tokens):
        text = tokens[at].text
        if text in CLOSING:
            open_marks.append(text)
        elif text in CLOSING.values():
            if not open_marks:
                return at
            if open_marks.pop() == "{" and not open_marks:
                # The braces of `use a::{b, c};` do not end it.
                return at + 2 if at + 1 < len(tokens) and tokens[at + 1].text == ";" else at + 1
        elif not open_marks:
            is_item = is_item or text in ITEM_WORDS
            # A comma ends a field or a variant; an item may have commas between its generics.
            if text == ";" or (text == "," and not is_item):
                return at + 1
        at += 1
    return at


def check_modules(crate: str, crate_folder: Path, layers: list[list[str | tuple[str, ...]]], root: Path) -> list[str]:
    """Check the modules of a crate against its layers, lowest first.

    A layer is a list of modules, which must not use each other; a tuple of modules is one node, whose modules may.
    """
    graph = ModuleGraph(crate_folder)
    layer_of, node_of = {}, {}
    for number, layer in enumerate(layers, 1):
        for node in layer:
            for module in [node] if isinstance(node, str) else node:
                layer_of[module], node_of[module] = number, node
    findings = [finding.replace(f"{root}/", "") for finding in graph.unresolved]
    findings += [f"`{crate}`: module `{module}` is in no layer" for module in graph.modules if module not in layer_of]
    findings += [f"`{crate}`: there is no module `{module}`" for module in layer_of if module not in graph.modules]
    for use in graph.uses:
        where = f"{use.file.relative_to(root)}:{use.line}: `{use.user}` must not use"
        if use.user not in layer_of:
            continue
        if use.used == ROOT_MODULE:
            findings.append(f"{where} what the crate root defines")
        elif use.used not in layer_of or node_of[use.used] == node_of[use.user]:
            continue
        elif layer_of[use.used] == layer_of[use.user]:
            findings.append(f"{where} `{use.used}`, which is in the same layer")
        elif layer_of[use.used] > layer_of[use.user]:
            findings.append(f"{where} `{use.used}`, which is in a higher layer")
    return list(dict.fromkeys(findings))


def graph_text(crate_folder: Path, layers: list[list[str | tuple[str, ...]]]) -> str:
    """Return the modules of a crate in the order of their layers, each with those that it uses."""
    graph, files = ModuleGraph(crate_folder), {}
    for (user, used), count in graph.files_by_use().items():
        files.setdefault(user, []).append((-count, used))
    layer_of = {module: number for number, layer in enumerate(layers, 1) for node in layer
                for module in ([node] if isinstance(node, str) else node)}
    order = sorted(graph.modules, key=lambda module: (layer_of.get(module, 0), module)) + [ROOT_MODULE]
    width = max(map(len, order))
    lines = [f"layer  {'module':{width}}  uses (number of files)"]
    for module in order:
        used = ", ".join(f"{name} {-count}" for count, name in sorted(files.get(module, [])))
        lines.append(f"{layer_of.get(module, '-')!s:5}  {module:{width}}  {used}".rstrip())
    cycles = graph.cycles()
    lines += [f"cycle: {', '.join(cycle)}" for cycle in cycles] or ["no cycle"]
    return "\n".join(lines)


# ---- self-test -------------------------------------------------------------------------------

# A crate in order, with what must not be mistaken for a use.
SMALL_CRATE = {
    "lib.rs": "mod base;\nmod middle;\nmod peer;\nmod top;\n#[cfg(test)]\nmod check;\n"
              "pub use base::{Row, rows::{self, Cell as Part}};\npub use self::top::Top;\nuse std::sync::Arc;\n",
    "base.rs": "//! See [crate::top].\nmod rows;\npub(in crate::base) struct Row<'a>(&'a str);\n"
               "/* crate::top /* crate::top */ crate::top */\n"
               "const A: &str = \"crate::top\"; const B: &str = r#\"crate::top\"#; const C: char = '\"';\n"
               "#[cfg(test)]\nmod tests {\n    use crate::top::Top;\n    fn f() {}\n}\n#[cfg(test)]\nmod helpers;\n",
    "base/rows.rs": "use super::Row;\npub struct Cell;\nmod inner {\n    use super::super::Row;\n}\n"
                    "macro_rules! cell { () => {} }\n",
    "base/helpers.rs": "use crate::top::Top;\n",
    "check.rs": "use crate::top::Top;\n",
    "middle.rs": "use crate::{Arc, Part, base::{self, Row}};\nstruct Pair<A, B> { a: A, #[cfg(test)] c: u8, b: B }\n",
    "peer.rs": "use std::{fmt, sync::*};\nmod deep;\n"
               "fn f() -> crate::base::Row { self::g::<u8>(); super::middle::h() }\n",
    "peer/deep.rs": "pub(crate) use super::super::base::Row;\n",
    "top.rs": "use crate::{middle, peer};\nfn f() { crate::cell!() }\nfn r#loop() {}\n",
}
SMALL_LAYERS = [["base"], [("middle", "peer")], ["top"]]

# Deliberate faults: a file, what is added to it, and part of the finding.
DELIBERATE_FAULTS = [
    ("base.rs", "use crate::middle::A;\n", "base.rs:13: `base` must not use `middle`, which is in a higher layer"),
    ("base.rs", "use crate::{Arc, Row, top::{A, B}};\n", "`base` must not use `top`"),
    ("base.rs", "use crate::{\n    Arc,\n    peer as other,\n};\n", "`base` must not use `peer`"),
    ("base.rs", "fn f() { let _ = crate::top::A; }\n", "`base` must not use `top`"),
    ("base.rs", "use super::top;\n", "`base` must not use `top`"),
    ("base.rs", "use crate::Top;\n", "`base` must not use `top`"),
    ("base.rs", "use crate::Top as Bottom;\n", "`base` must not use `top`"),
    ("base/rows.rs", "use super::super::top::A;\n", "base/rows.rs:7: `base` must not use `top`"),
    ("base/rows.rs", "mod more {\n    use super::super::super::top::A;\n}\n", "rows.rs:8: `base` must not use `top`"),
    ("base/rows.rs", "macro_rules! m { () => { $crate::top::A } }\n", "`base` must not use `top`"),
    ("base/rows.rs", "#[cfg(any(test, feature = \"a\"))]\nuse crate::top::A;\n", "`base` must not use `top`"),
    ("base/rows.rs", "struct S { #[cfg(test)] a: u8, b: crate::top::A }\n", "`base` must not use `top`"),
    ("middle.rs", "use crate::*;\n", "`middle` must not use what the crate root defines"),
    ("middle.rs", "use crate::Missing;\n", "`crate::Missing` has no module"),
    ("lib.rs", "mod extra {}\n", "module `extra` is in no layer"),
    ("new.rs", "\n", "module `new` is in no layer"),
]


def self_test(folder: Path) -> tuple[int, list[str]]:
    """Return the number of deliberate faults, and those that were not found or that were mistaken."""
    def findings_of(layers: list, file: str = "lib.rs", added: str = "") -> list[str]:
        for name, text in (SMALL_CRATE | {file: SMALL_CRATE.get(file, "") + added}).items():
            (folder / "src" / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / "src" / name).write_text(text)
        return check_modules("small", folder, layers, folder / "src")

    faults = []
    if clean := findings_of(SMALL_LAYERS):
        faults.append(f"a clean crate has findings: {clean}")
    if (cycles := ModuleGraph(folder).cycles()) != []:
        faults.append(f"a clean crate has cycles: {cycles}")
    for file, added, expected in DELIBERATE_FAULTS:
        found = findings_of(SMALL_LAYERS, file, added)
        if len(found) != 1 or expected not in found[0]:
            faults.append(f"added to {file}: {added}  expected: {expected}\n  found: {found}")
        (folder / "src" / file).unlink()
    findings_of(SMALL_LAYERS, "base.rs", "use crate::top::A;\n")
    if (cycles := ModuleGraph(folder).cycles()) != [["base", "middle", "peer", "top"]]:
        faults.append(f"a cycle of four modules was added, but found {cycles}")
    layer_faults = [
        ([["base"], ["middle", "peer"], ["top"]], "`peer` must not use `middle`, which is in the same layer"),
        ([["base"], ["peer"], ["middle"], ["top"]], "`peer` must not use `middle`, which is in a higher layer"),
        ([["base"], ["middle"], ["peer"], ["top"], ["gone"]], "there is no module `gone`"),
    ]
    for layers, expected in layer_faults:
        found = findings_of(layers)
        if len(found) != 1 or expected not in found[0]:
            faults.append(f"layers {layers}\n  expected: {expected}\n  found: {found}")
    return len(DELIBERATE_FAULTS) + len(layer_faults) + 1, faults
