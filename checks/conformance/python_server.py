"""A server for the scenarios of the official conformance suite, on the Python SDK.   python_server.py PORT

It listens on the loopback interface only and prints `{"port": N}` when it is ready. The suite defines the names of tools,
prompts and resources and their results. It implements tasks itself, because the SDK has none. It requests client input as
the protocol generation of the request requires: in the result, or during the call.
"""

import asyncio
import functools
import json
import socket
import sys
import warnings

import mcp.types as types
import python_tasks as tasks
import uvicorn
from mcp.server.caching import CacheHint
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.streamable_http import EventMessage, EventStore
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp.shared.subscriptions import PromptsListChanged, ToolsListChanged

# Older revisions have sampling and logging, and the suite tests them.
warnings.simplefilter("ignore", MCPDeprecationWarning)

PICTURE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII="
SOUND = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA="
# Long enough to see the messages of a call arrive one by one.
MESSAGE_INTERVAL_SECONDS = 0.04
# How long a job runs before it fails, so that a client that polls at once still sees it running.
JOB_SECONDS = 0.8

CHANGES = InMemorySubscriptionBus()


class Events(EventStore):
    """Events of each stream, for a client that resumes it."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, types.JSONRPCMessage | None]] = []

    async def store_event(self, stream_id, message):
        self.sent.append((stream_id, message))
        return str(len(self.sent))

    async def replay_events_after(self, last_event_id, send_callback):
        last = int(last_event_id) if last_event_id.isdecimal() else 0
        if not 0 < last <= len(self.sent):
            return None
        stream = self.sent[last - 1][0]
        for number, (own, message) in enumerate(self.sent[last:], last + 1):
            if own == stream and message is not None:
                await send_callback(EventMessage(message, str(number)))
        return stream


# ---- parts of results ----------------------------------------------------------------

def text(said: str) -> dict:
    return {"type": "text", "text": said}


def picture() -> dict:
    return {"type": "image", "data": PICTURE, "mimeType": "image/png"}


def resource(uri: str) -> dict:
    return {"type": "resource", "resource": {"uri": uri, "mimeType": "text/plain", "text": "The text of a resource."}}


def say(*content: dict | str) -> types.CallToolResult:
    parts = [text(part) if isinstance(part, str) else part for part in content]
    return types.CallToolResult.model_validate({"content": parts})


def user(message: str, member: str, kind: str = "string") -> dict:
    return form(message, {member: {"type": kind}}, [member])


def form(message: str, properties: dict, required: list | None = None) -> dict:
    schema = {"type": "object", "properties": properties} | ({"required": required} if required else {})
    return {"method": "elicitation/create", "params": {"mode": "form", "message": message, "requestedSchema": schema}}


def model(prompt: str) -> dict:
    messages = [{"role": "user", "content": text(prompt)}]
    return {"method": "sampling/createMessage", "params": {"messages": messages, "maxTokens": 100}}


def need(state: str | None = None, **questions: dict) -> types.InputRequiredResult:
    """Return a result that requests input, with a state that the client must return; the SDK seals it."""
    return types.InputRequiredResult.model_validate({"inputRequests": questions, "requestState": state})


ROOTS = {"method": "roots/list"}
NAME = user("Your name?", "name")

ANSWERS = {"elicitation/create": types.ElicitResult, "sampling/createMessage": types.CreateMessageResult,
           "roots/list": types.ListRootsResult}


async def ask(ctx, name, question) -> object:
    """Request client input during a call. The key of the request is in its `_meta`."""
    params = (question.params.model_dump(by_alias=True, exclude_none=True) if question.params else {})
    params["_meta"] = {**params.get("_meta", {}), "gatelodge/inputKey": name}
    question = type(question).model_validate({"method": question.method, "params": params})
    related = ServerMessageMetadata(related_request_id=ctx.request_id)
    return await ctx.session.send_request(question, ANSWERS[question.method], metadata=related)


async def until_done(run, ctx, params):
    """Run a function that may need input. For stateful clients, request it at once and run the function again."""
    while True:
        result = await run(ctx, params)
        if not isinstance(result, types.InputRequiredResult) or not ctx.session.can_send_request:
            return result
        wanted = result.input_requests or {}
        answers = await asyncio.gather(*(ask(ctx, name, question) for name, question in wanted.items()))
        params = params.model_copy(update={"input_responses": dict(zip(wanted, answers)),
                                           "request_state": result.request_state})


# ---- tools -----------------------------------------------------------------------------------

TOOLS: dict[str, tuple[types.Tool, object]] = {}


def tool(what: str, required: tuple = (), schema: dict | None = None, **properties: dict):
    """Register a function of context, arguments and request as a tool."""
    schema = schema or {"type": "object", "properties": properties, "required": list(required)}

    def keep(run):
        TOOLS[run.__name__] = types.Tool(name=run.__name__, description=what, input_schema=schema), run
        return run

    return keep


@tool("Gives a text")
async def test_simple_text(ctx, args, params):
    return say("A simple text.")


@tool("Gives a picture")
async def test_image_content(ctx, args, params):
    return say(picture())


@tool("Gives a sound")
async def test_audio_content(ctx, args, params):
    return say({"type": "audio", "data": SOUND, "mimeType": "audio/wav"})


@tool("Gives a resource")
async def test_embedded_resource(ctx, args, params):
    return say(resource("test://embedded-resource"))


@tool("Gives a text, a picture and a resource")
async def test_multiple_content_types(ctx, args, params):
    return say("Several kinds at once.", picture(), resource("test://mixed-content-resource"))


@tool("Logs while it runs")
async def test_tool_with_logging(ctx, args, params):
    for step in ("begun", "running", "done"):
        await ctx.session.send_log_message("info", step, related_request_id=ctx.request_id)
        await asyncio.sleep(MESSAGE_INTERVAL_SECONDS)
    return say("Logged.")


@tool("Logs if the request asks for it")
async def test_logging_tool(ctx, args, params):
    # The SDK drops messages that were not requested.
    await ctx.session.send_log_message("error", "as asked", related_request_id=ctx.request_id)
    return say("Done.")


@tool("Tells its progress")
async def test_tool_with_progress(ctx, args, params):
    for step in (0, 50, 100):
        await ctx.session.report_progress(step, 100, "on its way")
        await asyncio.sleep(MESSAGE_INTERVAL_SECONDS)
    return say("Arrived.")


@tool("Fails")
async def test_error_handling(ctx, args, params):
    return types.CallToolResult.model_validate({"content": [text("This tool always fails.")], "isError": True})


@tool("Asks the client's model", ("prompt",), prompt={"type": "string"})
async def test_sampling(ctx, args, params):
    return answered("The model said", params, model(args["prompt"]))


def answered(what: str, params, question: dict):
    """Return the client's response to one request, or the request itself."""
    answer = (params.input_responses or {}).get("answer")
    return say(f"{what}: {answer.model_dump_json()}") if answer else need(answer=question)


@tool("Asks the client's user", ("message",), message={"type": "string"})
async def test_elicitation(ctx, args, params):
    properties = {"username": {"type": "string"}, "email": {"type": "string"}}
    return answered("The user said", params, form(args["message"], properties))


@tool("Asks the user for values with defaults")
async def test_elicitation_sep1034_defaults(ctx, args, params):
    return answered("The user said", params, form("Who are you?", {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    }))


@tool("Asks the user to choose")
async def test_elicitation_sep1330_enums(ctx, args, params):
    plain = ["red", "green", "blue"]
    titled = [{"const": "s", "title": "Small"}, {"const": "m", "title": "Medium"}, {"const": "l", "title": "Large"}]
    return answered("The user said", params, form("Choose.", {
        "untitledSingle": {"type": "string", "enum": plain},
        "titledSingle": {"type": "string", "oneOf": titled},
        "legacyEnum": {"type": "string", "enum": plain, "enumNames": ["Red", "Green", "Blue"]},
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": plain}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled}},
    }))


@tool("Takes what only a recent schema can say", schema={
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {"address": {"$anchor": "address", "type": "object", "properties": {"street": {"type": "string"}}}},
    "properties": {"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"}, "phone": {"type": "string"}},
    "allOf": [{"anyOf": [{"required": ["address"]}, {"required": ["phone"]}]}],
    "if": {"required": ["address"]},
    "then": {"required": ["name"]},
    "else": {"required": ["phone"]},
    "additionalProperties": False,
})
async def json_schema_2020_12_tool(ctx, args, params):
    return say("Taken.")


@tool("Closes its stream; the answer is there when the client comes back")
async def test_reconnection(ctx, args, params):
    await ctx.session.send_log_message("info", "before", related_request_id=ctx.request_id)
    if ctx.close_sse_stream:
        await ctx.close_sse_stream()
    await asyncio.sleep(5 * MESSAGE_INTERVAL_SECONDS)
    await ctx.session.send_log_message("info", "after", related_request_id=ctx.request_id)
    return say("Still here.")


@tool("Takes a value that is also in a header", ("value",), value={"type": "string", "x-mcp-header": "Value"})
async def test_custom_header(ctx, args, params):
    return say(args["value"])


@tool("Tells listeners that the tools changed")
async def test_trigger_tool_change(ctx, args, params):
    await CHANGES.publish(ToolsListChanged())
    await ctx.session.send_tool_list_changed()
    return say("The tools changed.")


@tool("Tells listeners that the prompts changed")
async def test_trigger_prompt_change(ctx, args, params):
    await CHANGES.publish(PromptsListChanged())
    await ctx.session.send_prompt_list_changed()
    return say("The prompts changed.")


@tool("Works only for clients with a model")
async def test_missing_capability(ctx, args, params):
    client = ctx.session.client_capabilities
    if client is None or client.sampling is None:
        data = {"requiredCapabilities": {"sampling": {}}}
        raise MCPError(types.MISSING_REQUIRED_CLIENT_CAPABILITY, "the client has no model", data)
    return say("The client has a model.")


@tool("Greets", ("name",), name={"type": "string"})
async def greet(ctx, args, params):
    return say(f"Hello, {args['name']}!")


@tool("Runs for the given seconds", seconds={"type": "number"}, label={"type": "string"})
async def slow_compute(ctx, args, params):
    async def compute(_task=None):
        await asyncio.sleep(args.get("seconds", 1))
        return say("Computed.")

    return tasks.begin(compute) if tasks.declares(ctx) else await compute()


@tool("Fails after a while")
async def failing_job(ctx, args, params):
    async def fail(_task):
        await asyncio.sleep(JOB_SECONDS)
        return await test_error_handling(ctx, args, params)

    tasks.require(ctx)
    return tasks.begin(fail)


@tool("Breaks off after a while")
async def protocol_error_job(ctx, args, params):
    async def break_off(_task=None):
        await asyncio.sleep(JOB_SECONDS)
        raise MCPError(types.INTERNAL_ERROR, "this job always breaks off")

    return tasks.begin(break_off) if tasks.declares(ctx) else await break_off()


@tool("Deletes if the user says so", ("filename",), filename={"type": "string"})
async def confirm_delete(ctx, args, params):
    async def confirm(task):
        answer, = await task.ask(confirm=user(f"Delete {args['filename']}?", "ok"))
        return say(f"The user said: {answer}")

    tasks.require(ctx)
    return tasks.begin(confirm)


@tool("Asks the user two things at once")
async def multi_input(ctx, args, params):
    async def ask_twice(task):
        first, second = await task.ask(first=user("The first?", "value"), second=user("The second?", "value"))
        return say(f"The user said: {first} and {second}")

    tasks.require(ctx)
    return tasks.begin(ask_twice)


@tool("Needs a name of the user, and becomes a task")
async def test_tool_with_task(ctx, args, params):
    async def hello(_task):
        return say(f"Hello, {answer.content['name']}!")

    tasks.require(ctx)
    answer = (params.input_responses or {}).get("user_name")
    return tasks.begin(hello) if answer else need(user_name=NAME)


@tool("Needs an answer of the user")
async def test_streaming_elicitation(ctx, args, params):
    return answered("The user said", params, user("A value?", "value"))


@tool("Needs a name of the user")
async def test_input_required_result_elicitation(ctx, args, params):
    answer = (params.input_responses or {}).get("user_name")
    is_answer = isinstance(answer, types.ElicitResult) and answer.content
    return say(f"Hello, {answer.content['name']}!") if is_answer else need(user_name=NAME)


@tool("Needs an answer of the client's model")
async def test_input_required_result_sampling(ctx, args, params):
    answer = (params.input_responses or {}).get("capital_question")
    return say(f"The model said: {answer}") if answer else need(capital_question=model("What is the capital of France?"))


@tool("Needs the client's roots")
async def test_input_required_result_list_roots(ctx, args, params):
    answer = (params.input_responses or {}).get("client_roots")
    return say(f"The roots: {answer}") if answer else need(client_roots=ROOTS)


@tool("Hands out a state and wants it back")
async def test_input_required_result_request_state(ctx, args, params):
    if params.request_state == "asked":
        return say("state-ok")
    return need("asked", confirm=user("Is that so?", "ok", "boolean"))


@tool("Hands out a state and refuses another")
async def test_input_required_result_tampered_state(ctx, args, params):
    return await test_input_required_result_request_state(ctx, args, params)


@tool("Needs three answers at once")
async def test_input_required_result_multiple_inputs(ctx, args, params):
    if {"user_name", "greeting", "client_roots"} <= (params.input_responses or {}).keys():
        return say("All three are here.")
    return need("asked", user_name=NAME, greeting=model("Write a greeting."), client_roots=ROOTS)


@tool("Needs two answers, one after the other")
async def test_input_required_result_multi_round(ctx, args, params):
    if params.request_state is None:
        return need("one", step1=NAME)
    if params.request_state == "one":
        return need("two", step2=user("Your color?", "color"))
    return say("Both steps are done.")


@tool("Needs only what the client can answer")
async def test_input_required_result_capabilities(ctx, args, params):
    if params.input_responses:
        return say("Answered.")
    client = ctx.session.client_capabilities
    every = {"elicitation": ("user_name", NAME), "sampling": ("greeting", model("Write a greeting.")),
             "roots": ("client_roots", ROOTS)}
    questions = dict(question for name, question in every.items() if getattr(client, name, None) is not None)
    return need(**questions) if questions else say("The client can answer nothing.")


async def list_tools(ctx, params):
    return types.ListToolsResult(tools=[tool for tool, _ in TOOLS.values()])


async def call_tool(ctx, params):
    if params.name not in TOOLS:
        raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {params.name}")
    run = TOOLS[params.name][1]
    return await until_done(lambda ctx, params: run(ctx, params.arguments or {}, params), ctx, params)


# ---- resources and prompts -------------------------------------------------------------------

RESOURCES = {
    "test://static-text": ("text/plain", {"text": "A text that never changes."}),
    "test://static-binary": ("image/png", {"blob": PICTURE}),
    "test://watched-resource": ("text/plain", {"text": "A text that might change."}),
}


async def list_resources(ctx, params):
    entries = [{"uri": uri, "name": uri.partition("//")[2], "mimeType": kind} for uri, (kind, _) in RESOURCES.items()]
    return types.ListResourcesResult.model_validate({"resources": entries})


async def list_templates(ctx, params):
    template = {"uriTemplate": "test://template/{id}/data", "name": "data", "mimeType": "application/json"}
    return types.ListResourceTemplatesResult.model_validate({"resourceTemplates": [template]})


async def read_resource(ctx, params):
    uri = str(params.uri)
    if uri.startswith("test://template/") and uri.endswith("/data"):
        kind, content = "application/json", {"text": json.dumps({"id": uri.split("/")[3]})}
    elif uri in RESOURCES:
        kind, content = RESOURCES[uri]
    else:
        raise MCPError(types.INVALID_PARAMS, "there is no such resource", {"uri": uri})
    return types.ReadResourceResult.model_validate({"contents": [{"uri": uri, "mimeType": kind} | content]})


async def nothing(ctx, params):
    return types.EmptyResult()


def prompts(arguments: dict, answers: dict) -> dict:
    """Return the content of each prompt, None if input is missing."""
    context = answers.get("user_context")
    return {
        "test_simple_prompt": [text("A simple prompt.")],
        "test_prompt_with_arguments": [text(f"First {arguments.get('arg1')}, then {arguments.get('arg2')}.")],
        "test_prompt_with_embedded_resource": [resource(arguments.get("resourceUri", "")), text("Read this.")],
        "test_prompt_with_image": [picture(), text("Look at this.")],
        "test_input_required_result_prompt": [text(f"Mind this: {context}")] if context else None,
    }


async def list_prompts(ctx, params):
    takes = {"test_prompt_with_arguments": ["arg1", "arg2"], "test_prompt_with_embedded_resource": ["resourceUri"]}
    entries = [{"name": name, "description": f"Gives what {name} is for",
                "arguments": [{"name": own, "required": True} for own in takes.get(name, [])]}
               for name in prompts({}, {})]
    return types.ListPromptsResult.model_validate({"prompts": entries})


async def get_prompt(ctx, params):
    return await until_done(give_prompt, ctx, params)


async def give_prompt(ctx, params):
    every = prompts(params.arguments or {}, params.input_responses or {})
    if params.name not in every:
        raise MCPError(types.INVALID_PARAMS, f"Unknown prompt: {params.name}")
    if every[params.name] is None:
        return need(user_context=user("What is it about?", "context"))
    messages = [{"role": "user", "content": part} for part in every[params.name]]
    return types.GetPromptResult.model_validate({"messages": messages})


async def complete(ctx, params):
    names = [name for name in ("paris", "park", "party") if name.startswith(params.argument.value)]
    return types.CompleteResult.model_validate({"completion": {"values": names, "hasMore": False}})


def main() -> None:
    hint = CacheHint(ttl_ms=60_000, scope="public")
    cached = ("tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read")
    server = Server(
        "conformance-python", version="1.0.0", cache_hints={method: hint for method in cached},
        on_list_tools=list_tools, on_call_tool=call_tool, on_list_resources=list_resources,
        on_list_resource_templates=list_templates, on_read_resource=read_resource, on_subscribe_resource=nothing,
        on_unsubscribe_resource=nothing, on_subscriptions_listen=ListenHandler(CHANGES), on_list_prompts=list_prompts,
        on_get_prompt=get_prompt, on_completion=complete, on_set_logging_level=nothing)
    tasks.add_to(server)
    security = RequestStateSecurity(keys=[b"a key for tests, long enough to be one"])
    server.middleware.append(RequestStateBoundary(security, default_audience="conformance-python"))
    changes = NotificationOptions(prompts_changed=True, resources_changed=False, tools_changed=True)
    server.create_initialization_options = functools.partial(server.create_initialization_options, changes)
    app = server.streamable_http_app(event_store=Events(), retry_interval=100)
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", int(sys.argv[1])))
    listener.listen(128)
    print(json.dumps({"port": listener.getsockname()[1]}), flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listener])


if __name__ == "__main__":
    main()
