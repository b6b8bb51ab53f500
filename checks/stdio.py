#!/usr/bin/env python3
"""Tests real stdio servers: directly, behind the gateway, behind `wrap` and behind `bridge`.

    stdio.py --gatelodge PROGRAM --node PROGRAM --python FOLDER --python-1 FOLDER

The folders are Python environments with the servers of `servers/requirements.txt` and of `servers/requirements-1.txt`.
Lists must be equal byte by byte, and deterministic calls must give equal results, in each protocol generation that the
server supports. Nothing is skipped: a server that cannot be started fails the run.
"""

import argparse
import contextlib
import http.server
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable

sys.path.insert(0, str(Path(__file__).resolve().parent))
from clients import Findings, free_port, make_token, wait_for  # noqa: E402
from peers import META, StdioPeer, Peer, HttpPeer, NoAnswer  # noqa: E402

PACKAGES = Path(__file__).resolve().parent / "servers/node_modules/@modelcontextprotocol"
LISTS = ["tools", "resources", "resources/templates", "prompts"]
PAGE = "<html><head><title>Hours</title></head><body><article><h1>Hours</h1><p>Open from <b>nine</b> to five.</p></article></body></html>"
DATE = "2026-01-02T03:04:05+00:00"


@dataclass
class Server:
    name: str
    command: list[str]
    # Pairs of method and parameters; a plain string is a tool.
    calls: list[tuple[str, dict]]
    env: dict[str, str] = field(default_factory=dict)
    is_stateless: bool = False
    # Prepares its files before each session.
    prepare: Callable[[], None] = lambda: None


def read(uri: str) -> tuple[str, dict]:
    return "resources/read", {"uri": uri}


def ask_for(prompt: str, **arguments: str) -> tuple[str, dict]:
    return "prompts/get", {"name": prompt, "arguments": arguments}


def servers(arguments: argparse.Namespace, folder: Path, page: str) -> list[Server]:
    def script(package: str, *words: str) -> list[str]:
        path = PACKAGES / package / "dist/index.js"
        if not path.exists():
            sys.exit(f"error: {path} is missing; run `npm ci` in {PACKAGES.parent.parent}")
        return [arguments.node, str(path), *words]

    files, repository, base, graph = folder / "files", folder / "repository", folder / "base.db", folder / "graph.json"

    def prepare_files() -> None:
        shutil.rmtree(files, ignore_errors=True)
        (files / "deep/er").mkdir(parents=True)
        (files / "note.txt").write_text("first\nsecond ünïcode ✓\n")
        (files / "deep/er/numbers.json").write_text('{"a": 1.10, "b": 12345678901234567890}')

    def prepare_repository() -> None:
        shutil.rmtree(repository, ignore_errors=True)
        repository.mkdir()
        who = {"GIT_AUTHOR_NAME": "Ada", "GIT_AUTHOR_EMAIL": "ada@example.com", "GIT_AUTHOR_DATE": DATE,
               "GIT_COMMITTER_NAME": "Ada", "GIT_COMMITTER_EMAIL": "ada@example.com", "GIT_COMMITTER_DATE": DATE,
               "HOME": str(folder), "PATH": os.environ["PATH"], "GIT_CONFIG_NOSYSTEM": "1"}

        def git(*words: str) -> None:
            subprocess.run(["git", "-c", "init.defaultBranch=main", *words], cwd=repository, env=who, check=True, capture_output=True)

        git("init")
        (repository / "a.txt").write_text("one\n")
        git("add", ".")
        git("commit", "-m", "first")
        (repository / "a.txt").write_text("one\ntwo\n")
        (repository / "new.txt").write_text("new\n")

    here = {"repo_path": str(repository)}
    thought = {"thought": "It is late.", "nextThoughtNeeded": True, "thoughtNumber": 1, "totalThoughts": 2}
    entity = {"name": "Ada", "entityType": "person", "observations": ["counts", "writes ✓"]}
    return [
        Server("filesystem", script("server-filesystem", str(files)), [
            ("read_text_file", {"path": str(files / "note.txt")}), ("list_directory", {"path": str(files)}),
            ("directory_tree", {"path": str(files)}), ("write_file", {"path": str(files / "b.txt"), "content": "b"}),
            ("read_multiple_files", {"paths": [str(files / "b.txt"), str(files / "deep/er/numbers.json")]}),
            ("read_text_file", {"path": "/etc/passwd"}), ("read_text_file", {}),
        ], prepare=prepare_files),
        Server("memory", script("server-memory"), [
            ("create_entities", {"entities": [entity, entity | {"name": "Bob"}]}),
            ("create_relations", {"relations": [{"from": "Ada", "to": "Bob", "relationType": "knows"}]}),
            ("read_graph", {}), ("search_nodes", {"query": "ada"}), ("open_nodes", {"names": ["Bob"]}),
            read("memory://knowledge-graph"),
        ], {"MEMORY_FILE_PATH": str(graph)}, prepare=lambda: graph.unlink(missing_ok=True)),
        Server("everything", script("server-everything", "stdio"), [
            ("echo", {"message": "hello"}), ("get-sum", {"a": 2, "b": 3}), ("get-tiny-image", {}),
            ("get-structured-content", {"location": "Chicago"}), ("get-annotated-message", {"messageType": "error"}),
            ("echo", {}), read("demo://resource/static/document/features.md"), ask_for("simple-prompt"),
            ask_for("args-prompt", city="Paris"),
        ]),
        Server("sequential-thinking", script("server-sequential-thinking"), [
            ("sequentialthinking", thought), ("sequentialthinking", thought | {"thoughtNumber": 2}),
            ("sequentialthinking", {"thought": 1}),
        ], {"DISABLE_THOUGHT_LOGGING": "true"}),
        Server("git", [f"{arguments.python}/bin/mcp-server-git"], [
            ("git_status", here), ("git_log", here | {"max_count": 3}), ("git_diff_unstaged", here), ("git_add", here | {"files": ["new.txt"]}),
            ("git_status", here), ("git_show", here | {"revision": "HEAD"}), ("git_status", {"repo_path": str(folder / "none")}),
        ], is_stateless=True, prepare=prepare_repository),
        Server("fetch", [f"{arguments.python}/bin/mcp-server-fetch", "--ignore-robots-txt", "--allow-private-ips"], [
            ("fetch", {"url": page}), ("fetch", {"url": page, "raw": True, "max_length": 20}), ("fetch", {"url": page + "none"}),
            ask_for("fetch", url=page + "none"),
        ], is_stateless=True),
        Server("time", [f"{arguments.python}/bin/mcp-server-time", "--local-timezone", "Etc/UTC"], [
            ("convert_time", {"source_timezone": "Asia/Tokyo", "time": "10:30", "target_timezone": "Asia/Kolkata"}),
            ("convert_time", {"source_timezone": "Nowhere", "time": "10:30", "target_timezone": "Etc/UTC"}),
        ], is_stateless=True),
        Server("sqlite", [f"{arguments.python_1}/bin/mcp-server-sqlite", "--db-path", str(base)], [
            ("create_table", {"query": "CREATE TABLE t (a INTEGER, b TEXT)"}),
            ("write_query", {"query": "INSERT INTO t VALUES (1, 'x'), (2, 'ünïcode ✓')"}),
            ("read_query", {"query": "SELECT * FROM t ORDER BY a"}), ("list_tables", {}), ("describe_table", {"table_name": "t"}),
            ("append_insight", {"insight": "Few rows."}), read("memo://insights"), ("read_query", {"query": "DROP TABLE t"}),
            ask_for("mcp-demo", topic="tea"),
        ], prepare=lambda: base.unlink(missing_ok=True)),
    ]


def elements(text: str, key: str) -> dict[str, str]:
    """Return the raw text of each element of a list, by name or URI."""
    decoder, found = json.JSONDecoder(), {}
    message = json.loads(text)
    if "error" in message:
        return {"error": json.dumps(message["error"])}
    at = text.index("[", text.index(f'"{key}"')) + 1
    while text[at] != "]":
        if text[at] in ", \n":
            at += 1
            continue
        element, end = decoder.raw_decode(text, at)
        found[element.get("name", element.get("uri"))] = text[at:end]
        at = end
    return found


def result(text: str) -> str:
    """Return the raw text of the result or the error. The envelope is the gateway's own for merged lists."""
    key = next(key for key in ('"result":', '"error":') if key in text)
    at = text.index(key) + len(key)
    return text[at:json.JSONDecoder().raw_decode(text, at)[1]]


def answers_of(peer: Peer, server: Server, stateless: bool) -> dict[str, object]:
    """Return the answers to a fixed sequence of requests."""
    said: dict[str, object] = {}

    def ask(method: str, params: dict) -> str:
        return peer.ask(method, params | {"_meta": META} if stateless else params)

    said["hello"] = ask("server/discover", {}) if stateless else peer.hello()
    for name in LISTS:
        key = "resourceTemplates" if name == "resources/templates" else name
        text = ask(f"{name}/list", {})
        said[f"{name}/list"] = list(elements(text, key).items())
        said[f"{name}/list, whole"] = result(text)
    for number, (name, params) in enumerate(server.calls):
        method, params = (name, params) if "/" in name else ("tools/call", {"name": name, "arguments": params})
        said[f"{number}: {method} {name}"] = ask(method, params)
    return said


def is_stateless_server(environment: dict[str, str], server: Server) -> bool:
    """Return whether it answers a stateless request."""
    server.prepare()
    peer = StdioPeer(server.command, env=environment | server.env)
    text = peer.ask("server/discover", {"_meta": META})
    stop(peer)
    return "2026-07-28" in json.loads(text).get("result", {}).get("supportedVersions", [])


def stop(peer: Peer) -> None:
    if isinstance(peer, StdioPeer):
        peer.process.stdin.close()
        try:
            peer.process.wait(10)
        except subprocess.TimeoutExpired:
            peer.process.kill()
            raise
    else:
        peer.end()


def configuration(folder: Path, every: list[Server], tokens: dict[str, str], port: int) -> Path:
    (folder / "all.json").write_text('{"version":"1","default":"allow"}')
    text = f'[gateway]\nlisten = "127.0.0.1:{port}"\n[admin]\nlisten = "127.0.0.1:{free_port()}"\n[store]\ndata = "data"\n'
    text += '[[policies]]\nname = "all"\nfile = "all.json"\n'
    for server in every:
        (folder / f"{server.name}.token").write_text(tokens[server.name])
        env = ", ".join(f"{name} = {json.dumps(value)}" for name, value in server.env.items())
        text += (f'[[servers]]\nname = "{server.name}"\ncommand = {json.dumps(server.command)}\nenv = {{ {env} }}\n'
                 f'[[grants]]\nlabel = "{server.name}"\ntoken_file = "{server.name}.token"\nserver = "{server.name}"\npolicy = "all"\n')
    path = folder / "gatelodge.toml"
    path.write_text(text)
    return path


class Site(http.server.BaseHTTPRequestHandler):
    """The page for `fetch`."""

    def do_GET(self) -> None:
        is_there = self.path == "/hours/"
        text = PAGE.encode() if is_there else b"none"
        self.send_response(200 if is_there else 404)
        self.send_header("content-type", "text/html")
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: object) -> None:
        pass


def compare(findings: Findings, what: str, direct: dict[str, object], through: dict[str, object]) -> None:
    for question, answer in direct.items():
        findings.same(f"{what}: {question}", answer, through.get(question))


def compare_across(findings: Findings, what: str, stateful: dict[str, object], through: dict[str, object]) -> None:
    """Compare the answers of a stateful server for a stateless client: the same content in the stateless format."""
    hello = json.loads(through["hello"])
    findings.same(f"{what}: revisions", "2026-07-28" in hello.get("result", {}).get("supportedVersions", []), True)
    for question, answer in stateful.items():
        answers_of = through.get(question)
        if question.endswith("/list"):
            findings.same(f"{what}: {question}", answer, answers_of)
        elif question[0].isdigit():
            findings.same(f"{what}: {question}", plain(answer), plain(answers_of))


def plain(text: str) -> dict:
    """Return an answer without the members of stateless results."""
    answer = json.loads(text)
    for member in ("resultType", "ttlMs", "cacheScope"):
        answer.get("result", {}).pop(member, None)
    return answer


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("--gatelodge", "--node", "--python", "--python-1"):
        parser.add_argument(name, required=True)
    parser.add_argument("--only", help="test only this server")
    arguments = parser.parse_args()
    findings, since, generations = Findings(), time.monotonic(), []
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        site = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Site)
        threading.Thread(target=site.serve_forever, daemon=True).start()
        every = servers(arguments, folder, f"http://127.0.0.1:{site.server_port}/hours/")
        every = [server for server in every if arguments.only in (None, server.name)]
        # The environment that `serve` passes to each server.
        environment = {"HOME": str(folder), "PATH": os.environ["PATH"]}
        tokens, port = {server.name: make_token() for server in every}, free_port()
        path = configuration(folder, every, tokens, port)
        log = stack.enter_context((folder / "log").open("w"))
        gateway = subprocess.Popen([arguments.gatelodge, "serve", "--config", str(path)], stdout=log, stderr=log, env=environment)
        stack.callback(gateway.wait)
        stack.callback(gateway.terminate)
        wait_for(port, gateway, "gatelodge")

        def ways(server: Server, stateless: bool) -> dict[str, Callable[[], Peer]]:
            url, own = f"http://127.0.0.1:{port}/mcp/{server.name}", environment | server.env
            wrap = [arguments.gatelodge, "wrap", "--policy", str(folder / "all.json"), "--name", server.name,
                    "--data", str(folder / "wrapped"), "--", *server.command]
            bridge = [arguments.gatelodge, "bridge", url]
            return {
                "serve": lambda: HttpPeer(url, tokens[server.name], stateless),
                "wrap": lambda: StdioPeer(wrap, log, env=own),
                "bridge": lambda: StdioPeer(bridge, log, env=environment | {"GATELODGE_TOKEN": tokens[server.name]}),
            }

        def converse(start: Callable[[], Peer], server: Server, stateless: bool) -> dict[str, object]:
            server.prepare()
            peer = start()
            try:
                return answers_of(peer, server, stateless)
            finally:
                stop(peer)

        for server in every:
            began = time.monotonic()
            stateless = is_stateless_server(environment, server)
            findings.same(f"{server.name}: speaks 2026-07-28", stateless, server.is_stateless)
            generations.append(f"{server.name} {'both generations' if stateless else 'stateful'}")
            for is_stateless in (False, True)[:1 + stateless]:
                direct = converse(lambda: StdioPeer(server.command, env=environment | server.env), server, is_stateless)
                for way, start in ways(server, is_stateless).items():
                    what = f"{server.name}, {'stateless' if is_stateless else 'stateful'}, {way}"
                    try:
                        compare(findings, what, direct, converse(start, server, is_stateless))
                    except (NoAnswer, subprocess.TimeoutExpired) as fault:
                        findings.same(what, "answers", str(fault))
            if not stateless:
                # A stateless client does not notice that the server is stateful.
                stateful = converse(lambda: StdioPeer(server.command, env=environment | server.env), server, False)
                all_ways = ways(server, True)
                # `bridge` would share the session that `serve` has opened for this grant, with the server's state.
                for way, start in ((way, all_ways[way]) for way in ("serve", "wrap")):
                    compare_across(findings, f"{server.name}, stateless client, {way}", stateful, converse(start, server, True))
            print(f"  {server.name}: {time.monotonic() - began:.1f} s", flush=True)
        if findings.failed:
            print((folder / "log").read_text()[-3000:])
    print(f"stdio: {', '.join(generations)}; {time.monotonic() - since:.0f} s; "
          f"{findings.checked - findings.failed} passed, {findings.failed} failed")
    sys.exit(1 if findings.failed else 0)


if __name__ == "__main__":
    main()
