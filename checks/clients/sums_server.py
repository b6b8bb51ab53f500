"""A server on FastMCP with sums, without sessions.   sums_server.py PORT"""

import sys

from fastmcp import FastMCP

server = FastMCP("sums")


@server.tool
def add(a: float, b: float) -> float:
    """Adds two numbers."""
    return a + b


@server.tool
def fail(why: str) -> str:
    """Always fails."""
    raise ValueError(why)


server.run(
    transport="http", host="127.0.0.1", port=int(sys.argv[1]), show_banner=False, stateless_http=True, json_response=True
)
