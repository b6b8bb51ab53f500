//! How large an index is, how long it takes to open, and how long a search takes: on a file, or on one that is made up.
//!
//! ```text
//! cargo run --release -p gatelodge-catalogue --example index_speed [FILE | --servers 15000 --tools 14]
//! ```
#![allow(clippy::print_stdout, clippy::disallowed_methods, reason = "a command that measures")]

use std::time::{Duration, Instant};

use gatelodge_catalogue::{
    IndexMetadata, IndexQuery, IndexedToolParameter, PackageFacts, PackageIndex, PackageRegistry, ToolFacts, ToolHints,
    ToolSpec, classify,
};
use gatelodge_catalogue::{RiskLevel, RiskSignalKind, ServerContext};
use gatelodge_indexer::write_index;

const VERBS: &[&str] = &[
    "get", "list", "search", "create", "update", "delete", "run", "send", "read", "write", "export", "import", "find",
    "execute", "fetch", "set", "add", "remove", "query", "analyze",
];
const NOUNS: &[&str] = &[
    "file", "issue", "page", "user", "table", "message", "task", "event", "note", "image", "report", "invoice",
    "project", "branch", "contact", "dataset", "model", "account", "document", "job", "workflow", "channel", "order",
];
const TOOL_NAME_ENDINGS: &[&str] =
    &["", "by_id", "in_bulk", "history", "status", "details", "comments", "for_user", "v2", "raw"];
const PARAMETER_NAMES: &[&str] =
    &["id", "query", "limit", "path", "url", "name", "content", "code", "command", "filter", "cursor"];

/// Numbers that look like chance and are the same each time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound.max(1)
    }

    fn pick<'w>(&mut self, words: &[&'w str]) -> &'w str {
        words.get(self.below(words.len())).copied().unwrap_or_default()
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let after = |name: &str| {
        let at = arguments.iter().position(|word| word == name)?;
        arguments.get(at + 1).cloned()
    };
    let file = match arguments.first().filter(|word| !word.starts_with("--")) {
        Some(path) => std::fs::read(path)?,
        None => {
            let number = |name: &str, usual: usize| after(name).and_then(|text| text.parse().ok()).unwrap_or(usual);
            made_up(number("--servers", 15_000), number("--tools", 14))?
        }
    };
    let start = Instant::now();
    let index = PackageIndex::open(&file)?;
    let opened = start.elapsed();
    let about = index.metadata();
    println!("{} servers, {} tools, {} bytes, opened in {opened:.1?}", about.servers, about.tools, file.len());
    search(&index);
    Ok(())
}

fn search(index: &PackageIndex) {
    let mut dice = Dice(7);
    let (mut times, mut best): (Vec<Duration>, Vec<Duration>) = (Vec::new(), Vec::new());
    for round in 0..1_000 {
        let text = match round % 5 {
            0 => dice.pick(NOUNS).to_owned(),
            1 => format!("{} {}", dice.pick(VERBS), dice.pick(NOUNS)),
            2 => dice.pick(NOUNS).chars().take(2).collect(),
            3 => "e".to_owned(),
            _ => String::new(),
        };
        let mut query = IndexQuery::from_words(&text);
        query.is_prefix = round % 7 == 0;
        query.level = (round % 3 == 0).then_some(RiskLevel::Critical);
        query.signal = (round % 11 == 0).then_some(RiskSignalKind::TakesPath);
        let timed = || {
            let start = Instant::now();
            std::hint::black_box(index.search(&query, 0, 50));
            start.elapsed()
        };
        times.push(timed());
        // On a shared machine, the shortest of several runs is the time of the search itself.
        best.push((0..4).map(|_| timed()).min().unwrap_or_default());
    }
    tell("1000 searches", &mut times);
    tell("each the shortest of four", &mut best);
}

fn tell(what: &str, times: &mut [Duration]) {
    times.sort();
    let at = |share: f64| times.get((times.len() as f64 * share) as usize).copied().unwrap_or_default();
    println!("{what}: p50 {:.2?}, p99 {:.2?}, longest {:.2?}", at(0.5), at(0.99), at(0.9999));
}

fn made_up(servers: usize, tools: usize) -> Result<Vec<u8>, Box<dyn std::error::Error>> {
    let mut dice = Dice(42);
    let mut packages = Vec::with_capacity(servers);
    for number in 0..servers {
        let package = format!("mcp-{}-{}-{number}", dice.pick(NOUNS), dice.pick(VERBS));
        let names: Vec<String> = (0..tools)
            .map(|_| {
                let own = if dice.below(3) == 0 { format!("_{}", dice.below(100_000)) } else { String::new() };
                format!("{}_{}_{}{own}", dice.pick(VERBS), dice.pick(NOUNS), dice.pick(TOOL_NAME_ENDINGS))
            })
            .collect();
        let server = ServerContext::new(&package, None, names.iter().map(String::as_str));
        let tools = names.iter().map(|name| tool(name, &server, &mut dice)).collect();
        let source = if number % 6 == 0 { PackageRegistry::Npm } else { PackageRegistry::Pypi };
        let version = format!("{}.{}.{}", dice.below(4), dice.below(20), dice.below(30));
        let date = Some(format!("2026-{:02}-{:02}", 1 + dice.below(11), 1 + dice.below(28)));
        packages.push(PackageFacts { source, package, version, date, tools });
    }
    Ok(write_index(packages, &IndexMetadata { date: "2026-11-16".into(), ..IndexMetadata::default() })?)
}

fn tool(name: &str, server: &ServerContext, dice: &mut Dice) -> ToolFacts {
    let known = classify(&ToolSpec::from_name(name), server);
    let parameters = (0..dice.below(6))
        .map(|_| IndexedToolParameter {
            name: format!("{}{}", dice.pick(PARAMETER_NAMES), if dice.below(4) == 0 { "_of_it" } else { "" }),
            kind: dice.pick(&["string", "string", "integer", "boolean", "array"]).to_owned(),
            required: dice.below(2) == 0,
        })
        .collect();
    ToolFacts {
        name: name.to_owned(),
        parameters,
        claims: ToolHints::default(),
        category: known.category,
        confidence: known.confidence,
        signals: known.signals.iter().map(|signal| signal.kind).collect(),
        flow: known.flow,
        hash: format!("{:08x}{:08x}", dice.below(u32::MAX as usize), dice.below(u32::MAX as usize)),
        optional: false,
    }
}
