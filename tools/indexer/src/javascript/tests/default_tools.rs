//! Tools that are registered with default settings.

use super::{SDK, read, read_one};
use gatelodge_catalogue::ExtractedTool;

fn split(tools: &[ExtractedTool]) -> (Vec<&str>, Vec<&str>) {
    let names = |optional: bool| {
        let own = tools.iter().filter(|tool| tool.optional == optional);
        own.map(|tool| tool.name.as_str()).collect()
    };
    (names(false), names(true))
}

#[test]
fn tool_under_a_switch_that_is_off_is_optional() {
    let tools = read_one(
        "const writes = process.env.ALLOW_WRITES === 'true';
         const { EXTRA = 'no' } = process.env;
         server.tool('get_book', {}, f);
         if (writes) { server.tool('add_book', {}, f); } else { server.tool('why_not', {}, f); }
         if (process.env.HIDE !== 'yes') server.tool('list_books', {}, f);
         EXTRA === 'yes' && server.tool('rare', {}, f);
         if (process.argv.includes('--danger')) server.tool('burn', {}, f);
         if (!writes) server.tool('read_only', {}, f);
         if (unknown()) server.tool('perhaps', {}, f);",
    );
    let (default, optional) = split(&tools);
    assert_eq!(default, ["get_book", "why_not", "list_books", "read_only", "perhaps"]);
    assert_eq!(optional, ["add_book", "rare", "burn"]);
}

#[test]
fn settings_that_users_must_supply_count_as_set() {
    let tools = read_one("if (process.env.BOOKS_API_KEY) server.tool('get_book', {}, f);");
    assert_eq!(split(&tools), (vec!["get_book"], vec![]));
}

#[test]
fn switch_is_followed_into_the_registering_function() {
    let tools = read_one(
        "function config(env = process.env) { return { writes: env.WRITES === '1' }; }
         function writers(server) { server.tool('add_book', {}, f); }
         function readers(server, config) {
             server.tool('get_book', {}, f);
             if (!config.writes) return;
             server.tool('change_book', {}, f);
         }
         const settings = config();
         readers(server, settings);
         if (settings.writes) writers(server);",
    );
    assert_eq!(split(&tools), (vec!["get_book"], vec!["add_book", "change_book"]));
}

#[test]
fn switch_that_is_set_elsewhere_is_unknown() {
    let tools = read_one(
        "let writes = false;
         for (const arg of read()) { if (arg) writes = true; }
         const config = {}; config.extra = false;
         if (writes) server.tool('add_book', {}, f);
         if (config.extra) server.tool('extra', {}, f);",
    );
    assert_eq!(split(&tools), (vec!["add_book", "extra"], vec![]));
}

#[test]
fn tool_that_a_filter_removes_is_optional() {
    let tools = read_one(
        "const mode = process.env.MODE || 'basic';
         const basic = ['get_book'];
         const tools = [
             { name: 'get_book', description: 'Gets.', inputSchema: {} },
             { name: 'burn_book', description: 'Burns.', inputSchema: {} },
         ];
         const shown = tools.filter((tool) => mode === 'all' || basic.includes(tool.name));
         server.setRequestHandler(ListToolsRequestSchema, () => ({ tools: shown }));",
    );
    assert_eq!(split(&tools), (vec!["get_book"], vec!["burn_book"]));
    let kept = read_one(
        "const tools = [{ name: 'get_book', description: 'Gets.', inputSchema: {} }];
         const shown = tools.filter((tool) => allowed(tool.name));
         server.setRequestHandler(ListToolsRequestSchema, () => ({ tools: shown }));",
    );
    assert_eq!(split(&kept), (vec!["get_book"], vec![]));
}

#[test]
fn tools_of_a_secondary_program_are_optional() {
    let manifest = r#"{"name": "books-mcp", "bin": {"books-admin": "dist/admin.js", "books-mcp": "./dist/main.js"}}"#;
    let main = format!("{SDK}import './shelf.js';");
    let shelf = "server.tool('get_book', {}, f);";
    let admin = format!("{SDK}server.tool('burn_book', {{}}, f);");
    let old = "server.tool('left_behind', {}, f);";
    let tools = read(&[
        ("package/package.json", manifest),
        ("package/dist/main.js", &main),
        ("package/dist/shelf.js", shelf),
        ("package/dist/admin.js", &admin),
        ("package/dist/old.js", old),
    ]);
    assert_eq!(split(&tools), (vec!["get_book"], vec!["burn_book"]));
}

#[test]
fn files_that_are_found_at_run_time_count() {
    let manifest = r#"{"name": "books-mcp", "bin": "dist/main.js"}"#;
    let main = format!("{SDK}server.tool('a', {{}}, f); for (const file of list()) await import(file);");
    let files = [
        ("package/package.json", manifest),
        ("package/dist/main.js", main.as_str()),
        ("package/dist/tools/b.js", "server.tool('b', {}, f);"),
    ];
    assert_eq!(split(&read(&files)), (vec!["a", "b"], vec![]));
}

#[test]
fn program_with_the_package_name_is_the_main_one_even_if_unreadable() {
    let tool = |name: &str| format!("{SDK}server.tool('{name}', {{}}, f);");
    let (own, admin) = (tool("get_book"), tool("burn_book"));
    let named = |program: &str| {
        format!(
            r#"{{"name": "books", "main": "main.js", "bin": {{"books-mcp-admin": "admin.js", "books": "{program}"}}}}"#
        )
    };
    let (found, missing) = (named("main.js"), named("run.sh"));
    let files = |manifest| [("package.json", manifest), ("main.js", own.as_str()), ("admin.js", admin.as_str())];
    assert_eq!(split(&read(&files(&found))), (vec!["get_book"], vec!["burn_book"]));
    // Then its tools are unknown, and the other program does not replace it.
    assert_eq!(split(&read(&files(&missing))), (vec!["burn_book", "get_book"], vec![]));
}
