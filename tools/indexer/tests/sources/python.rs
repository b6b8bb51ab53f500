//! Each form in which a tool is defined in Python.

use serde_json::json;

use crate::support::{extract, names, names_of, tools, tools_of};

const HEAD: &str = "from mcp.server.fastmcp import FastMCP, Context\nmcp = FastMCP('books')\n";

fn with_head(text: &str) -> String {
    format!("{HEAD}{text}")
}

#[test]
fn decorators_with_and_without_brackets() {
    let text =
        "@mcp.tool()\ndef one(): pass\n@mcp.tool\nasync def two(): pass\n@mcp.resource('x')\ndef three(): pass\n";
    assert_eq!(names(&with_head(text)), ["one", "two"]);
}

#[test]
fn explicit_name_takes_precedence_over_the_function_name() {
    let text = "@mcp.tool('a')\ndef f(): pass\n@mcp.tool(name='b')\ndef g(): pass\n@mcp.tool(name=PRE + 'c')\ndef h(): pass\n\
                @mcp.tool(name=unknown())\ndef i(): pass\nPRE = 'book_'\n";
    assert_eq!(names(&with_head(text)), ["a", "b", "book_c"]);
}

#[test]
fn docstrings_signatures_and_annotations_are_read() {
    let text = r#"
from typing import Annotated, Literal, Optional
from pydantic import BaseModel, Field
from mcp.types import ToolAnnotations

READS = ToolAnnotations(readOnlyHint=True, title="Look")

class Filter(BaseModel):
    """What to look for."""
    word: str = Field(description="A word")
    most: int = 10

@mcp.tool(annotations=READS)
async def find_books(
    query: Annotated[str, Field(description="What to find", max_length=9)],
    ctx: Context,
    kind: Literal["new", "old"] = "new",
    shelves: list[int] | None = None,
    filter: Optional[Filter] = None,
    price: float = Field(description="At most"),
    anything=None,
) -> str:
    """Finds books.

    More:
        Indented.
    """
"#;
    let found = tools(&with_head(text));
    let [tool] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!(tool.description.as_deref(), Some("Finds books.\n\nMore:\n    Indented."));
    assert_eq!(serde_json::Value::from(tool.annotations.clone()), json!({"readOnlyHint": true, "title": "Look"}));
    let wanted = json!({
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "What to find", "maxLength": 9},
            "kind": {"type": "string", "enum": ["new", "old"], "default": "new"},
            "shelves": {"anyOf": [{"type": "array", "items": {"type": "integer"}}, {"type": "null"}], "default": null},
            "filter": {"anyOf": [{"description": "What to look for.", "type": "object", "properties": {
                "word": {"type": "string", "description": "A word"}, "most": {"type": "integer", "default": 10},
            }, "required": ["word"]}, {"type": "null"}], "default": null},
            "price": {"type": "number", "description": "At most"},
            "anything": {"default": null},
        },
        "required": ["query", "price"],
    });
    assert_eq!(tool.input_schema, wanted);
}

#[test]
fn functions_are_registered_by_calls() {
    let text = "def one(): 'One.'\ndef two(): pass\ndef three(): pass\ndef four(): pass\ndef five(): pass\n\
                mcp.add_tool(one)\nmcp.tool(two)\nmcp.tool(name='drei')(three)\n\
                for f in [four, five]:\n    mcp.tool()(f)\n\
                from fastmcp.tools import Tool\ndef six(): pass\nmcp.add_tool(Tool.from_function(six, name='six_'))\n";
    assert_eq!(names(&with_head(text)), ["drei", "five", "four", "one", "six_", "two"]);
}

#[test]
fn methods_are_registered_on_their_object() {
    let text = "class Shelf:\n    def __init__(self):\n        self.app = FastMCP('x')\n        self.app.tool()(self.put)\n        \
                self.app.add_tool(self.take, name='take_it')\n    def put(self, book: str): pass\n    def take(self): pass\n    \
                def setup(self):\n        @self.app.tool()\n        def inner(x: int): pass\n";
    let found = tools(&with_head(text));
    let names: Vec<_> = found.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["inner", "put", "take_it"]);
    assert_eq!(found[1].input_schema["properties"], json!({"book": {"type": "string"}}));
}

#[test]
fn constructions_of_the_sdk_are_read() {
    let text = r#"
import mcp.types as types
from mcp.types import Tool as T, ToolAnnotations
from enum import Enum
from pydantic import BaseModel

class Names(str, Enum):
    GET = "get_book"
    PUT = "put_book"

class Book(BaseModel):
    title: str
    pages: int = 0

NAME = "list" "_books"

async def list_tools():
    return [
        types.Tool(name=NAME, description="Lists", inputSchema={"type": "object", "properties": {"n": {"type": "integer"}}}),
        T(name=Names.GET.value, description=f"Gets {NAME}", inputSchema=Book.model_json_schema(),
          annotations=ToolAnnotations(readOnlyHint=True)),
        T(name=Names.PUT, inputSchema=Book.model_json_schema(), annotations={"destructiveHint": False}),
        T(name=f"{who()}_x", inputSchema={}),
    ]
"#;
    let found = tools(text);
    let names: Vec<_> = found.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["get_book", "list_books", "put_book"]);
    assert_eq!(found[0].description.as_deref(), Some("Gets list_books"));
    assert_eq!(found[0].input_schema["required"], json!(["title"]));
    assert_eq!(found[0].annotations["readOnlyHint"], json!(true));
    assert_eq!(found[1].input_schema["properties"]["n"]["type"], json!("integer"));
    assert_eq!(found[2].annotations["destructiveHint"], json!(false));
}

#[test]
fn names_are_followed_through_imports() {
    let files = [
        ("pkg-1.0/src/books/__init__.py", ""),
        ("pkg-1.0/src/books/app.py", "from fastmcp import FastMCP\nmcp = FastMCP('books')\n"),
        ("pkg-1.0/src/books/names.py", "PREFIX = 'shelf'\nclass N:\n    PUT = f'{PREFIX}_put'\n"),
        (
            "pkg-1.0/src/books/tools/put.py",
            "from ..app import mcp\nfrom books.names import N\nfrom .. import names\n\
             @mcp.tool(name=N.PUT)\ndef f(): pass\n@mcp.tool(name=names.PREFIX + '_take')\ndef g(): pass\n",
        ),
        ("pkg-1.0/src/books/tools/__init__.py", ""),
    ];
    assert_eq!(names_of(&files), ["shelf_put", "shelf_take"]);
}

#[test]
fn lists_of_descriptions_become_tools() {
    let text = r#"
from mcp.types import Tool
from dataclasses import dataclass

@dataclass
class Spec:
    name: str
    text: str
    schema: dict

SPECS = [Spec("one", "One", {"type": "object"}), Spec(name="two", text="Two", schema={})]
TABLE = {"three": {"description": "Three", "input": {}}}
HAND = [{"name": "four", "description": "Four", "inputSchema": {"type": "object"}}]
KEYED = {"five": {"description": "Five", "inputSchema": {"type": "object"}}}

def all_tools():
    tools = [Tool(name=s.name, description=s.text, inputSchema=s.schema) for s in SPECS]
    for name, spec in TABLE.items():
        tools.append(Tool(name=name, description=spec["description"], inputSchema=spec["input"]))
    return tools
"#;
    let found = tools(text);
    let names: Vec<_> = found.iter().map(|tool| (tool.name.as_str(), tool.description.as_deref())).collect();
    let wanted = [("five", "Five"), ("four", "Four"), ("one", "One"), ("three", "Three"), ("two", "Two")];
    assert_eq!(names, wanted.map(|(name, text)| (name, Some(text))));
}

#[test]
fn helpers_of_the_package_are_followed() {
    let text = r#"
from mcp.types import Tool
import functools

def _tool(name, description, props):
    return Tool(name=name, description=description, inputSchema={"type": "object", "properties": props})

TOOLS = [_tool("one", "One", {}), _tool("two", "Two", {"x": {"type": "string"}})]

def reads(**kwargs):
    return mcp.tool(annotations={"readOnlyHint": True}, **kwargs)

@reads(name="three")
def f(): "Three"

def safe(name):
    def outer(fn):
        @functools.wraps(fn)
        def wrapper(*args, **kwargs):
            return fn(*args, **kwargs)
        return mcp.tool(name=name)(wrapper)
    return outer

@safe("four")
def g(x: int): "Four"

REGISTRY = {}
def tool(title, name=None):
    def keep(fn):
        REGISTRY[name or fn.__name__] = fn
        return fn
    return keep

@tool("Five!")
def five(): pass
"#;
    let found = tools(&with_head(text));
    let names: Vec<_> = found.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["five", "four", "one", "three", "two"]);
    assert_eq!(found[1].input_schema["properties"], json!({"x": {"type": "integer"}}));
    assert_eq!(found[3].annotations["readOnlyHint"], json!(true));
}

#[test]
fn classes_of_handlers_are_followed() {
    let text = r#"
from mcp.types import Tool

class Handler:
    def __init__(self, name: str):
        self.name = name
    def tool(self):
        return Tool(name=self.name, description="x", inputSchema={})

class Get(Handler):
    def __init__(self):
        super().__init__("get_it")

class Named:
    title = ""
    def definition(self):
        return Tool(name=self.title, inputSchema={})

class Put(Named):
    title = "put_it"

class Own:
    @property
    def name(self):
        return "own_it"
    def definition(self):
        return Tool(name=self.name, inputSchema={})

class Made:
    def __init__(self, name):
        self.name = name
    def tool(self):
        return Tool(name=self.name, inputSchema={})

ALL = [Made("made_it"), Made("made_too")]
"#;
    assert_eq!(names(text), ["get_it", "made_it", "made_too", "own_it", "put_it"]);
}

#[test]
fn mounted_server_has_a_prefix() {
    let text = "from fastmcp import FastMCP\nsub = FastMCP('sub')\ndef register(server: FastMCP):\n    @server.tool()\n    \
                def find(): pass\nregister(sub)\nmain = FastMCP('main')\nmain.mount(sub, prefix='books')\n\
                @main.tool\ndef top(): pass\n";
    assert_eq!(names(text), ["books_find", "top"]);
}

#[test]
fn broken_sources_give_the_readable_tools() {
    let text = "@mcp.tool()\ndef one(: pass\n\n@mcp.tool()\ndef two(x: int):\n    'Two.'\n    return (\n\n\n@mcp.tool()\ndef three(): pass\n";
    let found = names(&with_head(text));
    assert!(found.contains(&"two".to_owned()) || found.contains(&"three".to_owned()), "{found:?}");
}

#[test]
fn recursive_code_terminates() {
    let deep = format!("x = {}1{}\n@mcp.tool()\ndef one(): pass\n", "(".repeat(20_000), ")".repeat(20_000));
    let _ = names(&with_head(&deep));
    let circle = "a = b + b\nb = a + a\n@mcp.tool(name=a)\ndef one(): pass\n@mcp.tool()\ndef two(): pass\n";
    assert_eq!(names(&with_head(circle)), ["two"]);
    let itself = "def f(x): return f(f(x))\n@mcp.tool(name=f('a'))\ndef one(): pass\nclass A(A): pass\nclass B(C): pass\nclass C(B): pass\nB().tool()\n";
    assert!(names(&with_head(itself)).is_empty());
    let nested: String = (0..12).map(|at| format!("{}for x{at} in L:\n", " ".repeat(at))).collect();
    let wide =
        format!("L = list(range(10)) + [{}]\n{nested}{}mcp.tool(name=x0)(f)\n", "1,".repeat(2_000), " ".repeat(12));
    assert_eq!(extract(&[("books/server.py", &with_head(&wide))]).unread_parts, 1);
}

#[test]
fn the_same_sources_give_the_same_tools() {
    let files: Vec<(String, String)> = (0..20)
        .map(|at| (format!("b/m{at}.py"), with_head(&format!("@mcp.tool()\ndef t{at}(x: int, y: str = 'a'): 'T.'\n"))))
        .collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    let (first, mut turned) = (tools_of(&files), files.clone());
    turned.reverse();
    assert_eq!(first.len(), 20);
    assert_eq!(first, tools_of(&turned));
}
