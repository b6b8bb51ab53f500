//! Imports between files of a package.

use super::*;

const BEGINS: &str = r#"{"name": "x", "main": "index.js"}"#;

fn tool(name: &str) -> String {
    format!(r#"server.tool("{name}", "Told", f);"#)
}

#[test]
fn module_required_as_a_whole_counts_with_all_its_exports() {
    let books = r#"exports.registerBooks = registerBooks;
        function registerBooks(server) { server.tool("books", "Told", f); }"#;
    let of = |index: &str| {
        let index = format!("{SDK}{index}");
        let tools = read(&[("package.json", BEGINS), ("index.js", &index), ("books.js", books)]);
        names(&tools).iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()
    };
    for index in [
        "const all = require('./books.js'); for (const add of Object.values(all)) add(server);",
        "const all = require('./books.js'); all[which](server);",
        "Object.values(require('./books.js')).forEach((add) => add(server));",
        "const { other, ...rest } = require('./books.js'); each(rest);",
        "for (const add of Object.values(await import('./books.js'))) add(server);",
        "const all = require('./books.js'); all.registerBooks(server);",
    ] {
        assert_eq!(of(index), ["books"], "{index}");
    }
    // Only other members of these modules are used.
    for index in ["const all = require('./books.js'); all.other(server);", "const { other } = require('./books.js');"] {
        assert_eq!(of(index), Vec::<String>::new(), "{index}");
    }
}

#[test]
fn import_aliases_are_resolved() {
    let manifest = r##"{"name": "x", "main": "dist/index.js", "imports": {
        "#tools/*": "./dist/tools/*.js", "#shelf": {"types": "./shelf.d.ts", "node": "./dist/shelf.js"}, "#fs": "fs"}}"##;
    let index =
        format!("{SDK}{} import '#tools/books'; import '#shelf'; import '@/more.js'; import '#fs';", tool("own"));
    let (books, shelf, more, old) = (tool("books"), tool("shelf"), tool("more"), tool("old"));
    for root in ["package/", ""] {
        let paths =
            ["package.json", "dist/index.js", "dist/tools/books.js", "dist/shelf.js", "dist/more.js", "dist/old.js"];
        let paths = paths.map(|path| format!("{root}{path}"));
        let texts = [manifest, &index, &books, &shelf, &more, &old];
        let files: Vec<(&str, &str)> = paths.iter().map(String::as_str).zip(texts).collect();
        let mut tools = read(&files);
        tools.sort_by(|one, other| one.name.cmp(&other.name));
        assert_eq!(names(&tools), ["books", "more", "own", "shelf"], "{root}");
    }
}

#[test]
fn imports_find_files_with_any_source_extension() {
    let index = format!(
        "{SDK}{} import './a.cjs'; import './b'; import './c'; import './d.jsx'; import './e'; import './g';",
        tool("own")
    );
    let texts = ["a", "b", "c", "d", "e", "g"].map(tool);
    let paths = ["a.cts", "b.tsx", "c.jsx", "d.tsx", "e/index.cjs", "g.cts"];
    let mut files = vec![("package.json", BEGINS), ("index.js", &*index)];
    files.extend(paths.into_iter().zip(texts.iter().map(String::as_str)));
    let mut tools = read(&files);
    tools.sort_by(|one, other| one.name.cmp(&other.name));
    assert_eq!(names(&tools), ["a", "b", "c", "d", "e", "g", "own"]);
}

#[test]
fn program_without_an_extension_is_read() {
    let program = format!("#!/usr/bin/env node\n{SDK}{} require('../lib/more');", tool("own"));
    let (more, old) = (tool("more"), tool("old"));
    let manifest = r#"{"name": "x", "bin": {"x": "./bin/start"}}"#;
    let files = [("package.json", manifest), ("bin/start", &*program), ("lib/more.js", &*more), ("lib/old.js", &*old)];
    assert_eq!(names(&read(&files)), ["own", "more"]);
}

#[test]
fn worker_file_counts_as_imported() {
    let of = |load: &str| {
        let index = format!("{SDK}{} {load}", tool("own"));
        let (books, old) = (tool("books"), tool("old"));
        let files = [("package.json", BEGINS), ("index.js", &*index), ("lib/books.js", &*books), ("old.js", &*old)];
        names(&read(&files)).iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()
    };
    for load in [
        "new Worker('./lib/books.js');",
        "new threads.Worker(new URL('./lib/books.js', import.meta.url), { type: 'module' });",
        "new Worker(path.join(__dirname, 'lib', 'books.js'));",
        "new Worker(path.resolve(__dirname, './lib/books.js'));",
        "new Worker(`${__dirname}/lib/books.js`);",
        "new Worker(require.resolve('./lib/books.js'));",
    ] {
        assert_eq!(of(load), ["own", "books"], "{load}");
    }
    assert_eq!(of("new Writer('./lib/books.js');"), ["own"]);
}
