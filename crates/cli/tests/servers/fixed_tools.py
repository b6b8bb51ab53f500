"""A stdio MCP server that lists the tools of a JSON file without checking them."""

import json
import sys

with open(sys.argv[1], encoding="utf-8") as file:
    TOOLS = file.read()
INFO = json.dumps({"name": "offer\u202e\u009b", "version": "1"})

for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message or "method" not in message:
        continue
    outcome = '"error":{"code":-32601,"message":"unknown method"}'
    if message["method"] == "initialize":
        revision = json.dumps(message["params"]["protocolVersion"])
        outcome = f'"result":{{"protocolVersion":{revision},"capabilities":{{"tools":{{}}}},"serverInfo":{INFO}}}'
    if message["method"] == "tools/list":
        outcome = f'"result":{{"tools":{TOOLS}}}'
    print(f'{{"jsonrpc":"2.0","id":{json.dumps(message["id"])},{outcome}}}', flush=True)
