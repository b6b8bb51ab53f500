"""A small MCP server over standard streams. It writes each call it gets to a file, so that others can count them.

What it says of its tool `add` comes from the environment or from a file, so that it can change between two starts.
"""

import json
import os
import signal
import sys

SAYS = os.environ.get("ADD_SAYS", "Adds a note.")
if os.path.exists(os.environ.get("SAYS_FILE", "")):
    with open(os.environ["SAYS_FILE"], encoding="utf-8") as said:
        SAYS = said.read()
TOOLS = [
    {"name": "add", "description": SAYS, "inputSchema": {"type": "object"}},
    {"name": "crash", "description": "Ends by a signal.", "inputSchema": {"type": "object"}},
    {"name": "wipe", "description": "Removes all notes.", "inputSchema": {"type": "object"}},
    {"name": "env", "description": "Tells its environment.", "inputSchema": {"type": "object"}},
]


def answer(message: dict) -> dict | None:
    method, params = message["method"], message.get("params", {})
    if method == "initialize":
        info = {"name": "notes", "version": "1"}
        return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": info}
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "tools/call":
        with open(sys.argv[1], "a", encoding="utf-8") as hits:
            hits.write(params["name"] + "\n")
        if params["name"] == "crash":
            os.kill(os.getpid(), signal.SIGKILL)
        text = json.dumps(dict(os.environ)) if params["name"] == "env" else json.dumps(params.get("arguments"))
        return {"content": [{"type": "text", "text": text}]}
    return None


print("notes: ready", file=sys.stderr)
for line in sys.stdin:
    message = json.loads(line)
    if "id" in message and "method" in message:
        result = answer(message)
        end = {"result": result} if result is not None else {"error": {"code": -32601, "message": "unknown method"}}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **end}), flush=True)
