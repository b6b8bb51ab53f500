use std::time::{Duration, Instant};

use super::*;

/// Extracts tools within a time limit far above the expected time.
fn in_time(text: &str) -> Vec<ExtractedTool> {
    let started = Instant::now();
    let text = format!("{SDK}{text}");
    let found = extract_javascript_tools(&[SourceFile { path: "dist/index.js", text: &text }]);
    assert!(started.elapsed() < Duration::from_secs(180), "took {:?}", started.elapsed());
    found.tools
}

const TOOL: &str = "server.tool(\"kept\", \"Told\", f);\n";

#[test]
fn deep_nesting_does_not_overflow_the_stack() {
    for (open, close) in [("[", "]"), ("(", ")"), ("{a:", "}"), ("f(", ")"), ("()=>{", "}"), ("!", ""), ("a?", ":b")] {
        in_time(&format!("x = {}", open.repeat(100_000)));
        in_time(&format!("{TOOL}x = {}1{};", open.repeat(20_000), close.repeat(20_000)));
    }
    in_time(&format!("x = {}1", "a+".repeat(100_000)));
    in_time(&format!("x = z{}", ".optional()".repeat(50_000)));
}

#[test]
fn tools_next_to_deep_nesting_are_found() {
    let deep = format!("{TOOL}x = {}1{};", "[".repeat(5_000), "]".repeat(5_000));
    assert_eq!(names(&in_time(&deep)), ["kept"]);
}

#[test]
fn long_minified_line_is_read() {
    let mut text = String::from(TOOL.trim_end());
    while text.len() < 3 << 20 {
        text.push_str("function a(b,c){return b?c.map(d=>({e:d.f,g:[1,2,\"h\"]})):a(c,b)}var i=a(1,{j:`k${i}`});");
    }
    assert_eq!(names(&in_time(&text)), ["kept"]);
}

#[test]
fn tools_after_invalid_text_are_found() {
    assert_eq!(names(&in_time(&format!("{TOOL}const = ; }} ) function ("))), ["kept"]);
    let junk: String =
        (0..300_000_u32).filter_map(|number| char::from_u32(number.wrapping_mul(2_654_435_761) % 0x3000)).collect();
    in_time(&junk);
    in_time(&format!("{TOOL}{}", "\0\u{1}\u{fffd}'`\"${".repeat(50_000)));
}

#[test]
fn recursive_definitions_terminate() {
    let circles = "const a = b, b = a; const t = [...t]; t.push(...t); function g(x) { return g(g(x)); }
        const o = { ...o, name: o.name, inputSchema: o }; class C extends C {} class D extends E {} class E extends D { name = this.name; description = 1; schema = 2; }
        function r(n) { r(n + n); server.registerTool(n, {}, f); } r('x'); server.tool(g(a), f, f); new D(); export * from './index.js';";
    in_time(&format!("{TOOL}{circles}"));
}

#[test]
fn exponential_growth_is_limited() {
    let mut text = String::from("const l0 = ['a','b'];");
    for level in 1..40 {
        text.push_str(&format!("const l{level} = [...l{0}, ...l{0}];", level - 1));
    }
    text.push_str("for (const a of l39) for (const b of l39) server.tool(a + b, 'Told', f);");
    in_time(&text);
}

#[test]
#[should_panic(expected = "cannot start a thread to read a package")]
fn failed_thread_start_is_not_an_empty_result() {
    super::super::run_with_stack(1 << 60, Vec::<ExtractedTool>::new);
}

#[test]
fn package_over_a_limit_is_reported_as_incomplete() {
    let tool = format!("{SDK}{TOOL}");
    let of = |path: &'static str, texts: &[String]| {
        let names: Vec<String> = (0..texts.len()).map(|at| format!("{path}{at}.js")).collect();
        let parts = names.iter().map(String::as_str).zip(texts.iter().map(String::as_str));
        let files = parts.chain([("index.js", tool.as_str())]).map(|(path, text)| SourceFile { path, text });
        let found = extract_javascript_tools(&files.collect::<Vec<_>>());
        (found.tools.len(), found.unread_parts)
    };
    // Limits by bytes, by nodes of all files, and by nodes of one file.
    let remark = |at: usize| format!("/*{at}{}*/", " ".repeat(4 << 20));
    assert_eq!(of("remark", &(0..8).map(remark).collect::<Vec<_>>()), (0, 3));
    let dense = |at: usize| format!("x=[{at}{}]", ",1".repeat(400_000));
    assert_eq!(of("dense", &(0..2).map(dense).collect::<Vec<_>>()), (1, 0));
    assert_eq!(of("dense", &(0..5).map(dense).collect::<Vec<_>>()), (0, 2));
    assert_eq!(of("dense", &[format!("Tool=[1{}]", ",1".repeat(1_600_000))]), (0, 2));
    // Limit by evaluation steps.
    let mut text = String::from("function h0(x) { return x; }");
    for level in 1..21 {
        text.push_str(&format!("function h{level}(x) {{ return h{0}(x) + h{0}(x); }}", level - 1));
    }
    for at in 0..40 {
        text.push_str(&format!("server.tool('n{at}' + h20(''), 'Told', f);"));
    }
    assert_eq!(of("steps", &[text]), (0, 1));
}

#[test]
fn tool_list_over_the_limit_is_reported_as_incomplete() {
    let listed = |count: usize| {
        let names: String = (0..count).map(|at| format!("'n{at}',")).collect();
        format!("{SDK}const all = [{names}];")
    };
    let each = "for (const name of all) server.tool(name, 'Told', f);";
    let handled = "const tools = all.map((name) => ({ name, description: 'Told', inputSchema: {} }));
        server.setRequestHandler(ListToolsRequestSchema, () => ({ tools }));";
    let unrelated = "for (const name of all) console.log(name); server.tool('kept', 'Told', f);";
    let of = |text: String| {
        let found = extract_javascript_tools(&[SourceFile { path: "dist/index.js", text: &text }]);
        (found.tools.len(), found.unread_parts)
    };
    assert_eq!(of(listed(2_900) + each), (2_900, 0));
    assert_eq!(of(listed(2_900) + handled), (2_900, 0));
    // One context per element, and the elements of a list.
    assert_eq!(of(listed(5_001) + each), (0, 1));
    assert_eq!(of(listed(5_001) + handled), (0, 1));
    // A list that contains no tools may have any length.
    assert_eq!(of(listed(5_001) + unrelated), (1, 0));
}
