"""Runs the cases for an MCP server of a Pharo image, and compares two servers.

A case is a call and the response of the image. The requests to the image are compared byte for byte, as are the results
for the client.
"""

import json
from pathlib import Path

from peers import StdioPeer, NoAnswer
from pharo_image import Image

HERE = Path(__file__).resolve().parent / "pharo"
CASES = HERE / "cases.json"
RECORDED = HERE / "recorded.json"

# Longer than the time limit of the original.
WAIT = 45

# Known differences and their reasons. A case names its reason in `differs`. If it has `ours`, our result must be exactly
# that; otherwise the text is not compared, and the requests to the image and `isError` must be equal.
DIFFERENCES = {
    "validation": "the original returns the text of its validation library, which names its Python functions",
    "library": "the original returns a text of its libraries about themselves",
    "reader": "our JSON reader refuses repeated keys and numbers beyond 10^308, and nothing is sent",
    "encoding": "ours reads only UTF-8",
}


def cases() -> list[dict]:
    return json.loads(CASES.read_text())


class Findings:
    def __init__(self) -> None:
        self.checked, self.failed = 0, 0

    def same(self, what: str, wanted: object, found: object) -> None:
        self.checked += 1
        if wanted != found:
            self.failed += 1
            print(f"FAILED {what}\n  wanted: {short(wanted)}\n  found:  {short(found)}")

    def compare(self, case: dict, theirs: dict, ours: dict) -> None:
        """Compare a case, which counts as one check."""
        self.checked += 1
        if found := differences(case, theirs, ours):
            self.failed += 1
            print(f"FAILED {case['name']}")
            for what, their_one, our_one in found:
                print(f"  {what}\n    original: {short(their_one)}\n    ours:     {short(our_one)}")


def short(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) < 1000 else f"{text[:600]} … {text[-300:]}"


class RawClient(StdioPeer):
    """A client that sends arguments unchanged: numbers keep their spelling, keys may be repeated."""

    def call_text(self, tool: str, arguments: str, within: float) -> str:
        request = self.request("tools/call", {"name": tool, "arguments": {}})
        name = json.dumps(tool)
        self.send_text(f'{{"jsonrpc":"2.0","id":{request["id"]},"method":"tools/call",'
                       f'"params":{{"name":{name},"arguments":{arguments}}}}}')
        return self.answer_to(request, within)


def run_case(case: dict, image: Image, caller: RawClient) -> dict:
    """Run a case and return the requests to the image and the result for the client."""
    image.answer = case.get("answer", {})
    is_refused = image.answer.get("fault") == "refused"
    if is_refused:
        image.close()
    try:
        said = result_of(caller.call_text(case["tool"], case.get("text", json.dumps(case.get("arguments"))), WAIT))
    except NoAnswer as silence:
        said = {"silence": str(silence)}
    finally:
        if is_refused:
            image.open()
    return {"asked": image.asked(), "reply": said}


def result_of(text: str) -> dict:
    message = json.loads(text)
    if "error" in message:
        return {"error": message["error"]["code"]}
    result = message["result"]
    said = {"isError": result.get("isError", False), "content": [block.get("text", block) for block in result["content"]]}
    if result.get("structuredContent") is not None:
        said["structured"] = member(text, "structuredContent")
    return said


def member(text: str, key: str) -> str:
    """Return the raw text of a member of the result. Elsewhere the key occurs only inside strings, with escaped quotes."""
    at = text.index(f'"{key}":') + len(key) + 3
    at += len(text[at:]) - len(text[at:].lstrip())
    return text[at:json.JSONDecoder().raw_decode(text, at)[1]]


def tree(text: str) -> object:
    """Return a tree that keeps the spelling of numbers. The order of members is compared in the text content."""
    return json.loads(text, parse_int=str, parse_float=lambda number: {"float": number}, parse_constant=lambda word: {"word": word})


def comparable(case: dict, said: dict) -> dict[str, object]:
    """Return the compared parts of a run by name."""
    asked, result = said["asked"], said["reply"]
    facts = {"requests to the image": asked, "isError": result.get("isError")}
    facts |= {what: result[what] for what in ("error", "silence") if what in result}
    if is_by_text(case):
        facts["content"] = result.get("content")
        facts["structured content"] = tree(result["structured"]) if "structured" in result else None
    return facts


def is_by_text(case: dict) -> bool:
    return "differs" not in case or "ours" in case


def differences(case: dict, theirs: dict, ours: dict) -> list[tuple[str, object, object]]:
    wanted, found = comparable(case, case.get("ours", theirs)), comparable(case, ours)
    return [(what, wanted.get(what), found.get(what)) for what in wanted | found if wanted.get(what) != found.get(what)]


def recordable(case: dict, said: dict) -> dict:
    """Return the recorded parts of a run: those that are compared."""
    return said if is_by_text(case) else {"asked": said["asked"], "reply": {"isError": said["reply"]["isError"]}}
