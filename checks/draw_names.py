"""Draws names and doc comments at random, for a reader who has not seen the project.

    draw_names.py names      40 types and modules with their crate, one per line
    draw_names.py comments   44 doc comments with their place
    draw_names.py all        every type and module, to look for duplicates

The seed is the hash of the commit and the number of the draw, so a draw can be repeated and cannot be chosen.
Tests are left out: files called `tests.rs`, folders called `tests`, and modules under `#[cfg(test)]`.
"""

import argparse
import hashlib
import pathlib
import random
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# An indented `type` is an associated type, which its trait names.
TYPE = re.compile(r"^(?:\s*(?:pub(?:\([^)]*\))? )?(?:struct|enum|trait|union)|(?:pub(?:\([^)]*\))? )?type) ([A-Z]\w*)")
# Types that macros define: the macro, and the lines of its invocation that name a type. A type that is named in the
# definition of a macro is found like any other.
MACRO_TYPES = {
    "string_enum": re.compile(r"^    ([A-Z]\w*) \{$"),
    "section": re.compile(r"^    ([A-Z]\w*) at \""),
    "names": re.compile(r"^    ([A-Z]\w*), [A-Z]\w*, \|"),
}
MACRO = re.compile(r"^macro_rules! (\w+) \{(.*?)^\}", re.M | re.S)
COMMENT = re.compile(r"^\s*(//[/!])(?!/) ?(.*)$")


def sources():
    """Yields (crate, path) of every source file outside tests."""
    for folder in ("crates", "tools"):
        for path in sorted((ROOT / folder).glob("*/src/**/*.rs")):
            parts = path.relative_to(ROOT).parts
            if "tests" not in parts and path.name != "tests.rs":
                yield parts[1], path


def without_tests(text):
    """Cuts a file at its test module, which is the last item by convention. `mod tests;` may stand anywhere."""
    return re.split(r"^#\[cfg\(test\)\]\s*\n(?:#\[[^\n]*\n)*mod \w+ \{", text, maxsplit=1, flags=re.M)[0]


def names():
    """All (crate, kind, name, place)."""
    found = []
    for crate, path in sources():
        place = path.relative_to(ROOT)
        if path.name not in ("lib.rs", "main.rs"):
            found.append((crate, "module", path.stem, str(place)))
        text = without_tests(path.read_text())
        for macro, body in MACRO.findall(text):
            if re.search(r"\b(?:struct|enum|trait|union|type) \$", body) and macro not in MACRO_TYPES:
                sys.exit(f"error: {place}: MACRO_TYPES does not say which types `{macro}!` defines")
        # The name of an associated type is given by its trait.
        depth_of_impl = type_in_macro = None
        for number, line in enumerate(text.split("\n"), 1):
            if re.match(r"(?:pub(?:\([^)]*\))? )?(?:impl|trait)\b", line) and line.rstrip().endswith("{"):
                depth_of_impl = True
            elif line.startswith("}"):
                depth_of_impl = None
            if invocation := re.match(r"(\w+)! \{$", line):
                type_in_macro = MACRO_TYPES.get(invocation[1])
            elif line.startswith("}"):
                type_in_macro = None
            matched = TYPE.match(line) or (type_in_macro and type_in_macro.match(line))
            if matched and not (depth_of_impl and line.startswith(" ")):
                found.append((crate, "type", matched[1], f"{place}:{number}"))
    return found


def comments():
    """All (place, text) of doc comments, a block each."""
    found = []
    for _, path in sources():
        block, start, mark = [], 0, None
        for number, line in enumerate(without_tests(path.read_text()).split("\n") + [""], 1):
            matched = COMMENT.match(line)
            if matched and mark in (None, matched[1]):
                if not block:
                    start = number
                mark = matched[1]
                block.append(matched[2])
            elif block:
                found.append((f"{path.relative_to(ROOT)}:{start}", " ".join(block).strip()))
                block, mark = ([matched[2]], matched[1]) if matched else ([], None)
                start = number
    return [one for one in found if one[1]]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("names", "comments", "all"))
    parser.add_argument("--draw", type=int, default=1, help="number of the draw (default 1)")
    parser.add_argument("--places", action="store_true", help="print the location of each name, for checking the guesses")
    arguments = parser.parse_args()
    if arguments.what == "all":
        for row in sorted(set(names()), key=lambda row: (row[2].lower(), row)):
            print("\t".join(row))
        return
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    seed = hashlib.sha256(f"{commit.strip()} {arguments.draw} {arguments.what}".encode()).hexdigest()
    chance = random.Random(seed)
    print(f"commit {commit.strip()}, draw {arguments.draw}", file=sys.stderr)
    if arguments.what == "names":
        for crate, kind, name, place in chance.sample(names(), 40):
            print(f"{crate}\t{kind}\t{name}" + (f"\t{place}" if arguments.places else ""))
    else:
        for place, text in chance.sample(comments(), 44):
            print(f"{place}\t{text}")


if __name__ == "__main__":
    main()
