//! Packages that are read only in part are not reported as complete.

use gatelodge_catalogue::{ExtractedTool, PackageFacts, PackageRegistry, PackageRelease, RiskLevel, derive_facts};
use gatelodge_indexer::ToolExtraction;

use crate::support::{extract, names_of};

const HEAD: &str = "from mcp.server.fastmcp import FastMCP\nfrom mcp.types import Tool\nmcp = FastMCP('books')\n";

fn facts_of(found: ToolExtraction) -> PackageFacts {
    let release =
        PackageRelease { source: PackageRegistry::Pypi, package: "books".into(), version: "1.0".into(), date: None };
    let all: Vec<ExtractedTool> = [found.tools, found.alternatives].concat();
    derive_facts(&release, &all)
}

fn extract_file(text: &str) -> ToolExtraction {
    extract(&[("books/server.py", &format!("{HEAD}{text}"))])
}

#[test]
fn tool_with_an_invalid_name_is_found_and_counted() {
    let long = "run_".repeat(100);
    let read = extract_file(&format!("@mcp.tool(name='{long}')\ndef f(): pass\n@mcp.tool()\ndef get_book(): pass\n"));
    assert_eq!(read.tools.len(), 2);
    assert_eq!(facts_of(read).tools.len(), 1);
    // A name with a space is kept, an empty one is not.
    let text = "@mcp.tool(name='run ')\ndef f(): pass\n@mcp.tool(name='')\ndef get_book(): pass\n";
    let kept = facts_of(extract_file(text)).tools;
    assert_eq!(kept.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>(), ["get_book", "run "]);
}

#[test]
fn most_harmful_definition_counts_and_not_the_most_detailed_one() {
    let mild = "def get_it(title: str, shelf: str, page: int):\n    'Looks up a book by its title.'\n";
    let harm = "def get_it(command: str):\n    'Runs any shell command and deletes all files.'\n";
    for (first, second) in [(mild, harm), (harm, mild)] {
        let files = [
            ("books/a.py", format!("{HEAD}@mcp.tool()\n{first}")),
            ("books/b.py", format!("{HEAD}@mcp.tool()\n{second}")),
        ];
        let found = extract(&[(files[0].0, &files[0].1), (files[1].0, &files[1].1)]);
        assert_eq!((found.tools.len(), found.alternatives.len()), (1, 1));
        let kept = facts_of(found).tools;
        assert_eq!(kept.len(), 1);
        assert!(RiskLevel::of(kept[0].category) >= RiskLevel::High, "{:?}", kept[0].category);
    }
    let described = |description: &str, more: &str| {
        format!("Tool(name='get_it', description='{description}', inputSchema={{'properties': {{'a': {{}}{more}}}}})\n")
    };
    let (mild, harm) = (described("Looks up a book.", ", 'b': {}"), described("Deletes all files for good.", ""));
    let kept = facts_of(extract_file(&format!("{mild}{harm}"))).tools;
    assert_eq!((kept.len(), RiskLevel::of(kept[0].category)), (1, RiskLevel::Critical));
}

#[test]
fn python_package_over_a_limit_is_reported_as_incomplete() {
    let (tool, large) = ("@mcp.tool()\ndef get_book(): pass\n", format!("{HEAD}#{}\n", "#".repeat(2_000_000)));
    let texts: Vec<String> = (0..6).map(|at| format!("{large}@mcp.tool()\ndef get_{at}(): pass\n")).collect();
    let names: Vec<String> = (0..6).map(|at| format!("books/{at}.py")).collect();
    let files: Vec<(&str, &str)> = names.iter().map(String::as_str).zip(texts.iter().map(String::as_str)).collect();
    let read = extract(&files);
    assert_eq!((read.tools.len(), read.unread_parts), (0, 1));
    let many = |count: usize| (0..count).map(|at| format!("@mcp.tool()\ndef get_{at}(): pass\n")).collect::<String>();
    assert_eq!(extract_file(&many(4_500)).tools.len(), 4_500);
    assert_eq!(facts_of(extract_file(&many(4_500))).tools.len(), 4_000);
    assert_eq!(extract_file(&many(5_100)).unread_parts, 1);
    let steps = "for a in range_:\n    for b in range_:\n        for c in range_:\n            for d in range_: f(d)\n";
    let listed = format!("range_ = [{}]\n", "1, ".repeat(200));
    assert_eq!(extract_file(&format!("{tool}{listed}{steps}{}", many(1))).unread_parts, 1);
    let long = format!(
        "for name in [{}]:\n    mcp.tool(name=name)(f)\n",
        (0..2_100).map(|at| format!("'n{at}',")).collect::<String>()
    );
    assert_eq!(extract_file(&format!("def f(): pass\n{long}")).unread_parts, 1);
}

#[test]
fn imported_files_count_in_any_folder() {
    let tool = |name: &str| format!("from books.app import mcp\n@mcp.tool()\ndef {name}(): pass\n");
    let (docs, build, deep, spare, other) = (tool("docs"), tool("build"), tool("deep"), tool("spare"), tool("other"));
    let app = format!(
        "{HEAD}from .docs import pages\nimport books.build.make\nfrom books.tests.inner.deep import x\nimport shelf.one\n"
    );
    let start = tool("start");
    let files = [
        ("books/app.py", app.as_str()),
        ("books/docs/__init__.py", ""),
        ("books/docs/pages.py", &docs),
        ("books/build/make.py", &build),
        ("books/tests/inner/__init__.py", &start),
        ("books/tests/inner/deep.py", &deep),
        ("books/templates/spare.py", &spare),
        ("examples/shelf/one.py", &other),
    ];
    assert_eq!(names_of(&files), ["build", "deep", "docs", "start"]);
}

#[test]
fn files_imported_by_name_count_in_any_folder() {
    let of = |load: &str| {
        let tool = |name: &str| format!("from books.app import mcp\n@mcp.tool()\ndef {name}(): pass\n");
        let (one, other, spare, shown) = (tool("one"), tool("other"), tool("spare"), tool("shown"));
        let app = format!("{HEAD}import importlib\n{load}\n@mcp.tool()\ndef own(): pass\n");
        let files = [
            ("books/app.py", app.as_str()),
            ("books/templates/one.py", &one),
            ("books/templates/other.py", &other),
            ("books/docs/spare.py", &spare),
            ("examples/books/templates/shown.py", &shown),
        ];
        names_of(&files)
    };
    for load in [
        "importlib.import_module('books.templates.one')",
        "importlib.import_module(\n    \"books.templates.one\",\n)",
        "importlib.import_module('.templates.one', package='books')",
        "importlib.import_module(f'{__package__}.templates.one')",
        "__import__('books.templates.one')",
    ] {
        assert_eq!(of(load), ["one", "own"], "{load}");
    }
    // Any module of a folder may be imported.
    for load in [
        "importlib.import_module(f'books.templates.{name}')",
        "importlib.import_module('books.templates.' + name)",
        "importlib.import_module('.templates.%s' % name, __package__)",
        "importlib.import_module(f'{__package__}.templates.{name}')",
    ] {
        assert_eq!(of(load), ["one", "other", "own"], "{load}");
    }
    for load in
        ["importlib.import_module(name)", "importlib.import_module(f'{name}')", "import_module('", "'books.docs'"]
    {
        assert_eq!(of(load), ["own"], "{load}");
    }
}

#[test]
fn long_runs_of_comments_are_not_slow() {
    let started = std::time::Instant::now();
    for row in ["# note\n", "    # note\n", "#\n\n"] {
        let remarks = row.repeat(140_000);
        let text = format!("@mcp.tool()\ndef one(): pass\n{remarks}@mcp.tool()\ndef other():\n{remarks}    pass\n");
        let names: Vec<_> = extract_file(&text).tools.into_iter().map(|tool| tool.name).collect();
        assert_eq!(names, ["one", "other"], "{row:?}");
    }
    assert!(started.elapsed() < std::time::Duration::from_secs(30), "took {:?}", started.elapsed());
    // Lines that only look like comments are part of a string.
    let rows = "# note\n".repeat(150);
    for quotes in ["'''", "\"\"\""] {
        let text = format!("x = 'a\\'b' # '''\n@mcp.tool()\ndef one():\n    {quotes}Told.\n{rows}{quotes}\n{rows}");
        let text = extract_file(&text).tools.remove(0).description.unwrap_or_default();
        assert_eq!(text.matches("# note").count(), 150, "{quotes}");
    }
}

#[test]
fn names_with_many_references_are_evaluated_once() {
    let mut text = String::from(
        "@app.list_tools()\nasync def list_tools():\n    return [Tool(name='get_book', inputSchema={})]\n",
    );
    text.push_str("@app.call_tool()\nasync def call_tool(name, arguments):\n");
    for at in 0..60 {
        text.push_str(&format!(
            "    if name == 'tool{at}':\n        found = api.get{at}(arguments.get('a'), last=text)\n"
        ));
        text.push_str("        text = found.data.to_dict(found)\n");
        for _ in 0..20 {
            text.push_str("        text.get(found.get('b'))\n");
        }
    }
    let read = extract_file(&text);
    assert_eq!((read.tools.len(), read.unread_parts), (1, 0));
}

#[test]
fn choice_among_equally_detailed_definitions_is_deterministic() {
    let own = |file: &str, text: &str| {
        (format!("books/{file}.py"), format!("{HEAD}@mcp.tool()\ndef get_it(a):\n    '{text}'\n"))
    };
    for (first, second) in [("Looks up a book.", "Looks up a page."), ("Looks up a page.", "Looks up a book.")] {
        let files = [own("a", first), own("b", second)];
        let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        let read = extract(&files);
        assert_eq!(read.tools[0].description.as_deref(), Some("Looks up a book."), "{first}");
        assert_eq!(read.alternatives.len(), 1);
    }
}

#[test]
fn too_many_files_and_imports_of_one_name_are_reported_as_incomplete() {
    let server = "from mcp.server.fastmcp import FastMCP\nmcp = FastMCP('x')\n@mcp.tool()\ndef get_book(): pass\n";
    let paths: Vec<String> = (0..5_000).map(|at| format!("d{at}/shelf.py")).collect();
    let mut files: Vec<(&str, &str)> = paths.iter().map(|path| (path.as_str(), "")).collect();
    let few = format!("{server}import shelf\n");
    files.push(("books/server.py", &few));
    assert_eq!(extract(&files).unread_parts, 0);
    let many = format!("{server}import {}\n", vec!["shelf"; 10_000].join(","));
    files.pop();
    files.push(("books/server.py", &many));
    assert_eq!(extract(&files).unread_parts, 1);
}
