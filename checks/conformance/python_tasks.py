"""Implements the tasks extension, which the Python SDK does not have.

A call that becomes a task returns at once; the client polls it, sends input, or cancels it.
"""

import asyncio
import datetime
import secrets

import mcp.shared.inbound as inbound
import mcp.types as types
from mcp.shared.exceptions import MCPError

EXTENSION = "io.modelcontextprotocol/tasks"
METHODS = ("tasks/get", "tasks/update", "tasks/cancel")
LIFE = 300_000

TASKS: dict[str, "Task"] = {}


class TaskParams(types.RequestParams):
    """Parameters of a request about a task."""

    task_id: str
    input_responses: dict | None = None


class Task:
    """Work that continues after the response."""

    def __init__(self, work) -> None:
        self.id = secrets.token_hex(8)
        self.made = self.changed = now()
        self.questions: dict[str, tuple[dict, asyncio.Future]] = {}
        self.end: dict | None = None
        self.running = asyncio.create_task(self.run(work))
        TASKS[self.id] = self

    async def run(self, work) -> None:
        try:
            result = (await work(self)).model_dump(by_alias=True, mode="json", exclude_none=True)
            self.end = {"status": "completed", "result": result}
        except MCPError as fault:
            self.end = {"status": "failed", "error": fault.error.model_dump(mode="json", exclude_none=True)}
        except asyncio.CancelledError:
            self.end = {"status": "cancelled"}
        self.changed = now()

    async def ask(self, **questions: dict) -> list:
        """Wait until the client has answered all questions."""
        answers = [asyncio.get_running_loop().create_future() for _ in questions]
        self.questions |= {name: (question, answer) for (name, question), answer in zip(questions.items(), answers)}
        return await asyncio.gather(*answers)

    def answer(self, responses: dict) -> None:
        for name in responses.keys() & self.questions.keys():
            self.questions.pop(name)[1].set_result(responses[name])
        self.changed = now()

    def shown(self) -> dict:
        state = self.end or {"status": "working"}
        if self.questions and not self.end:
            wanted = {name: question for name, (question, _) in self.questions.items()}
            state = {"status": "input_required", "inputRequests": wanted}
        return {"taskId": self.id, "createdAt": self.made, "lastUpdatedAt": self.changed, "ttlMs": LIFE,
                "pollIntervalMs": 100, **state}


def now() -> str:
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def declares(ctx) -> bool:
    """Return whether the client declares support for tasks in this request."""
    client = ctx.session.client_capabilities
    return EXTENSION in (getattr(client, "extensions", None) or {})


def require(ctx) -> None:
    if not declares(ctx):
        data = {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}
        raise MCPError(types.MISSING_REQUIRED_CLIENT_CAPABILITY, "the client does not support tasks", data)


def begin(work) -> dict:
    """Start a task and return its result."""
    return {"resultType": "task", **Task(work).shown()}


async def about(ctx, params: TaskParams) -> Task:
    require(ctx)
    if params.task_id not in TASKS:
        raise MCPError(types.INVALID_PARAMS, f"Unknown task: {params.task_id}")
    return TASKS[params.task_id]


async def get(ctx, params: TaskParams) -> dict:
    return {"resultType": "complete", **(await about(ctx, params)).shown()}


async def update(ctx, params: TaskParams) -> dict:
    (await about(ctx, params)).answer(params.input_responses or {})
    return {"resultType": "complete"}


async def cancel(ctx, params: TaskParams) -> dict:
    (await about(ctx, params)).running.cancel()
    return {"resultType": "complete"}


def add_to(server) -> None:
    """Add the task methods to a server."""
    server.extensions[EXTENSION] = {}
    for method, handler in zip(METHODS, (get, update, cancel)):
        server.add_request_handler(method, TaskParams, handler)
    # The headers of these requests also name their subject.
    inbound.NAME_BEARING_METHODS = {**inbound.NAME_BEARING_METHODS, **dict.fromkeys(METHODS, "taskId")}
