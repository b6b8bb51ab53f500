//! Runs every block of JSON and YAML in `docs/policy.md` as its marker says.
//!
//! | marker | means |
//! |---|---|
//! | `policy=name` | a policy that loads without a warning |
//! | `cases=name` | cases for that policy |
//! | `bad=code,code` | a policy with exactly these errors |
//! | `warns=code` | a policy that loads with exactly these warnings |
//! | `call=name` | a call that the policy allows |
//! | `casefile` | a whole case file; `policy: name.json` is the policy of that name |

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use gatelodge_json::{JsonLimits, read};
use gatelodge_policy::{
    CallFile, CaseReport, Diagnostic, DiagnosticCode, DocumentFormat, Explanation, Operator, ReasonCode, Severity,
    explain, lint, parse, policy_json_schema,
};
use support::{Loaded, diagnostic_lines};

const PAGE: &str = "../../docs/policy.md";

/// A fenced block: its first line, its text, and its line number.
struct Block {
    line: usize,
    language: String,
    mark: String,
    text: String,
}

impl Block {
    fn format(&self) -> DocumentFormat {
        match self.language.as_str() {
            "json" => DocumentFormat::Json,
            "yaml" => DocumentFormat::Yaml,
            other => panic!("{}: {other} is neither JSON nor YAML", self.line),
        }
    }

    /// Value of `key=` in the marker.
    fn marked(&self, key: &str) -> Option<&str> {
        self.mark.strip_prefix(key)?.strip_prefix('=')
    }

    fn load(&self) -> Loaded {
        parse(self.text.as_bytes(), self.format())
    }

    /// Errors, or else warnings.
    fn diagnostics(&self) -> Vec<Diagnostic> {
        lint(self.text.as_bytes(), self.format(), None)
    }
}

fn page() -> String {
    fs::read_to_string(PAGE).expect("the page")
}

/// Returns all blocks of JSON and YAML.
fn blocks() -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    for (at, line) in page().lines().enumerate() {
        match (line.strip_prefix("```"), open.take()) {
            (Some(""), Some(block)) => blocks.push(block),
            (Some(info), None) => {
                let (language, mark) = info.split_once(' ').unwrap_or((info, ""));
                open = Some(Block { line: at + 1, language: language.into(), mark: mark.into(), text: String::new() });
            }
            (Some(info), Some(block)) => panic!("{}: `{info}` inside the block of line {}", at + 1, block.line),
            (None, Some(mut block)) => {
                block.text.push_str(line);
                block.text.push('\n');
                open = Some(block);
            }
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "the last block is not closed");
    blocks.retain(|block| !["console", "text"].contains(&block.language.as_str()));
    blocks
}

/// Returns the blocks that are policies, by name.
fn policies(blocks: &[Block]) -> BTreeMap<&str, &Block> {
    let mut policies = BTreeMap::new();
    for block in blocks {
        let Some(name) = block.marked("policy") else { continue };
        let diagnostics = block.diagnostics();
        assert!(diagnostics.is_empty(), "{}: {}", block.line, diagnostic_lines(&block.text, &diagnostics));
        assert!(policies.insert(name, block).is_none(), "{}: a second `{name}`", block.line);
    }
    policies
}

fn explanation(block: &Block, policy: &Block) -> Explanation {
    let document = read(block.text.as_bytes(), &JsonLimits::REQUEST).unwrap();
    let file = CallFile::new(document.root())
        .unwrap_or_else(|diagnostics| panic!("{}", diagnostic_lines(&block.text, &diagnostics)));
    explain(&policy.load().unwrap(), &file.call(), file.at().expect("a time"))
}

/// Runs the cases of all blocks, and returns them with the line of their block.
fn reports(blocks: &[Block], policies: &BTreeMap<&str, &Block>) -> Vec<(usize, CaseReport)> {
    let mut reports = Vec::new();
    for block in blocks {
        let text = match block.marked("cases") {
            Some(name) => format!("policy: {name}.json\ncases:\n{}", block.text),
            None if block.mark == "casefile" => block.text.clone(),
            None => continue,
        };
        let load = |path: &str| {
            let name = path.strip_suffix(".json").expect("a path to JSON");
            policies.get(name).unwrap_or_else(|| panic!("{}: no policy `{name}`", block.line)).load()
        };
        reports.extend(support::run(&text, block.format(), &load).into_iter().map(|report| (block.line, report)));
    }
    reports
}

#[test]
fn every_block_does_what_its_marker_says() {
    let blocks = blocks();
    let policies = policies(&blocks);
    for block in &blocks {
        let codes = |severity: Severity| {
            let diagnostics = block.diagnostics();
            let of_severity = diagnostics
                .iter()
                .filter(|diagnostic| diagnostic.severity == severity)
                .map(|diagnostic| diagnostic.code.as_str());
            of_severity.collect::<BTreeSet<_>>()
        };
        let expected = |codes: &str| codes.split(',').map(str::to_owned).collect::<BTreeSet<_>>();
        let same = |came: BTreeSet<&str>, codes: &str| came.iter().copied().eq(expected(codes).iter());
        if let Some(bad) = block.marked("bad") {
            assert!(
                same(codes(Severity::Error), bad),
                "{}: {}",
                block.line,
                diagnostic_lines(&block.text, &block.diagnostics())
            );
        } else if let Some(warned) = block.marked("warns") {
            assert!(
                codes(Severity::Error).is_empty(),
                "{}: {}",
                block.line,
                diagnostic_lines(&block.text, &block.diagnostics())
            );
            assert!(
                same(codes(Severity::Warning), warned),
                "{}: {}",
                block.line,
                diagnostic_lines(&block.text, &block.diagnostics())
            );
        } else if let Some(name) = block.marked("call") {
            assert_eq!(explanation(block, policies[name]).decision, "allow", "{}", block.line);
        } else {
            let known = block.marked("policy").is_some() || block.marked("cases").is_some() || block.mark == "casefile";
            assert!(known, "{}: the block is not marked, so nothing runs it", block.line);
        }
    }
}

#[test]
fn every_case_is_decided_as_the_page_says() {
    let blocks = blocks();
    let policies = policies(&blocks);
    let reports = reports(&blocks, &policies);
    let differ = |(line, report): &(usize, CaseReport)| {
        let differences = support::problems(report).join("\n    ");
        (!differences.is_empty()).then(|| format!("block of line {line}: {}\n    {differences}", report.name))
    };
    let differences: Vec<String> = reports.iter().filter_map(differ).collect();
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    assert!(reports.len() >= 100, "only {} cases", reports.len());
}

#[test]
fn every_policy_has_cases() {
    let blocks = blocks();
    for name in policies(&blocks).keys() {
        assert!(blocks.iter().any(|block| block.marked("cases") == Some(name)), "nothing shows what `{name}` decides");
    }
}

#[test]
fn every_operator_has_an_example() {
    let blocks = blocks();
    let policies = policies(&blocks);
    let reports = reports(&blocks, &policies);
    let explanations = reports.iter().filter_map(|(_, report)| report.explanation.as_ref());
    let steps = explanations.flat_map(|explanation| &explanation.trace);
    let shown: BTreeSet<&str> = steps.flat_map(|step| step.conditions.iter().map(|line| line.op)).collect();
    for operator in Operator::WORDS {
        assert!(shown.contains(operator), "no example of `{operator}`");
    }
}

#[test]
fn the_table_of_operators_names_each_once() {
    let page = page();
    let (_, section) = page.split_once("\n## Operators\n").expect("a section about operators");
    let rows = section.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    let first_cells = rows.filter_map(|row| row.split('|').nth(1));
    let words: Vec<&str> = first_cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect();
    // A test of the reference compares the same table with its operators.
    assert_eq!(words, Operator::WORDS);
}

/// The schema of each operator is tried with the values that the page shows.
#[test]
fn every_policy_is_valid_by_the_schema() {
    let schema = jsonschema::draft202012::new(&policy_json_schema()).expect("a schema");
    for block in blocks().iter().filter(|block| block.marked("policy").is_some() && block.language == "json") {
        let lines = block.text.lines().filter(|line| !line.trim_start().starts_with("//"));
        let policy = serde_json::from_str(&lines.collect::<String>()).expect("JSON, apart from comment lines");
        assert!(schema.is_valid(&policy), "{}: the policy is not valid", block.line);
    }
}

#[test]
fn the_tables_name_every_code() {
    let page = page();
    for code in DiagnosticCode::ALL {
        let row = format!("| `{code}` |");
        assert_eq!(page.matches(&row).count(), 1, "rows that begin with `{code}`");
    }
    for code in ReasonCode::WORDS {
        assert!(page.contains(&format!(" | `{code}` |")), "no row ends with `{code}`");
    }
}
