"""A small stdio MCP server. It appends the name of each called tool to a file, so that tests can count calls.

The description of the tool `add` comes from `ADD_DESCRIPTION` or from the file `DESCRIPTION_FILE`, so that it can change
between two starts.
"""

import json
import os
import signal
import sys

ADD_DESCRIPTION = os.environ.get("ADD_DESCRIPTION", "Adds a note.")
if os.path.exists(os.environ.get("DESCRIPTION_FILE", "")):
    with open(os.environ["DESCRIPTION_FILE"], encoding="utf-8") as file:
        ADD_DESCRIPTION = file.read()
TOOLS = [
    {"name": "add", "description": ADD_DESCRIPTION, "inputSchema": {"type": "object"}},
    {"name": "crash", "description": "Ends by a signal.", "inputSchema": {"type": "object"}},
    {"name": "wipe", "description": "Removes all notes.", "inputSchema": {"type": "object"}},
    {"name": "env", "description": "Returns its environment.", "inputSchema": {"type": "object"}},
]


def result_of(message: dict) -> dict | None:
    method, params = message["method"], message.get("params", {})
    if method == "initialize":
        info = {"name": "notes", "version": "1"}
        return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": info}
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "tools/call":
        with open(sys.argv[1], "a", encoding="utf-8") as call_file:
            call_file.write(params["name"] + "\n")
        if params["name"] == "crash":
            os.kill(os.getpid(), signal.SIGKILL)
        text = json.dumps(dict(os.environ)) if params["name"] == "env" else json.dumps(params.get("arguments"))
        return {"content": [{"type": "text", "text": text}]}
    return None


print("notes: ready", file=sys.stderr)
for line in sys.stdin:
    message = json.loads(line)
    if "id" in message and "method" in message:
        result = result_of(message)
        outcome = {"result": result} if result is not None else {"error": {"code": -32601, "message": "unknown method"}}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **outcome}), flush=True)
