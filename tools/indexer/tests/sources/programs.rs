//! Selection of the program that is the package's server.

use crate::support::{assert_tools, split};

const ENTRY_POINTS: &str = "[console_scripts]\nbooks-mcp = books.cli:main\n\n[other]\nx = books.films:main\n";

fn server(tool: &str) -> String {
    format!("from mcp.server.fastmcp import FastMCP\nmcp = FastMCP('x')\n@mcp.tool()\ndef {tool}(): pass\n")
}

/// Returns the tools of a package with two servers, of which its program may import one.
fn two_servers(program: &str, entry_points: (&str, &str)) -> (Vec<String>, Vec<String>) {
    let (shelf, films) = (server("get_book"), server("get_film"));
    split(&[
        entry_points,
        ("books/__init__.py", ""),
        ("books/cli.py", program),
        ("books/shelf.py", &shelf),
        ("books/films.py", &films),
    ])
}

fn by_wheel(program: &str) -> (Vec<String>, Vec<String>) {
    two_servers(program, ("books_mcp-1.0.dist-info/entry_points.txt", ENTRY_POINTS))
}

#[test]
fn tools_that_the_program_does_not_load_are_optional() {
    assert_tools(by_wheel("def main():\n    from .shelf import mcp\n    mcp.run()\n"), &["get_book"], &["get_film"]);
    assert_tools(by_wheel("import books.films\n"), &["get_film"], &["get_book"]);
}

#[test]
fn source_archives_declare_programs_in_pyproject() {
    for entry_points in [
        "[project]\nname = 'books-mcp'\n[project.scripts]\nbooks-mcp = 'books.cli:main'\n",
        "[tool.poetry]\nname = 'books-mcp'\n[tool.poetry.scripts]\nbooks-mcp = { reference = 'books.cli:main', type = 'console' }\n",
    ] {
        assert_tools(
            two_servers("from books import shelf\n", ("pyproject.toml", entry_points)),
            &["get_book"],
            &["get_film"],
        );
    }
    let all: [&str; 2] = ["get_book", "get_film"];
    assert_tools(two_servers("from books import shelf\n", ("pyproject.toml", "[project\n")), &all, &[]);
}

#[test]
fn file_may_be_mentioned_in_a_string() {
    for program in [
        "uvicorn.run('books.shelf:app')\n",
        "subprocess.run([sys.executable, '-m', 'books.shelf'])\n",
        "run(HERE / \"shelf.py\")\n",
        "import_module('.shelf', package='books')\n",
        "import_module(f'{__package__}.shelf')\n",
        "os.system('python -m books.shelf --http')\n",
        "uvicorn.run(\"shelf:app\")\n",
    ] {
        assert_tools(by_wheel(program), &["get_book"], &["get_film"]);
    }
    // A sentence does not count, nor does the end of another name.
    assert_tools(
        by_wheel("'Starts all books.'\nprint('films: ')\nfrom .shelf import mcp\n"),
        &["get_book"],
        &["get_film"],
    );
    assert_tools(
        by_wheel("from .shelf import mcp\nrun('old_films.py', 'notebooks.films')\n"),
        &["get_book"],
        &["get_film"],
    );
}

#[test]
fn every_file_counts_if_imports_cannot_be_followed() {
    for program in [
        "from books import shelf\nimport_module(name + other)\n",
        "import pkgutil\nfrom books import shelf\nfor one in pkgutil.iter_modules(books.__path__): pass\n",
        "from books import shelf\nimport_module(f'{BASE}.films')\n",
        "from books import shelf\nmodule = __name__ + '.' + name\nimport_module(module)\n",
        "from books import shelf\nfor one in entry_points(group='books'): one.load()\n",
        // It has no tools, so it is not the server.
        "print('hello')\n",
    ] {
        assert_tools(by_wheel(program), &["get_book", "get_film"], &[]);
    }
    let entry_points = "[console_scripts]\nbooks-mcp = other_package:main\n";
    let found = two_servers("from books import shelf\n", ("x.dist-info/entry_points.txt", entry_points));
    assert_tools(found, &["get_book", "get_film"], &[]);
}

#[test]
fn imports_are_recognized_in_every_form() {
    for program in [
        "from books import \\\n    shelf\n",
        "from books import (\n    cli,  # tools (read)\n    shelf,\n)\n",
        "from books import(shelf)\n",
        "import os; from books import shelf\n",
        "try: from . import shelf\nexcept ImportError: pass\n",
        "def main(): from .shelf import mcp; mcp.run()\n",
        "import os, books.shelf as shelf\n",
    ] {
        assert_tools(by_wheel(program), &["get_book"], &["get_film"]);
    }
}

#[test]
fn only_the_packages_own_entry_points_count() {
    let entry_points = "[console_scripts]\nbooks-mcp = books.films:main\n";
    for place in ["entry_points.txt", "tests/x.dist-info/entry_points.txt", "books/entry_points.txt"] {
        let (shelf, films) = (server("get_book"), server("get_film"));
        let manifest = "[project]\nname = 'books-mcp'\n[project.scripts]\nbooks-mcp = 'books.shelf:main'\n";
        let found = split(&[
            (place, entry_points),
            ("x/pyproject.toml", manifest),
            ("books/shelf.py", &shelf),
            ("books/films.py", &films),
        ]);
        assert_tools(found, &["get_book"], &["get_film"]);
    }
}

#[test]
fn external_modules_are_not_taken_for_files_of_the_package() {
    let (shelf, inner) = (server("get_book"), server("get_none"));
    let found = split(&[
        ("x.dist-info/entry_points.txt", "[console_scripts]\nx = books.shelf:main\n"),
        ("books/__init__.py", ""),
        ("books/shelf.py", &format!("{shelf}from mcp.server import Server\n")),
        ("books/mcp/__init__.py", ""),
        ("books/mcp/server.py", &inner),
    ]);
    assert_tools(found, &["get_book"], &["get_none"]);
}

#[test]
fn likeliest_program_with_tools_counts() {
    let entry_points =
        "[console_scripts]\nbooks = books.films:main\nbooks-mcp-setup = books.films:main\nbooks-mcp = books.cli:main\n";
    let found = two_servers("from books import shelf\n", ("books_mcp-1.0.dist-info/entry_points.txt", entry_points));
    assert_tools(found, &["get_book"], &["get_film"]);
    let found = two_servers("print('hello')\n", ("books_mcp-1.0.dist-info/entry_points.txt", entry_points));
    assert_tools(found, &["get_film"], &["get_book"]);
    // Starting the package by its name runs the program of that name.
    let entry_points = "[console_scripts]\nbooks-mcp-lite = books.films:main\nbooks = books.shelf:main\n";
    let found = two_servers("", ("books-1.0.dist-info/entry_points.txt", entry_points));
    assert_tools(found, &["get_book"], &["get_film"]);
    // The files that a likelier program loads are unknown.
    let entry_points = "[console_scripts]\nbooks = other:main\nbooks-demo = books.films:main\n";
    let found = two_servers("", ("books-1.0.dist-info/entry_points.txt", entry_points));
    assert_tools(found, &["get_book", "get_film"], &[]);
}

#[test]
fn enclosing_packages_are_loaded_with_a_module() {
    let (shelf, all) = (server("get_book"), server("get_film"));
    let found = split(&[
        ("x.dist-info/entry_points.txt", "[console_scripts]\nx = books.inner.shelf:main\n"),
        ("books/__init__.py", "from .films import mcp\n"),
        ("books/films.py", &all),
        ("books/inner/__init__.py", "from .more import *\n"),
        ("books/inner/shelf.py", &shelf),
        ("books/inner/more/__init__.py", "__all__ = ['songs']\n"),
        ("books/inner/more/songs.py", &server("get_song")),
        ("books/aside.py", &server("get_none")),
    ]);
    assert_tools(found, &["get_book", "get_film", "get_song"], &["get_none"]);
}

#[test]
fn module_name_in_a_variable_is_followed() {
    let named = "for name in MODULES:\n    import_module(name)\nMODULES = ['books.shelf']\n";
    assert_tools(by_wheel(named), &["get_book"], &["get_film"]);
    let folder = "for name in os.listdir():\n    module = f'books.{name}'\n    import_module(module)\n";
    assert_tools(by_wheel(folder), &["get_book", "get_film"], &[]);
    let composed = "from books import shelf\nmodule = f'{root}.{name}'\nimport_module(module)\n";
    assert_tools(by_wheel(composed), &["get_book", "get_film"], &[]);
}

#[test]
fn too_many_programs_are_not_followed() {
    let entry_points = |count: usize| {
        let lines: String = (0..count).map(|at| format!("a{at} = books.m{at}:main\n")).collect();
        format!("[console_scripts]\nbooks = books.shelf:main\n{lines}")
    };
    let place = "books-1.0.dist-info/entry_points.txt";
    assert_tools(two_servers("", (place, &entry_points(19))), &["get_book"], &["get_film"]);
    assert_tools(two_servers("", (place, &entry_points(20))), &["get_book", "get_film"], &[]);
}

#[test]
fn unloaded_caller_does_not_disable_a_function_of_the_program() {
    let shelf = "from mcp.server.fastmcp import FastMCP\ndef create():\n    mcp = FastMCP('x')\n    register(mcp)\n    return mcp\n\
                 def register(mcp):\n    @mcp.tool()\n    def get_book(): pass\n    return mcp\n@other.tool()\ndef get_more(): pass\n";
    let found = split(&[
        ("x.dist-info/entry_points.txt", "[console_scripts]\nx = books:main\n"),
        ("books/__init__.py", "from .shelf import create\ndef main():\n    create().run()\n"),
        ("books/shelf.py", shelf),
        ("books/dev.py", "# tooling\nfrom books.shelf import create, register\nmcp = create()\nregister(mcp)\n"),
    ]);
    assert_tools(found, &["get_book", "get_more"], &[]);
}

#[test]
fn object_created_by_two_programs_keeps_its_tools() {
    let shelf = "from mcp.server import FastMCP\nclass Shelf(FastMCP):\n    def __init__(self):\n        \
                 super().__init__(name='x')\n        self._register_tools()\n    def _register_tools(self):\n        \
                 @self.tool()\n        def get_book(): pass\nother = FastMCP('y')\n@other.tool()\ndef get_more(): pass\n\
                 def main():\n    server = Shelf()\n    server.run()\n";
    let found = split(&[
        ("x.dist-info/entry_points.txt", "[console_scripts]\nx = books.shelf:main\ny = books.cli:main\n"),
        ("books/shelf.py", shelf),
        ("books/cli.py", "from books.shelf import Shelf\nasync def list_tools():\n    server = Shelf()\n"),
    ]);
    assert_tools(found, &["get_book", "get_more"], &[]);
}
