//! The static site: tool pages are complete, links have a target, and names from packages are never markup.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::convert::Infallible;

use gatelodge_catalogue::{
    DataFlowLabel, IndexMetadata, IndexedToolParameter, PackageFacts, PackageIndex, PackageRegistry, RiskSignalKind,
    ServerContext, StaticSite, ToolChange, ToolChangeKind, ToolFacts, ToolHints, ToolSpec, attack_patterns, classify,
};
use gatelodge_indexer::write_index;
use gatelodge_policy::{DocumentFormat, parse};

/// Tools of the Pharo server by name and parameters; the pages have no descriptions.
const PHARO: [(&str, &[&str]); 22] = [
    ("eval", &["code"]),
    ("run_package_test", &["package_name"]),
    ("run_class_test", &["class_name"]),
    ("install_project", &["project_name", "repository_url"]),
    ("import_package", &["package_name", "path"]),
    ("export_package", &["package_name", "path"]),
    ("apply_settings", &["settings"]),
    ("get_class_source", &["class_name"]),
    ("get_method_source", &["class_name", "method_name"]),
    ("get_class_comment", &["class_name"]),
    ("search_classes_like", &["class_name_query"]),
    ("search_methods_like", &["method_name_query"]),
    ("search_implementors", &["method_name"]),
    ("search_references", &["method_name_or_symbol"]),
    ("search_references_to_class", &["class_name"]),
    ("search_traits_like", &["trait_name_query"]),
    ("list_packages", &[]),
    ("list_classes", &["package_name"]),
    ("list_extended_classes", &["package_name"]),
    ("list_methods", &["package_name"]),
    ("read_screen", &["target_type"]),
    ("get_settings", &[]),
];
const NAME: &str = "pharo-smalltalk-interop-mcp-server";

fn facts(source: PackageRegistry, package: &str, tools: &[(&str, &[&str])]) -> PackageFacts {
    let server = ServerContext::new(package, None, tools.iter().map(|(name, _)| *name));
    let tools = tools.iter().map(|(name, takes)| {
        let known = classify(&ToolSpec::from_name(name), &server);
        let parameter =
            |name: &&str| IndexedToolParameter { name: (*name).into(), kind: "string".into(), required: true };
        ToolFacts {
            name: (*name).into(),
            parameters: takes.iter().map(parameter).collect(),
            claims: ToolHints::default(),
            category: known.category,
            confidence: known.confidence,
            signals: known.signals.iter().map(|signal| signal.kind).collect(),
            flow: known.flow,
            hash: "0".repeat(16),
            optional: false,
        }
    });
    PackageFacts { source, package: package.into(), version: "1.0".into(), date: None, tools: tools.collect() }
}

fn site(packages: Vec<PackageFacts>) -> BTreeMap<String, String> {
    let about = IndexMetadata {
        date: "2026-11-16".into(),
        outcomes: [("no_tools".into(), 5)].into(),
        ..IndexMetadata::default()
    };
    let index = PackageIndex::open(&write_index(packages, &about).unwrap()).unwrap();
    let site = StaticSite::new(&index, index.servers().collect());
    let mut files = BTreeMap::new();
    let done: Result<(), Infallible> = site.write(|page| {
        assert!(files.insert(page.path.clone(), page.text).is_none(), "{} is written twice", page.path);
        Ok(())
    });
    assert!(done.is_ok());
    assert_eq!(files.len(), site.file_count());
    files
}

fn pharo() -> BTreeMap<String, String> {
    site(vec![facts(PackageRegistry::Pypi, NAME, &PHARO)])
}

/// Returns the text of an HTML page without its markup.
fn words(html: &str) -> String {
    let mut out = String::new();
    let mut is_tag = false;
    for letter in html.chars() {
        match letter {
            '<' => is_tag = true,
            '>' => is_tag = false,
            letter if !is_tag => out.push(letter),
            _ => {}
        }
    }
    out.replace("&quot;", "\"").replace("&#39;", "'").replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
}

/// Returns the text of a Markdown page without its markup.
fn plain_words(markdown: &str) -> String {
    let mut out = String::new();
    let mut rest = markdown;
    while let Some((before, behind)) = rest.split_once("](") {
        out.push_str(before);
        rest = behind.split_once(')').map_or("", |(_, behind)| behind);
    }
    out.push_str(rest);
    let out = out.replace("\\_", "_").replace(['`', '*', '['], "");
    out.replace("&amp;", "&")
}

/// Level, category and calls a minute of five tool pages.
const SEEDS: [(&str, &str, &str, u32); 5] = [
    ("import_package", "Medium", "Write", 30),
    ("export_package", "Medium", "Write", 30),
    ("run_package_test", "High", "Execute", 10),
    ("eval", "High", "Execute", 10),
    ("run_class_test", "High", "Execute", 10),
];

#[test]
fn an_optional_tool_is_marked() {
    let mut books = facts(PackageRegistry::Pypi, "books", &[("burn_book", &[]), ("get_book", &[])]);
    books.tools[0].optional = true;
    let files = site(vec![books]);
    let marked = |path: &str| words(&files[path]).matches("only under a setting").count();
    assert_eq!(marked("servers/pypi/books/index.html"), 1);
    assert_eq!(marked("servers/pypi/books/tools/burn_book.html"), 1);
    assert_eq!(marked("servers/pypi/books/tools/get_book.html"), 0);
}

#[test]
fn a_tool_page_has_every_part_with_category_level_and_rule() {
    let files = pharo();
    for (tool, level, category, max) in SEEDS {
        let html = &files[&format!("servers/pypi/{NAME}/tools/{tool}.html")];
        let markdown = &files[&format!("servers/pypi/{NAME}/tools/{tool}.md")];
        let text = words(html);
        let article = if category == "Execute" { "an" } else { "a" };
        let takes = PHARO.iter().find(|(name, _)| *name == tool).unwrap().1;
        let confidence = text.split_once("Confidence ").unwrap().1.get(..4).unwrap();
        // Uncertain categories are shown as likely or as a guess, with their confidence.
        let doubt = match confidence.parse::<f64>().unwrap() {
            ..0.5 => Some("maybe"),
            ..0.7 => Some("likely"),
            _ => None,
        };
        let (kind, is) = match doubt {
            Some(sure) => {
                (format!("{sure} {category}"), format!("{sure} {article} {category} tool (confidence {confidence})"))
            }
            None => (category.to_owned(), format!("{article} {category} tool")),
        };
        for part in [
            format!("{level} risk · {kind} tool of {NAME}"),
            "How to control it ↓".to_owned(),
            format!("What {tool} does on {NAME}"),
            format!("Why {tool} needs a policy"),
            "From the tool's definition".to_owned(),
            "Risk signals".to_owned(),
            "Attack patterns that it can be used for".to_owned(),
            format!("How to control {tool}"),
            "Every other tool of the server is refused unless you allow it.".to_owned(),
            format!("At most {max} calls a minute"),
            "Register the server".to_owned(),
            "Point your client at the gateway".to_owned(),
            "Parameters".to_owned(),
            format!("{}, {} of them required.", takes.len(), takes.len()),
            "Related tools".to_owned(),
            "Go deeper".to_owned(),
            format!("Questions about {tool}"),
            format!("What does {tool} do?"),
            format!("It is {is} of {NAME}"),
            format!("How do I enforce a policy on {tool}?"),
            format!("What risk level is {tool}?"),
            format!("Can I rate-limit {tool}?"),
            format!("How do I block {tool} completely?"),
            format!("Which MCP server provides {tool}?"),
            format!("22 {NAME} tools catalogued and classified, in an index of 1 server and 22 tools"),
        ] {
            assert!(text.contains(&part), "{tool}: `{part}` is missing in\n{text}");
            let text = plain_words(markdown);
            assert!(text.contains(&part), "{tool}: `{part}` is missing in\n{text}");
        }
        for name in takes {
            let row = format!("<td><code>{name}</code></td><td>string</td><td>yes</td>");
            assert!(
                html.contains(&row) && markdown.contains(&format!("| `{name}` | string | yes |")),
                "{tool}: {name}"
            );
        }
        let policy = text.split("policy.json").nth(1).unwrap();
        let policy = &policy[..policy.find("\nAt most ").unwrap()];
        let expected = format!(
            r#"{{"version": "1", "default": "deny", "tools": {{"{tool}": {{"limits": [{{"counter": "{tool}_rate", "window": "minute", "max": {max}, "scope": "grant"}}]}}}}}}"#
        );
        let read = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert_eq!(read(policy), read(&expected));
        assert!(parse(policy.as_bytes(), DocumentFormat::Json).is_ok());
        assert!(html.contains("../../../../attacks/"), "{tool} has attack patterns");
        assert!(markdown.contains(&format!("\"max\": {max}")) && markdown.contains("## How to control"));
    }
}

#[test]
fn the_server_page_has_counts_grade_policies_and_all_tools() {
    let files = pharo();
    let text = words(&files[&format!("servers/pypi/{NAME}/index.html")]);
    for part in [
        "15 Read",
        "3 Write",
        "4 Execute",
        "0 Destructive",
        "0 Financial",
        "Most dangerous tools",
        "Three recommended policies",
        "recommended: ",
        "strict: ",
        "permissive: ",
        "Tokens of its tool list",
        "Changes",
    ] {
        assert!(text.contains(part), "`{part}` is missing");
    }
    for (tool, _) in PHARO {
        assert!(text.contains(tool), "{tool}");
    }
    // A dangerous tool is shown with a fact about its name only.
    let danger = text.split("Most dangerous tools").nth(1).unwrap().split("Three recommended").next().unwrap();
    assert!(danger.contains("the verb of its name is") && !danger.contains("parameter"), "{danger}");
    assert_eq!(text.matches("\"default\": \"deny\"").count(), 3);
}

#[test]
fn every_link_leads_to_an_existing_page() {
    let files = site(vec![
        facts(PackageRegistry::Pypi, NAME, &PHARO),
        facts(PackageRegistry::Npm, "@acme/f", &[("get", &[]), ("Get", &[]), ("a b/c?#%", &[])]),
    ]);
    for (path, text) in files.iter().filter(|(path, _)| path.ends_with(".html")) {
        for href in text.split("href=\"").skip(1).map(|rest| rest.split('"').next().unwrap()) {
            if href.starts_with('#') || href.starts_with("data:") {
                continue;
            }
            let mut at: Vec<&str> = path.split('/').collect();
            at.pop();
            for part in href.split('/') {
                match part {
                    ".." => drop(at.pop()),
                    part => at.push(part),
                }
            }
            let target = at.join("/");
            assert!(files.contains_key(&target), "{path}: {href} leads to {target}");
        }
    }
    for pattern in attack_patterns() {
        assert!(files.contains_key(&format!("attacks/{}.html", pattern.slug)));
    }
    let llms = &files["llms.txt"];
    for link in llms.split("](").skip(1).map(|rest| rest.split(')').next().unwrap()) {
        assert!(files.contains_key(link), "llms.txt: {link}");
    }
}

/// Returns a line of Markdown without escapes, code and the tags of the renderer. What is left must not be markup.
fn loose(line: &str, path: &str) -> String {
    let mut out = String::new();
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => drop(letters.next()),
            '`' => {
                let code: String = letters.by_ref().take_while(|letter| *letter != '`').collect();
                assert!(!code.contains(['<', '>', '|', '[', ']', '&', '\\']), "{path}: {code} in {line}");
            }
            letter => out.push(letter),
        }
    }
    out.replace("<code>", "").replace("</code>", "")
}

#[test]
fn names_from_packages_are_text_on_every_page() {
    let odd = "<script>alert(1)</script>\"'&`|*[x](y)````\n````\n# h <!-- \u{202e}";
    let taken: &[&str] = &["<img src=x onerror=alert(1)>", "a|b`c"];
    let mut package = facts(PackageRegistry::Npm, "@evil/../../x<b>|[x](y)", &[(odd, taken), ("rm|x](y)", &[])]);
    package.version = "<u>1</u>".into();
    package.tools[0].signals = vec![RiskSignalKind::TakesPath, RiskSignalKind::SteersModel];
    package.tools[0].flow = vec![DataFlowLabel::SendsOutward];
    for (path, text) in site(vec![package]) {
        assert!(!path.contains("..") && !path.starts_with('/'), "{path}");
        assert!(!text.contains('\u{202e}'), "{path}");
        if path.ends_with(".html") {
            for forbidden in ["<script", "<img", "<u>"] {
                assert!(!text.contains(forbidden), "{path}: {forbidden}");
            }
        }
        if path.ends_with(".md") || path == "llms.txt" {
            let (mut is_code, mut bars) = (false, None);
            for line in text.lines() {
                // Only text to copy may contain such a name unescaped.
                if line.starts_with("````") {
                    is_code = !is_code;
                }
                if is_code || line.starts_with("````") {
                    continue;
                }
                let rest = loose(line, &path);
                assert!(!rest.contains('<') && !rest.contains("](y)"), "{path}: {rest} of {line}");
                let own = rest.starts_with('|').then(|| rest.matches('|').count());
                assert!(bars.is_none() || own.is_none() || bars == own, "{path}: cells of {line}");
                bars = own;
            }
            assert!(!is_code, "{path}: text to copy does not end");
        }
    }
}

#[test]
fn a_letter_with_many_servers_has_several_pages_and_all_of_them_are_listed() {
    let many = (0..1_001).map(|at| facts(PackageRegistry::Pypi, &format!("mcp-server-a{at:04}"), &[("get_x", &[])]));
    let files = site(many.collect());
    let rows = |path: &str| files[path].matches("/index.html\"><code>mcp-server-a").count();
    assert_eq!([rows("servers/a.html"), rows("servers/a-2.html"), rows("servers/a-3.html")], [500, 500, 1]);
    assert!(files["servers/a-2.html"].contains("href=\"../servers/a-3.html\""), "{}", files["servers/a-2.html"]);
    assert!(words(&files["servers/a.html"]).contains("mcp-server-a0000 to mcp-server-a0499"));
    assert!(!files.contains_key("servers/m.html"));
}

#[test]
fn pages_have_no_script_and_load_nothing_from_other_sites() {
    for (path, text) in pharo() {
        assert!(!text.contains("<script") && !text.contains("src="), "{path}");
        if path != "style.css" {
            for word in ["href=\"http", "url(", "@import"] {
                assert!(!text.contains(word), "{path}: {word}");
            }
        }
    }
}

#[test]
fn changes_of_a_server_are_listed_by_day_and_severity() {
    let about = IndexMetadata { date: "2026-11-16".into(), ..IndexMetadata::default() };
    let index =
        PackageIndex::open(&write_index([facts(PackageRegistry::Npm, "busy", &[("get", &[])])], &about).unwrap())
            .unwrap();
    let change = |kind: ToolChangeKind, tool: String| ToolChange {
        kind,
        source: PackageRegistry::Npm,
        package: "busy".into(),
        version: "2".into(),
        tool,
        level: "Low".into(),
        counts: BTreeMap::new(),
    };
    let of_day = |day: &str| {
        let mut all = vec![(day.to_owned(), change(ToolChangeKind::LevelRaised, format!("worst_{day}")))];
        all.extend((0..49).map(|at| (day.to_owned(), change(ToolChangeKind::ToolAdded, format!("new_{at:02}_{day}")))));
        let mut more = change(ToolChangeKind::MoreChanges, String::new());
        more.counts.insert(ToolChangeKind::ToolRemoved, 7);
        all.push((day.to_owned(), more));
        all
    };
    let history = [of_day("2026-11-01"), of_day("2026-11-02")].concat();
    let mut page = String::new();
    let done: Result<(), Infallible> =
        StaticSite::new(&index, index.servers().collect()).with_history(history).write(|own| {
            if own.path == "servers/npm/busy/index.md" {
                page = own.text;
            }
            Ok(())
        });
    assert!(done.is_ok());
    let lines: Vec<&str> = page.lines().filter(|line| line.starts_with("- 2026-11")).collect();
    assert!(lines[0].contains("worst_2026-11-02") && lines[1].contains("new_00_2026-11-02"), "{page}");
    // The count of a day is listed with that day, followed by older changes up to the limit.
    assert!(lines[50].contains("7 tools are gone") && lines[51].contains("worst_2026-11-01"), "{page}");
    assert_eq!(lines.len(), 60, "{page}");
}
