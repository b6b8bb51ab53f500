"""The Python SDK as a client: prints one JSON object with the list of tools and the result of each call.

    python_sdk.py URL TOKEN CALLS [sse]

A JSON list in place of the URL is a command that is run and connected over stdio.
"""

import asyncio
import contextlib
import json
import os
import sys

import httpx2
from mcp import ClientSession, StdioServerParameters, stdio_client
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client


@contextlib.asynccontextmanager
async def connect(url: str, token: str, by: str):
    if url.startswith("["):
        command, *arguments = json.loads(url)
        async with stdio_client(StdioServerParameters(command=command, args=arguments, env=dict(os.environ))) as streams:
            yield streams
        return
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    if by == "sse":
        async with sse_client(url, headers=headers) as streams:
            yield streams
        return
    async with httpx2.AsyncClient(headers=headers) as http, streamable_http_client(url, http_client=http) as streams:
        yield streams


async def main(url: str, token: str, calls: list, by: str) -> None:
    async with connect(url, token, by) as streams, ClientSession(streams[0], streams[1]) as session:
        hello = await session.initialize()
        tools = [tool.name for tool in (await session.list_tools()).tools]
        results = []
        for name, arguments in calls:
            try:
                result = await session.call_tool(name, arguments)
                results.append(result.model_dump(mode="json", by_alias=True, exclude_none=True))
            except Exception as error:  # noqa: BLE001: whatever the SDK raises is what its user sees
                results.append({"message": str(error)})
        print(json.dumps({"version": hello.protocol_version, "tools": tools, "results": results}))


asyncio.run(main(sys.argv[1], sys.argv[2], json.loads(sys.argv[3]), "".join(sys.argv[4:])))
