#!/usr/bin/env python3
"""A server over standard streams with one tool and no dependency, as people have them in their clients' files."""

import json
import sys

TOOL = {"name": "noon", "description": "Says when noon is.", "inputSchema": {"type": "object"}}
RESULTS = {
    "initialize": {"capabilities": {"tools": {}}, "serverInfo": {"name": "clock", "version": "1"}},
    "ping": {},
    "tools/list": {"tools": [TOOL]},
    "tools/call": {"content": [{"type": "text", "text": "12:00"}]},
}

for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    answer = {"jsonrpc": "2.0", "id": message["id"]}
    if message.get("method") == "initialize":
        # Any revision will do: what is offered here is in all of them.
        RESULTS["initialize"]["protocolVersion"] = message["params"]["protocolVersion"]
    if message.get("method") in RESULTS:
        answer["result"] = RESULTS[message["method"]]
    else:
        answer["error"] = {"code": -32601, "message": "no such method"}
    print(json.dumps(answer), flush=True)
