"""The Python SDK as a client: prints one JSON object with the list and what each call gave.

    python_sdk.py URL TOKEN CALLS [sse]
"""

import asyncio
import contextlib
import json
import sys

import httpx2
from mcp import ClientSession
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client


@contextlib.asynccontextmanager
async def streamable(url: str, headers: dict):
    async with httpx2.AsyncClient(headers=headers) as http, streamable_http_client(url, http_client=http) as streams:
        yield streams


async def main(url: str, token: str, calls: list, transport) -> None:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with transport(url, headers=headers) as streams, ClientSession(streams[0], streams[1]) as session:
        await session.initialize()
        tools = [tool.name for tool in (await session.list_tools()).tools]
        results = []
        for name, arguments in calls:
            try:
                result = await session.call_tool(name, arguments)
                results.append(result.model_dump(mode="json", by_alias=True, exclude_none=True))
            except Exception as error:  # noqa: BLE001: whatever the SDK raises is what its user sees
                results.append({"message": str(error)})
        print(json.dumps({"tools": tools, "results": results}))


by = sse_client if sys.argv[4:] == ["sse"] else streamable
asyncio.run(main(sys.argv[1], sys.argv[2], json.loads(sys.argv[3]), by))
