"""A server on FastMCP with notes: tools of several kinds, a resource, a prompt.   notes_server.py PORT"""

import sys

from fastmcp import Context, FastMCP

server = FastMCP("notes")
NOTES = {"1": "buy milk", "2": "call home"}


@server.tool(annotations={"readOnlyHint": True})
def read_note(id: str) -> str:
    """Reads a note."""
    return NOTES[id]


@server.tool
def write_note(id: str, text: str) -> dict[str, str]:
    """Writes a note and returns it."""
    return {"id": id, "text": text}


@server.tool(annotations={"destructiveHint": True})
def delete_note(id: str) -> str:
    """Deletes a note."""
    return f"deleted {id}"


@server.tool
async def count(to: int, context: Context) -> int:
    """Counts and reports progress."""
    for at in range(to):
        await context.report_progress(at + 1, to)
    return to


@server.resource("note://desk/{id}")
def note(id: str) -> str:
    """A note."""
    return NOTES[id]


@server.prompt
def summarize(topic: str) -> str:
    """Asks for a summary."""
    return f"Summarize {topic}."


server.run(transport="http", host="127.0.0.1", port=int(sys.argv[1]), show_banner=False)
