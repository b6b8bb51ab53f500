//! Policy tests: a case file holds calls and what is expected of them.

mod expect;

use std::ops::Range;

use gatelodge_json::{Limits, read};
use jiff::Timestamp;
use serde::Serialize;

use crate::call_file::CallFile;
use crate::explain::{Explanation, explain};
use crate::fault::{Code, Fault};
use crate::parse::{MAX_FAULTS, offer, parse};
use crate::set::Policy;
use crate::written::{self, Entry, Format, Node, Written};
use expect::Expect;

/// Cases without a time are judged at this one, so that they always say the same.
const DEFAULT_TIME: &str = "2026-01-01T00:00:00Z";

const FIELDS: [&str; 4] = ["description", "policy", "defaults", "cases"];
const CASE_FIELDS: [&str; 4] = ["name", "policy", "call", "expect"];

/// A case file that was read.
#[derive(Debug)]
pub struct CaseFile {
    policy: Option<PolicySource>,
    cases: Vec<Case>,
}

/// Where a case's policy is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PolicySource {
    /// In a file, named relative to the case file.
    Path(String),
    /// In the case file itself; as JSON.
    Inline(String),
}

#[derive(Debug)]
struct Case {
    name: String,
    policy: Option<PolicySource>,
    /// The call as JSON, with the defaults filled in.
    call: Option<String>,
    expect: Expect,
}

/// What came of one case.
#[derive(Debug, Serialize)]
pub struct CaseReport {
    /// The case's name.
    pub name: String,
    /// What was not as expected; empty if the case passed.
    pub differences: Vec<String>,
    /// The decision in full, for cases that judge a call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub explanation: Option<Explanation>,
}

impl CaseFile {
    /// Reads a case file.
    ///
    /// # Errors
    /// All faults, with their places.
    pub fn read(text: &[u8], format: Format) -> Result<Self, Vec<Fault>> {
        let (root, faults) = written::read(text, format).map_err(|fault| vec![fault])?;
        let mut reader = Reader { faults };
        let file = reader.file(&root);
        if reader.faults.is_empty() { Ok(file) } else { Err(reader.faults) }
    }

    /// The policies that the cases need, each once.
    pub fn sources(&self) -> Vec<&PolicySource> {
        let mut sources: Vec<&PolicySource> = Vec::new();
        for source in self.cases.iter().filter_map(|case| self.source(case)) {
            if !sources.contains(&source) {
                sources.push(source);
            }
        }
        sources
    }

    /// Runs all cases. `policy` gives the policy of a source, or its faults.
    pub fn run<'p>(&self, policy: &dyn Fn(&PolicySource) -> Result<&'p Policy, &'p [Fault]>) -> Vec<CaseReport> {
        let run = |case: &Case| {
            let loaded = self.source(case).map(policy);
            let (differences, explanation) = case.run(loaded);
            CaseReport { name: case.name.clone(), differences, explanation }
        };
        self.cases.iter().map(run).collect()
    }

    fn source<'a>(&'a self, case: &'a Case) -> Option<&'a PolicySource> {
        case.policy.as_ref().or(self.policy.as_ref())
    }
}

/// Loads a policy that stands in a case file.
///
/// # Errors
/// All faults of the policy.
pub fn load_inline(json: &str) -> Result<Policy, Vec<Fault>> {
    parse(json.as_bytes(), Format::Json)
}

impl Case {
    fn run(&self, policy: Option<Result<&Policy, &[Fault]>>) -> (Vec<String>, Option<Explanation>) {
        let policy = match policy {
            None => return (vec!["no policy is named".into()], None),
            Some(Err(faults)) => return (self.expect.compare_faults(faults), None),
            Some(Ok(policy)) => policy,
        };
        let Some(call) = &self.call else { return (self.expect.compare_faults(&[]), None) };
        match judge(policy, call) {
            Err(message) => (vec![message], None),
            Ok(explanation) => (self.expect.compare(&explanation), Some(explanation)),
        }
    }
}

fn judge(policy: &Policy, call: &str) -> Result<Explanation, String> {
    let document =
        read(call.as_bytes(), &Limits::REQUEST).map_err(|fault| format!("the call cannot be read: {fault}"))?;
    let file = CallFile::new(document.root()).map_err(|faults| {
        let messages: Vec<String> = faults.into_iter().map(|fault| fault.message).collect();
        format!("the call is not one: {}", messages.join("; "))
    })?;
    let at = file.at().or_else(|| DEFAULT_TIME.parse::<Timestamp>().ok()).unwrap_or_default();
    Ok(explain(policy, &file.call(), at))
}

struct Reader {
    faults: Vec<Fault>,
}

impl Reader {
    fn file(&mut self, root: &Node) -> CaseFile {
        self.check_names(root, &FIELDS, "a case file");
        let policy = root.get("policy").and_then(|node| self.source(node));
        let defaults = root.get("defaults");
        if let Some(defaults) = defaults.filter(|node| !matches!(node.value, Written::Map(_))) {
            self.fault(Code::WrongType, head(defaults), "`defaults` must be an object: members for every call");
        }
        let mut cases = Vec::new();
        match root.get("cases").map(|node| &node.value) {
            Some(Written::List(items)) if !items.is_empty() => {
                for (at, item) in items.iter().enumerate() {
                    cases.extend(self.case(item, at, defaults));
                }
            }
            _ => self.fault(Code::MissingField, head(root), "a case file needs a list of `cases`"),
        }
        CaseFile { policy, cases }
    }

    fn case(&mut self, node: &Node, at: usize, defaults: Option<&Node>) -> Option<Case> {
        self.check_names(node, &CASE_FIELDS, "a case");
        let name = match node.get("name").map(|name| (&name.value, name)) {
            Some((Written::Text(name), _)) => name.clone(),
            Some((_, node)) => {
                self.fault(Code::WrongType, head(node), "`name` must be a string");
                String::new()
            }
            None => format!("case {}", at + 1),
        };
        let policy = node.get("policy").and_then(|node| self.source(node));
        let call = node.get("call").map(|call| merged(call, defaults));
        let Some(expect) = node.get("expect") else {
            self.fault(Code::MissingField, head(node), "a case needs an `expect`");
            return None;
        };
        let expect = Expect::read(expect, self)?;
        if call.is_some() && expect.is_about_faults() {
            self.fault(Code::FieldClash, head(node), "a case about `faults` has no `call`");
        }
        if call.is_none() && !expect.is_about_faults() {
            self.fault(Code::MissingField, head(node), "a case needs a `call`");
        }
        Some(Case { name, policy, call, expect })
    }

    fn source(&mut self, node: &Node) -> Option<PolicySource> {
        match &node.value {
            Written::Text(path) => Some(PolicySource::Path(path.clone())),
            Written::Map(_) => Some(PolicySource::Inline(node.to_json())),
            _ => {
                self.fault(Code::WrongType, head(node), "`policy` must be a path or a policy");
                None
            }
        }
    }

    fn check_names(&mut self, node: &Node, known: &[&str], what: &str) {
        let Written::Map(entries) = &node.value else {
            return self.fault(Code::WrongType, head(node), &format!("{what} must be an object"));
        };
        for entry in entries.iter().filter(|entry| !known.contains(&entry.key.as_str())).take(MAX_FAULTS) {
            let message = format!("`{}` is not a field of {what}", entry.key);
            let fault = Fault::error(Code::UnknownField, entry.key_span.clone(), message);
            self.faults.push(fault.help(offer(&entry.key, known)));
        }
    }

    fn fault(&mut self, code: Code, span: Range<usize>, message: &str) {
        self.faults.push(Fault::error(code, span, message));
    }
}

/// The first character of a value: a whole one underlined says nothing.
fn head(node: &Node) -> Range<usize> {
    node.span.start..(node.span.start + 1).min(node.span.end)
}

/// The call with the members of `defaults` that it does not have itself.
fn merged(call: &Node, defaults: Option<&Node>) -> String {
    let mut call = call.clone();
    if let (Written::Map(own), Some(Written::Map(defaults))) = (&mut call.value, defaults.map(|node| &node.value)) {
        let missing: Vec<Entry> =
            defaults.iter().filter(|entry| own.iter().all(|own| own.key != entry.key)).cloned().collect();
        own.extend(missing);
    }
    call.to_json()
}
