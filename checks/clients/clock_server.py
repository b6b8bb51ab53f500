#!/usr/bin/env python3
"""A stdio server with one tool and no dependencies, as in typical client configurations."""

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
        # All revisions support what this server offers.
        RESULTS["initialize"]["protocolVersion"] = message["params"]["protocolVersion"]
    if message.get("method") in RESULTS:
        answer["result"] = RESULTS[message["method"]]
    else:
        answer["error"] = {"code": -32601, "message": "no such method"}
    print(json.dumps(answer), flush=True)
