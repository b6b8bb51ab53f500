"""FastMCP as a client: prints one JSON object with the list of tools and the result of each call.

    fastmcp_client.py URL TOKEN CALLS [sse]
"""

import asyncio
import json
import sys

from fastmcp import Client
from fastmcp.client.transports import SSETransport, StreamableHttpTransport


async def main(url: str, token: str, calls: list, transport: type) -> None:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with Client(transport(url, headers=headers)) as client:
        tools = [tool.name for tool in await client.list_tools()]
        results = []
        for name, arguments in calls:
            try:
                result = await client.call_tool_mcp(name, arguments)
                results.append(result.model_dump(mode="json", by_alias=True, exclude_none=True))
            except Exception as error:  # noqa: BLE001: whatever the client raises is what its user sees
                results.append({"message": str(error)})
        print(json.dumps({"tools": tools, "results": results}))


by = SSETransport if sys.argv[4:] == ["sse"] else StreamableHttpTransport
asyncio.run(main(sys.argv[1], sys.argv[2], json.loads(sys.argv[3]), by))
