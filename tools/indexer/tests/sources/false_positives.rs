//! Code that looks like a tool and is not.

use crate::support::{names, names_of};

#[test]
fn function_with_a_named_decorator_is_not_a_second_tool() {
    let text = "from mcp.server.fastmcp import FastMCP\nmcp = FastMCP('pharo')\n@mcp.tool('eval')\ndef eval_code(code: str):\n    \
                'Evaluates.'\n\ndef eval_code_helper(): pass\n";
    assert_eq!(names(text), ["eval"]);
}

#[test]
fn renamed_function_is_not_listed_under_its_original_name() {
    let text = "from mcp.server.fastmcp import FastMCP\nmcp = FastMCP('x')\nfor name in load():\n    def run(): pass\n    \
                run.__name__ = name\n    mcp.add_tool(run)\n    mcp.add_tool(run, name='one')\n    def walk(): pass\n    \
                walk.__name__ = 'two'\n    mcp.add_tool(walk)\n";
    assert_eq!(names(text), ["one", "two"]);
    // Another function of that name keeps it.
    let other = format!("{text}@mcp.tool()\ndef run(): pass\n");
    assert_eq!(names(&other), ["one", "run", "two"]);
}

#[test]
fn tools_of_other_frameworks_do_not_count() {
    for text in [
        "from langchain.tools import tool, Tool\n@tool\ndef one(): pass\nTool(name='two', func=one, description='')\n",
        "from crewai.tools import tool\n@tool('one')\ndef one(): pass\n",
        "from strands import tool\n@tool\ndef one(): pass\n",
        "from pydantic_ai import Agent\nagent = Agent('x')\n@agent.tool\ndef one(ctx): pass\n@agent.tool_plain\ndef two(): pass\n",
        "import click\n@click.command()\ndef tool(): pass\n@tool.command()\ndef one(): pass\n",
        "class Box:\n    def tool(self): return lambda f: f\nbox = Box()\n@box.tool()\ndef one(): pass\n",
        "from smolagents import Tool\nclass A(Tool):\n    name = 'a'\n    inputs = {}\n",
    ] {
        assert!(names(text).is_empty(), "{text}: {:?}", names(text));
    }
}

#[test]
fn agent_is_not_a_server_even_if_there_is_a_server() {
    let text = "from mcp.server.fastmcp import FastMCP\nfrom pydantic_ai import Agent\nfrom langchain_core.tools import tool\n\
                mcp = FastMCP('x')\nagent = Agent('y')\ndef more(agent, my_agent: Agent):\n    @my_agent.tool\n    def zero(): pass\n\
                @agent.tool\ndef one(ctx): pass\n@tool\ndef two(): pass\n@mcp.tool()\ndef three(): pass\n";
    assert_eq!(names(text), ["three"]);
}

#[test]
fn clients_and_wrappers_are_not_tools() {
    let text = "from mcp import ClientSession\nfrom mcp.types import Tool\nfrom functools import wraps\n\
                def convert(t): return Tool(name=t.name, inputSchema=t.inputSchema)\n\
                def deco(mcp):\n    def outer(fn):\n        @mcp.tool()\n        @wraps(fn)\n        def wrapper(*a): pass\n        return wrapper\n    return outer\n\
                async def run(session):\n    tool = await session.call_tool('x', {})\n    await session.list_tools()\n";
    assert!(names(text).is_empty(), "{:?}", names(text));
}

#[test]
fn disabled_tools_do_not_count() {
    let text = "from fastmcp import FastMCP\nmcp = FastMCP('x')\n@mcp.tool(enabled=False)\ndef one(): pass\n";
    assert!(names(text).is_empty());
}

#[test]
fn tests_examples_and_templates_do_not_count() {
    let server = "from fastmcp import FastMCP\nmcp = FastMCP('x')\n@mcp.tool\ndef NAME(): pass\n";
    let named = |name: &str| server.replace("NAME", name);
    let (own, test, example) = (named("own"), named("test"), named("example"));
    let (check, scaffold) = (named("check") + "def test_it(): pass\n", named("scaffold"));
    let files = [
        ("pkg/server.py", own.as_str()),
        ("tests/server.py", test.as_str()),
        ("pkg/test_server.py", check.as_str()),
        ("examples/one.py", example.as_str()),
        ("pkg/templates/one.py", scaffold.as_str()),
        ("pkg/{{name}}/one.py", scaffold.as_str()),
    ];
    assert_eq!(names_of(&files), ["own"]);
    // A package with only examples offers them; tests are never tools.
    let rest: Vec<_> = files.iter().skip(1).copied().filter(|(path, _)| !path.contains("templates")).collect();
    assert_eq!(names_of(&rest), ["example"]);
}
