//! Tools that are registered with default settings.

use crate::support::{assert_tools, split};

const HEAD: &str = "import os\nfrom mcp.server.fastmcp import FastMCP\nmcp = FastMCP('books')\n";

fn split_file(text: &str) -> (Vec<String>, Vec<String>) {
    split(&[("books/server.py", &format!("{HEAD}{text}"))])
}

#[test]
fn tool_under_a_switch_that_is_off_is_optional() {
    let found = split_file(
        "
WRITES = os.environ.get('ALLOW_WRITES', 'false').lower() == 'true'
@mcp.tool()
def get_book(): pass
if WRITES:
    @mcp.tool()
    def add_book(): pass
else:
    @mcp.tool()
    def why_not(): pass
if 'DANGER' in os.environ:
    @mcp.tool()
    def burn(): pass
if os.getenv('HIDE') != 'yes':
    @mcp.tool()
    def list_books(): pass
if unknown():
    @mcp.tool()
    def perhaps(): pass
",
    );
    assert_tools(found, &["get_book", "list_books", "perhaps", "why_not"], &["add_book", "burn"]);
}

#[test]
fn settings_that_users_must_supply_count_as_set() {
    let found = split_file("if os.environ.get('BOOKS_API_KEY'):\n    @mcp.tool()\n    def get_book(): pass\n");
    assert_tools(found, &["get_book"], &[]);
}

#[test]
fn fields_of_settings_have_defaults() {
    let found = split_file(
        "
from pydantic import Field
from pydantic_settings import BaseSettings
class Settings(BaseSettings):
    writes: bool = False
    extra: bool = Field(default=False, description='More')
    reads: bool = True
settings = Settings()
def register(mcp, settings: Settings):
    if settings.reads:
        @mcp.tool()
        def get_book(): pass
    if settings.writes:
        @mcp.tool()
        def add_book(): pass
    if not settings.extra:
        return
    @mcp.tool()
    def extra_book(): pass
register(mcp, settings)
",
    );
    assert_tools(found, &["get_book"], &["add_book", "extra_book"]);
}

#[test]
fn command_line_flags_have_their_defaults() {
    let found = split_file(
        "
import argparse
def register_tools(writes):
    for function in (get_book,):
        mcp.add_tool(function)
    if writes:
        mcp.add_tool(add_book)
def get_book(): pass
def add_book(): pass
def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--enable-writes', action='store_true', help='also tools that write')
    args = parser.parse_args()
    register_tools(writes=args.enable_writes)
",
    );
    assert_tools(found, &["get_book"], &["add_book"]);
}

#[test]
fn function_called_only_under_a_switch_is_disabled() {
    let text = "
def register_writes(mcp):
    @mcp.tool()
    def add_book(): pass
def register_reads(mcp):
    @mcp.tool()
    def get_book(): pass
def make(mcp):
    register_reads(mcp)
    if os.environ.get('WRITES') == '1':
        register_writes(mcp)
";
    assert_tools(split_file(text), &["get_book"], &["add_book"]);
    // It is also passed on as a value: then it may be called from anywhere.
    let handed_on = format!("{text}hooks.append(register_writes)\n");
    assert_tools(split_file(&handed_on), &["add_book", "get_book"], &[]);
}

#[test]
fn file_imported_only_under_a_switch_is_disabled() {
    let server =
        format!("{HEAD}if os.environ.get('ADMIN') == '1':\n    from . import admin\nfrom . import shelf\n# tools\n");
    let admin = "from .server import mcp\n@mcp.tool()\ndef burn_book(): pass\n";
    let shelf = "from .server import mcp\n@mcp.tool()\ndef get_book(): pass\n";
    let mut files = vec![("books/server.py", server.as_str()), ("books/admin.py", admin), ("books/shelf.py", shelf)];
    assert_tools(split(&files), &["get_book"], &["burn_book"]);
    files.push(("books/other.py", "from books.admin import burn_book\n"));
    assert_tools(split(&files), &["burn_book", "get_book"], &[]);
}

#[test]
fn reassigned_settings_are_unknown() {
    let found = split_file(
        "
writes = False
shown = {'get_book'}
shown |= more()
def main(args):
    global writes
    writes = args.writes
def register(mcp):
    if writes:
        @mcp.tool()
        def add_book(): pass
    if 'extra' in shown:
        @mcp.tool()
        def extra(): pass
",
    );
    assert_tools(found, &["add_book", "extra"], &[]);
}

#[test]
fn loop_may_skip_tools() {
    let found = split_file(
        "
MODE = os.environ.get('MODE', 'basic')
BASIC = ('get_book',)
def get_book(): pass
def burn_book(): pass
for function in [get_book, burn_book]:
    if MODE == 'basic' and function.__name__ not in BASIC:
        continue
    mcp.add_tool(function)
",
    );
    assert_tools(found, &["get_book"], &["burn_book"]);
}

#[test]
fn custom_server_classes_are_mounted_with_prefixes() {
    let kind = "from fastmcp import FastMCP\nclass Books(FastMCP):\n    def tool(self, *args, **kwargs):\n        return super().tool(*args, **kwargs)\n";
    let shelf = "from .kind import Books\nshelf = Books('shelf')\n@shelf.tool(tags={'x'})\ndef get_book(): pass\n";
    let main = "from .kind import Books\nfrom .shelf import shelf\nmain = Books('main')\nmain.mount(shelf, namespace='shelf')\n# tools\n";
    let files = [("books/kind.py", kind), ("books/shelf.py", shelf), ("books/main.py", main)];
    assert_tools(split(&files), &["shelf_get_book"], &[]);
}

#[test]
fn tools_are_not_optional_if_all_of_them_would_be() {
    let found = split_file("if os.environ.get('MODE') == 'serve':\n    @mcp.tool()\n    def get_book(): pass\n");
    assert_tools(found, &["get_book"], &[]);
}
