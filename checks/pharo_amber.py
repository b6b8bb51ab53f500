"""Tests the tools of `gatelodge pharo` with real Smalltalk: all tools on Amber, or only reading ones on a Pharo image.

Amber is not Pharo. The tests in `everywhere` apply to both; the others use packages that only our Amber image has.
"""

import base64
import contextlib
import http.client
import json
import os
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path
from typing import Callable, Iterator

from clients import free_port, wait_for
from peers import StdioPeer, HttpPeer
from pharo_cases import Findings

HERE = Path(__file__).resolve().parent / "pharo/amber"
TOOLS = {"eval", "get_class_source", "get_method_source", "get_class_comment", "search_classes_like", "search_methods_like",
         "search_traits_like", "search_implementors", "search_references", "search_references_to_class", "list_packages",
         "list_classes", "list_extended_classes", "list_methods", "export_package", "import_package", "install_project",
         "run_package_test", "run_class_test", "read_screen", "get_settings", "apply_settings"}
PASSED = "{} ran, {} passed, 0 skipped, 0 expected failures, {} failures, {} errors, 0 passed unexpected"


class NoResult(Exception):
    """A call failed unexpectedly. It is recorded; tests that depend on it are skipped."""


class Tools:
    """Calls tools, and checks the format of every result."""

    def __init__(self, peer: StdioPeer | HttpPeer, findings: Findings, folder: Path | None = None) -> None:
        self.peer, self.findings, self.folder, self.called = peer, findings, folder, set()

    def call(self, tool: str, **arguments: object) -> dict:
        self.called.add(tool)
        message = json.loads(self.peer.call(tool, arguments))
        return message.get("result") or {"isError": True, "content": [{"type": "text", "text": json.dumps(message)}]}

    def result(self, tool: str, **arguments: object) -> object:
        """Return the value of a successful call."""
        said = self.call(tool, **arguments)
        what = f"{tool} {json.dumps(arguments, ensure_ascii=False)}"
        whole, text = said.get("structuredContent") or {}, said["content"][0]["text"]
        self.findings.same(f"{what} works", (None, True), (said.get("isError") and text, whole.get("success")))
        value = whole.get("result")
        if "result" not in whole:
            raise NoResult(what)
        self.findings.same(f"{what}: the text is the result", value, text if isinstance(value, str) else json.loads(text))
        return value

    def run(self, *parts: Callable[["Tools"], None]) -> None:
        for part in parts:
            try:
                part(self)
            except NoResult as what:
                print(f"  the rest of {part.__name__} is skipped: {what}")

    def gives(self, wanted: object, tool: str, **arguments: object) -> None:
        with contextlib.suppress(NoResult):
            self.findings.same(f"{tool} {json.dumps(arguments, ensure_ascii=False)}", wanted, self.result(tool, **arguments))

    def holds(self, what: str, is_so: bool, found: object) -> None:
        self.findings.same(what, "as it should be", "as it should be" if is_so else found)

    def fails(self, parts: list[str], tool: str, **arguments: object) -> None:
        """Check that a call fails with an error that contains all parts."""
        said = self.call(tool, **arguments)
        text = said["content"][0]["text"]
        missing = [part for part in parts if part not in text]
        self.findings.same(f"{tool} {json.dumps(arguments, ensure_ascii=False)} fails",
                           (True, None, []), (said.get("isError"), said.get("structuredContent"), missing or []))
        if missing:
            print(f"  it said: {text}")


def everywhere(tools: Tools) -> None:
    """Only read, and only what both images have."""
    names = {tool["name"] for tool in json.loads(tools.peer.ask("tools/list", {}))["result"]["tools"]}
    tools.findings.same("the tools", sorted(TOOLS), sorted(names))
    tools.gives(7, "eval", code="3 + 4")
    tools.gives(7, "eval", code="| a |\na := 3.\n^ a + 4")
    tools.gives("añb ✓", "eval", code="'añ', 'b ✓'")
    tools.gives([1, 4, 9], "eval", code="#(1 2 3) collect: [ :each | each * each ]")
    tools.gives([None, True, [0.5]], "eval", code="{ nil. true. { 1 / 2 } }")
    tools.fails(["#thereIsNoSuchMessage", "UndefinedObject"], "eval", code="nil thereIsNoSuchMessage")
    tools.fails(["NoSuchClassAnywhere"], "get_class_source", class_name="NoSuchClassAnywhere")
    source = tools.result("get_class_source", class_name="Dictionary")
    tools.holds("the source of a class", "Dictionary" in source and "includesKey: " in source, source)
    source = tools.result("get_method_source", class_name="Dictionary", method_name="at:ifAbsent:")
    tools.holds("the source of a method", source.lstrip().startswith("at: "), source)
    comment = tools.result("get_class_comment", class_name="Object")
    tools.holds("the comment of a class", len(comment) > 20, comment)
    found = tools.result("search_classes_like", class_name_query="dictionar")
    tools.holds("classes by prefix, ignoring case", "Dictionary" in found and all(
        name.lower().startswith("dictionar") for name in found), found)
    found = tools.result("search_methods_like", method_name_query="printStr")
    tools.holds("methods by prefix", "printString" in found and all(name.startswith("printStr") for name in found), found)
    found = tools.result("search_traits_like", trait_name_query="t")
    tools.holds("traits by prefix", found and all(name.lower().startswith("t") for name in found), found)
    places = tools.result("search_implementors", method_name="keyAtValue:")
    tools.holds("implementors", places and all(place["method"] == "keyAtValue:" for place in places), places)
    for tool, name, value in (("search_references", "method_name_or_symbol", "printString"),
                              ("search_references_to_class", "class_name", "Dictionary")):
        found = tools.result(tool, **{name: value})
        tools.holds(tool, found and all(set(place) == {"class", "method", "package"} for place in found), found)
    packages = tools.result("list_packages")
    place = places[0]
    tools.holds("packages", place["package"] in packages, packages)
    classes, extended, methods = (tools.result(tool, package_name=place["package"])
                                  for tool in ("list_classes", "list_extended_classes", "list_methods"))
    tools.holds("classes of a package", place["class"] in classes + extended, classes)
    tools.holds("methods of a package", f"{place['class']}>>#keyAtValue:" in methods, methods)
    settings = tools.result("get_settings")
    tools.holds("settings", {"stackSize", "screenshotDir"} <= set(settings), settings)
    screen = tools.result("read_screen", capture_screenshot=False)
    tools.holds("the world", screen["target_type"] == "world" and "structure" in screen and "screenshot" not in screen, screen)


def on_lodge(tools: Tools) -> None:
    """Use the packages of our Amber image: sources, searches, test runs."""
    tools.gives(1, "eval", code="LodgeGate example inside size")
    tools.fails(["No strangers: Bob", "LodgeGate >> #admit:", "a LodgeGate", "inside"], "eval",
                code="LodgeGate new admit: 'Bob' asLodgeVisitor")
    tools.fails(["Parse error"], "eval", code="3 +")
    unmapped(tools)
    tools.gives("a LodgeGate", "eval", code="LodgeGate new printString")
    # A result may have any length.
    tools.gives("x" * 300_000, "eval", code="String streamContents: [ :s | 300000 timesRepeat: [ s nextPutAll: 'x' ] ]")
    tools.gives("example\n\t^ self new\n\t\tadmit: (LodgeVisitor named: 'Ada' badge: 1);\n\t\tyourself", "get_method_source",
                class_name="LodgeGate", method_name="example", is_class_method=True)
    tools.gives("isStranger\n\t^ badge isNil", "get_method_source", class_name="LodgeVisitor", method_name="isStranger")
    tools.gives("named: aString badge: aNumber\n\t^ self new\n\t\tname: aString;\n\t\tbadge: aNumber;\n\t\tyourself",
                "get_method_source", class_name="LodgeVisitor class", method_name="named:badge:")
    tools.fails(["#example", "LodgeGate"], "get_method_source", class_name="LodgeGate", method_name="example")
    tools.gives("I let visitors in, as many as fit, and no strangers.\n\nÜberschreitet jemand die Grenze, bleibt er draußen ✓",
                "get_class_comment", class_name="LodgeGate")
    tools.gives(["LodgeFaultyTest", "LodgeGate", "LodgeGateTest", "LodgeVisitor"], "search_classes_like", class_name_query="lodge")
    tools.gives([], "search_classes_like", class_name_query="odgeGate")
    tools.gives(["admit:"], "search_methods_like", method_name_query="admit")
    tools.gives([], "search_methods_like", method_name_query="Admit")
    tools.gives(["TLodgeNamed"], "search_traits_like", trait_name_query="tlodge")
    admit = {"class": "LodgeGate", "method": "admit:", "package": "Lodge"}
    tools.gives([admit], "search_implementors", method_name="admit:")
    tools.gives([admit], "search_references", method_name_or_symbol="isStranger")
    visitor = {"class": "String", "method": "asLodgeVisitor", "package": "Lodge"}
    found = tools.result("search_references_to_class", class_name="LodgeVisitor")
    tools.holds("references to a class", visitor in found and len(found) == 4, found)
    packages = tools.result("list_packages")
    tools.holds("packages in order", packages == sorted(packages) and {"Lodge", "Lodge-Tests", "SUnit"} <= set(packages), packages)
    tools.gives(["LodgeGate", "LodgeVisitor", "TLodgeNamed"], "list_classes", package_name="Lodge")
    tools.gives(["String"], "list_extended_classes", package_name="Lodge")
    found = tools.result("list_methods", package_name="Lodge")
    tools.holds("methods of both sides and of extensions", {"LodgeGate class>>#example", "LodgeGate>>#admit:",
                "String>>#asLodgeVisitor", "TLodgeNamed>>#label"} <= set(found) and len(found) == 13, found)
    tools.fails(["There is no package 'None'"], "list_classes", package_name="None")
    tools.gives(PASSED.format(4, 4, 0, 0), "run_class_test", class_name="LodgeGateTest")
    faulty = "\rFailures:\rLodgeFaultyTest>>#testFails\rErrors:\rLodgeFaultyTest>>#testBreaks"
    tools.gives(PASSED.format(7, 5, 1, 1) + faulty, "run_package_test", package_name="Lodge-Tests")
    tools.gives("No tests to run", "run_package_test", package_name="Lodge")
    tools.fails(["LodgeGate is no test class"], "run_class_test", class_name="LodgeGate")


def unmapped(tools: Tools) -> None:
    """Check a value without a JSON form: the evaluation itself succeeded."""
    said = tools.call("eval", code="LodgeGate new")
    whole, text = said.get("structuredContent", {}), said["content"][0]["text"]
    tools.findings.same("a value without a mapping", (False, True, ["error", "success"]),
                        (said.get("isError", False), whole.get("success"), sorted(whole)))
    tools.holds("what to do with it", "No JSON mapping for LodgeGate" in text and "printString" in text, text)


def on_files(tools: Tools) -> None:
    """Export and import a package; install a project from a folder."""
    out = tools.folder / "out of the image"
    before = tools.result("get_class_source", class_name="LodgeGate")
    tools.gives(f"Lodge-Tests exported to: {out}", "export_package", package_name="Lodge-Tests", path=str(out))
    text = (out / "Lodge-Tests.st").read_text()
    tools.holds("the file of a package", "TestCase subclass: #LodgeGateTest" in text, text)
    tools.gives(1, "eval", code="Smalltalk removePackage: 'Lodge-Tests'. 1")
    tools.gives([], "search_classes_like", class_name_query="LodgeGateT")
    tools.gives(f"Lodge-Tests imported from: {out}", "import_package", package_name="Lodge-Tests", path=str(out))
    tools.gives(PASSED.format(4, 4, 0, 0), "run_class_test", class_name="LodgeGateTest")
    # A change of the file changes the image.
    tools.result("export_package", package_name="Lodge", path=str(out))
    file = out / "Lodge.st"
    file.write_text(file.read_text().replace("limit ifNil: [ 2 ]", "limit ifNil: [ 9 ]"))
    tools.gives(2, "eval", code="LodgeGate new limit")
    tools.gives(f"Lodge imported from: {out}", "import_package", package_name="Lodge", path=str(out))
    tools.gives(9, "eval", code="LodgeGate new limit")
    tools.gives(before.replace("[ 2 ]", "[ 9 ]"), "get_class_source", class_name="LodgeGate")
    tools.fails(["ENOENT", "Nowhere.st"], "import_package", package_name="Nowhere", path=str(out))
    tools.fails(["There is no package 'Nowhere'"], "export_package", package_name="Nowhere", path=str(out))
    repository = f"file://{HERE}/repository"
    tools.gives("Installed: Keys", "install_project", project_name="Keys", repository_url=repository)
    tools.gives([], "search_classes_like", class_name_query="KeyTest")
    tools.gives("Installed: Keys, Keys-Tests", "install_project", project_name="Keys", repository_url=repository,
                load_groups="Tests")
    tools.gives(PASSED.format(1, 1, 0, 0), "run_package_test", package_name="Keys-Tests")
    tools.fails(["There is no Metacello in Amber"], "install_project", project_name="Seaside",
                repository_url="github://SeasideSt/Seaside:master/repository")


def on_screen(tools: Tools) -> None:
    said = tools.call("read_screen")
    if not said.get("structuredContent"):
        tools.findings.same("read_screen works", True, said["content"])
        raise NoResult("read_screen")
    screen = said["structuredContent"]["result"]
    tools.findings.same("morphs", [3, 3, 3], [screen["structure"]["totalMorphs"], screen["structure"]["displayedMorphCount"],
                                              len(screen["structure"]["morphs"])])
    tools.holds("location of the screenshot", Path(screen["screenshot"]).parent == tools.folder, screen["screenshot"])
    images = [block for block in said["content"] if block["type"] == "image"]
    tools.findings.same("image content", ["image/png"], [block["mimeType"] for block in images])
    if images:
        picture = base64.b64decode(images[0]["data"])
        tools.holds("it is the file", picture == Path(screen["screenshot"]).read_bytes(), len(picture))
        tools.findings.same("its size and its corners", (160, 100, (200, 210, 220), (90, 110, 140)), png_summary(picture))
    odd = tools.result("read_screen", target_type="nothing known", capture_screenshot=False)
    tools.findings.same("an unknown target", ("nothing known", 3), (odd["target_type"], odd["structure"]["totalMorphs"]))
    spec = tools.result("read_screen", target_type="spec", capture_screenshot=False)
    tools.findings.same("Spec has no counts where it is not", {"presenters": []}, spec["structure"])


def png_summary(picture: bytes) -> tuple:
    """Return width, height and two pixels: of the background and of the title."""
    chunks, at = {}, 8
    while at < len(picture):
        length, kind = int.from_bytes(picture[at:at + 4], "big"), picture[at + 4:at + 8].decode()
        data = picture[at + 8:at + 8 + length]
        if zlib.crc32(picture[at + 4:at + 8 + length]) != int.from_bytes(picture[at + 8 + length:at + 12 + length], "big"):
            return ("broken", kind)
        chunks[kind], at = data, at + 12 + length
    width, height = (int.from_bytes(chunks["IHDR"][at:at + 4], "big") for at in (0, 4))
    pixels = zlib.decompress(chunks["IDAT"])

    def pixel(x: int, y: int) -> tuple:
        at = y * (1 + width * 3) + 1 + x * 3
        return tuple(pixels[at:at + 3])

    return width, height, pixel(0, 0), pixel(25, 20)


def on_settings(tools: Tools) -> None:
    deep = tools.call("eval", code="LodgeGate new admit: 'Bob' asLodgeVisitor")["content"][0]["text"]
    tools.gives("Settings applied successfully", "apply_settings", settings={"stack_size": 1, "my_own_key": {"a": [1, None]}})
    settings = tools.result("get_settings")
    tools.findings.same("settings", {"stackSize": 1, "screenshotDir": str(tools.folder), "myOwnKey": {"a": [1, None]}}, settings)
    shallow = tools.call("eval", code="LodgeGate new admit: 'Bob' asLodgeVisitor")["content"][0]["text"]
    tools.findings.same("frames in an error", (True, False), ("#xxxDoIt" in deep, "#xxxDoIt" in shallow))
    elsewhere = tools.folder / "elsewhere"
    elsewhere.mkdir()
    tools.result("apply_settings", settings={"screenshot_dir": str(elsewhere), "stack_size": 100})
    screen = tools.result("read_screen")
    tools.holds("screenshots are in the configured folder", Path(screen["screenshot"]).parent == elsewhere, screen["screenshot"])


def image_itself(findings: Findings, port: int) -> None:
    """Send requests that our server never sends; the Amber image answers like Pharo."""
    def ask(method: str, path: str, body: str | None = None) -> tuple[int, object]:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        connection.request(method, path, body, {"content-type": "application/json"})
        response = connection.getresponse()
        text = response.read().decode()
        connection.close()
        return response.status, json.loads(text) if response.status == 200 else text

    findings.same("an unknown route", (404, "Not found"), ask("GET", "/no-such-route"))
    findings.same("eval by GET", (404, "Not found"), ask("GET", "/eval?code=3"))
    for method, path, body in (("GET", "/get-class-source", None), ("GET", "/search-references?symbol=x", None),
                               ("POST", "/eval", "{}"), ("POST", "/eval", "{"), ("POST", "/apply-settings", "{}")):
        status, said = ask(method, path, body)
        error = said.get("error", {})
        findings.same(f"{method} {path} {body}", (200, False, ["description", "receiver", "stack_trace"]),
                      (status, said["success"], sorted(error)))
    findings.same("a value without a mapping", (200, True, False, ["description", "suggestion"]),
                  (lambda status, said: (status, said["success"], "result" in said, sorted(said["error"])))(
                      *ask("POST", "/eval", '{"code": "Object new"}')))


@contextlib.contextmanager
def amber(node: str, folder: Path, log: object) -> Iterator[int]:
    if not (HERE / "node_modules").is_dir():
        sys.exit(f"error: {HERE}/node_modules is missing; run `npm ci --ignore-scripts` there")
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "PHARO_SIS_SCREENSHOT_DIR": str(folder)}
    process = subprocess.Popen([node, str(HERE / "image.mjs")], stdout=subprocess.PIPE, stderr=log, env=environment)
    try:
        said = json.loads(process.stdout.readline() or "{}")
        if "not Pharo" not in said.get("image", ""):
            sys.exit(f"error: the image printed only {said}")
        print(f"  {said['image']}")
        yield said["port"]
    finally:
        process.terminate()
        process.wait(20)
        process.stdout.close()


def on_amber(program: str, node: str, findings: Findings) -> None:
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory())).resolve()
        log = stack.enter_context((folder / "log").open("w"))
        port = stack.enter_context(amber(node, folder, log))
        image_itself(findings, port)
        peer = StdioPeer([program, "pharo", "--port", str(port)], log)
        peer.hello()
        tools = Tools(peer, findings, folder)
        tools.run(everywhere, on_lodge, on_files, on_screen, on_settings)
        findings.same("tools that were called", sorted(TOOLS), sorted(tools.called))
        findings.same("answers to one request", [], peer.answered_more_than_once())
        findings.same("its end", 0, peer.end())
        over_http(program, port, findings, log)
        if findings.failed:
            print((folder / "log").read_text()[-3000:])


def over_http(program: str, port: int, findings: Findings, log: object) -> None:
    address = f"127.0.0.1:{free_port()}"
    server = subprocess.Popen([program, "pharo", "--port", str(port), "--http", address], stdout=log, stderr=log)
    try:
        wait_for(int(address.split(":")[1]), server, "gatelodge pharo --http")
        peer = HttpPeer(f"http://{address}/mcp", "none")
        peer.hello()
        Tools(peer, findings).run(everywhere)
        peer.end()
    finally:
        server.terminate()
        server.wait(20)


def on_live(program: str, port: int, findings: Findings) -> None:
    peer = StdioPeer([program, "pharo", "--port", str(port)], sys.stderr)
    peer.hello()
    Tools(peer, findings).run(everywhere)
    findings.same("its end", 0, peer.end())
