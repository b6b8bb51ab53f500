//! Case files: calls with the decisions that a policy is expected to make on them.

mod case_expectation;

use std::ops::Range;

use gatelodge_json::{JsonLimits, read};
use jiff::Timestamp;

use crate::compile::compiled_policy::Policy;
use crate::compile::policy_parser::compile;
use crate::eval::explain::{Explanation, explain};
use crate::syntax::diagnostic::{
    Diagnostic, DiagnosticCode, MAX_SEARCHED_DIAGNOSTICS, push_bounded, sorted_for_display,
};
use crate::syntax::field_reader::suggest_word;
use crate::syntax::syntax_tree::{self, DocumentFormat, SpanMapping, SyntaxMapEntry, SyntaxNode, SyntaxNodeValue};
use crate::tools::call_file::CallFile;
use case_expectation::CaseExpectation;

/// Time at which cases without `at` are evaluated. It is fixed, so that their results never change.
const DEFAULT_TIME: &str = "2026-01-01T00:00:00Z";

/// An example of a case file, used as help text.
const CASE_FILE_HELP: &str =
    "a case file has `policy`, and `cases` such as `- {name: it passes, call: {tool: search}, expect: allow}`";

const POLICY_AS_CASE_FILE_HELP: &str =
    "check it with `gatelodge policy check`, or name it in a case file: `policy: FILE` and a list of `cases`";

const CASE_FILE_FIELDS: [&str; 4] = ["description", "policy", "defaults", "cases"];
const CASE_FIELDS: [&str; 4] = ["name", "policy", "call", "expect"];
const CASE_HELP: &str = "write at least one, such as `- {name: it passes, call: {tool: search}, expect: allow}`";
const EXPECT_HELP: &str =
    "write `expect: allow`, `deny` or `approve`, or an object such as `{decision: deny, code: require}`";

/// A parsed case file.
#[derive(Debug)]
pub struct CaseFile {
    sources: Vec<CasePolicySource>,
    cases: Vec<PolicyTestCase>,
}

/// Where a case's policy comes from.
#[derive(Debug)]
pub enum CasePolicySource {
    /// A file path relative to the case file, and the span where it first occurs.
    Path(String, Range<usize>),
    /// A policy written inside the case file.
    Inline(CaseInlinePolicy),
}

/// A policy written inside a case file.
#[derive(Debug)]
pub struct CaseInlinePolicy(SyntaxNode);

#[derive(Debug)]
struct PolicyTestCase {
    name: String,
    span: Range<usize>,
    /// Index into [`CaseFile::sources`].
    policy_index: Option<usize>,
    /// The call, with `defaults` filled in.
    call: Option<SyntaxNode>,
    expect: CaseExpectation,
}

/// Result of one case.
#[derive(Debug)]
pub struct CaseReport {
    /// Name of the case.
    pub name: String,
    /// Location of the case in the case file.
    pub span: Range<usize>,
    /// Index of the case's policy in [`CaseFile::sources`].
    pub policy_index: Option<usize>,
    /// Differences between the expected and the actual result.
    pub differences: Vec<String>,
    /// Reasons why the case could not be evaluated, with spans in the case file.
    pub diagnostics: Vec<Diagnostic>,
    /// The decision with its explanation, for cases that evaluate a call.
    pub explanation: Option<Explanation>,
}

impl CaseReport {
    /// Returns whether the case was evaluated and gave the expected result.
    pub fn has_passed(&self) -> bool {
        self.differences.is_empty() && self.diagnostics.is_empty()
    }
}

impl CaseFile {
    /// Parses a case file.
    ///
    /// # Errors
    /// Returns all diagnostics with their spans.
    ///
    /// # Examples
    /// ```
    /// use gatelodge_policy::{CaseFile, DocumentFormat, CasePolicySource};
    ///
    /// let text = br#"{
    ///     "policy": {"version": "1", "default": "deny", "tools": {"search": {}}},
    ///     "cases": [{"name": "searching passes", "call": {"tool": "search"}, "expect": "allow"}]
    /// }"#;
    /// let file = CaseFile::read(text, DocumentFormat::Json).expect("a case file");
    /// let policies: Vec<_> = file
    ///     .sources()
    ///     .iter()
    ///     .map(|source| match source {
    ///         CasePolicySource::Inline(policy) => Some(policy.load()),
    ///         CasePolicySource::Path(..) => None,
    ///     })
    ///     .collect();
    /// assert!(file.run(&policies).iter().all(|report| report.has_passed()));
    /// ```
    pub fn read(text: &[u8], format: DocumentFormat) -> Result<Self, Vec<Diagnostic>> {
        let (root, diagnostics) = syntax_tree::read(text, format)
            .map_err(|diagnostic| sorted_for_display(vec![diagnostic.with_help_if_empty(CASE_FILE_HELP)]))?;
        let mut reader = CaseFileReader { diagnostics, sources: Vec::new() };
        let cases = reader.read_cases(&root);
        if reader.diagnostics.is_empty() {
            Ok(Self { sources: reader.sources, cases })
        } else {
            Err(sorted_for_display(reader.diagnostics))
        }
    }

    /// The policies that the cases use. A file that several cases use is listed once.
    pub fn sources(&self) -> &[CasePolicySource] {
        &self.sources
    }

    /// Runs all cases. `policies` has one entry per source, in the order of [`sources`](Self::sources): the policy or
    /// its diagnostics, or `None` if the file could not be read.
    pub fn run(&self, policies: &[Option<Result<Policy, Vec<Diagnostic>>>]) -> Vec<CaseReport> {
        self.cases.iter().map(|case| case.run(policies)).collect()
    }
}

impl CaseInlinePolicy {
    /// Compiles the policy.
    ///
    /// # Errors
    /// Returns all diagnostics, with spans in the case file.
    pub fn load(&self) -> Result<Policy, Vec<Diagnostic>> {
        compile(&self.0, Vec::new())
    }
}

impl PolicyTestCase {
    fn run(&self, policies: &[Option<Result<Policy, Vec<Diagnostic>>>]) -> CaseReport {
        let Self { name, span, policy_index: policy, .. } = self;
        let mut report = CaseReport {
            name: name.clone(),
            span: span.clone(),
            policy_index: *policy,
            differences: Vec::new(),
            diagnostics: Vec::new(),
            explanation: None,
        };
        match policy.map(|at| policies.get(at).and_then(Option::as_ref)) {
            None => {
                let diagnostic = Diagnostic::error(DiagnosticCode::MissingField, span.clone(), "no policy is named");
                report.diagnostics.push(diagnostic.with_help("write `policy` at the top of the file, or in the case"));
            }
            Some(None) => report.differences.push("the policy cannot be read".into()),
            Some(Some(Err(diagnostics))) => report.differences = self.expect.compare_load_errors(diagnostics),
            Some(Some(Ok(policy))) => match &self.call {
                None => report.differences = self.expect.compare_load_errors(&[]),
                Some(call) => match explain_call(policy, call) {
                    Err(diagnostics) => report.diagnostics = diagnostics,
                    Ok(explanation) => {
                        report.differences = self.expect.compare(&explanation);
                        report.explanation = Some(explanation);
                    }
                },
            },
        }
        report
    }
}

/// Evaluates a call and explains the decision.
///
/// # Errors
/// Returns all diagnostics about the call, with spans in the case file.
fn explain_call(policy: &Policy, call: &SyntaxNode) -> Result<Explanation, Vec<Diagnostic>> {
    let (json, places) = call.to_json_with_spans();
    let in_file = |diagnostic: Diagnostic| {
        // Inner nodes come first, so the first match is the smallest node that contains the diagnostic.
        let holds = |(part, _): &&SpanMapping| part.start <= diagnostic.span.start && diagnostic.span.end <= part.end;
        let span = places.iter().find(holds).map_or_else(|| first_char_span(call), |(_, place)| place.clone());
        Diagnostic { span, related: None, ..diagnostic }
    };
    let document = read(json.as_bytes(), &JsonLimits::REQUEST)
        .map_err(|diagnostic| vec![in_file(Diagnostic::from_call_error(&diagnostic))])?;
    let file = CallFile::new(document.root())
        .map_err(|diagnostics| diagnostics.into_iter().map(in_file).collect::<Vec<Diagnostic>>())?;
    let at = file.at().or_else(|| DEFAULT_TIME.parse::<Timestamp>().ok()).unwrap_or_default();
    Ok(explain(policy, &file.call(), at))
}

struct CaseFileReader {
    diagnostics: Vec<Diagnostic>,
    sources: Vec<CasePolicySource>,
}

impl CaseFileReader {
    fn read_cases(&mut self, root: &SyntaxNode) -> Vec<PolicyTestCase> {
        if root.get("cases").is_none() && root.get("version").is_some() && root.get("default").is_some() {
            let message = "this is a policy, not a case file";
            self.report(DiagnosticCode::WrongType, first_char_span(root), message, POLICY_AS_CASE_FILE_HELP);
            return Vec::new();
        }
        self.check_field_names(root, &CASE_FILE_FIELDS, "a case file", CASE_FILE_HELP);
        let policy = root.get("policy").and_then(|node| self.read_source(node));
        let defaults = root.get("defaults");
        if let Some(defaults) = defaults.filter(|node| !matches!(node.value, SyntaxNodeValue::Map(_))) {
            let help = "write members for every call, such as `defaults: {grant: {label: ci}}`";
            self.report(DiagnosticCode::WrongType, first_char_span(defaults), "`defaults` must be an object", help);
        }
        let mut cases = Vec::new();
        match root.get("cases").map(|node| &node.value) {
            Some(SyntaxNodeValue::List(items)) if !items.is_empty() => {
                for (at, item) in items.iter().enumerate() {
                    cases.extend(self.read_case(item, at, defaults, policy));
                }
            }
            Some(SyntaxNodeValue::List(_)) => {
                let span = root.get("cases").unwrap_or(root).span.clone();
                self.report(DiagnosticCode::EmptyList, span, "`cases` is empty, so nothing would be tested", CASE_HELP);
            }
            Some(_) => {
                let span = root.get("cases").map_or_else(|| first_char_span(root), first_char_span);
                self.report(DiagnosticCode::WrongType, span, "`cases` must be a list", CASE_HELP);
            }
            None if matches!(root.value, SyntaxNodeValue::Map(_)) => {
                self.report(
                    DiagnosticCode::MissingField,
                    first_char_span(root),
                    "a case file needs a list of `cases`",
                    CASE_HELP,
                );
            }
            // A root that is not an object has already been reported.
            None => {}
        }
        cases
    }

    fn read_case(
        &mut self,
        node: &SyntaxNode,
        at: usize,
        defaults: Option<&SyntaxNode>,
        shared: Option<usize>,
    ) -> Option<PolicyTestCase> {
        let SyntaxNodeValue::Map(_) = node.value else {
            self.report(DiagnosticCode::WrongType, first_char_span(node), "a case must be an object", CASE_HELP);
            return None;
        };
        self.check_field_names(node, &CASE_FIELDS, "a case", CASE_HELP);
        let name = match node.get("name").map(|name| (&name.value, name)) {
            Some((SyntaxNodeValue::Text(name), _)) => name.clone(),
            Some((_, node)) => {
                self.report(
                    DiagnosticCode::WrongType,
                    first_char_span(node),
                    "`name` must be a string",
                    "put it in double quotes",
                );
                String::new()
            }
            None => format!("case {}", at + 1),
        };
        let policy = node.get("policy").and_then(|node| self.read_source(node)).or(shared);
        let call = node.get("call").map(|call| with_defaults(call, defaults));
        let Some(expect) = node.get("expect") else {
            self.report(DiagnosticCode::MissingField, first_char_span(node), "a case needs an `expect`", EXPECT_HELP);
            return None;
        };
        let expect = CaseExpectation::read(expect, self)?;
        if call.is_some() && expect.expects_load_errors() {
            self.report(
                DiagnosticCode::FieldClash,
                first_char_span(node),
                "a case about `faults` has no `call`",
                "remove one of the two",
            );
        }
        if call.is_none() && !expect.expects_load_errors() {
            self.report(
                DiagnosticCode::MissingField,
                first_char_span(node),
                "a case needs a `call`",
                "write `call: {tool: search}`",
            );
        }
        Some(PolicyTestCase { name, span: first_char_span(node), policy_index: policy, call, expect })
    }

    /// Returns the index of the policy source, adding the source if it is new.
    fn read_source(&mut self, node: &SyntaxNode) -> Option<usize> {
        let help = "write a path relative to the case file, such as `policy: books.json`, or the policy itself";
        let source = match &node.value {
            SyntaxNodeValue::Text(path) if path == "-" || path.is_empty() => {
                self.report(DiagnosticCode::BadValue, node.span.clone(), &format!("`{path}` is not a file name"), help);
                return None;
            }
            SyntaxNodeValue::Text(path) => {
                let is_it =
                    |source: &CasePolicySource| matches!(source, CasePolicySource::Path(known, _) if known == path);
                if let Some(at) = self.sources.iter().position(is_it) {
                    return Some(at);
                }
                CasePolicySource::Path(path.clone(), node.span.clone())
            }
            SyntaxNodeValue::Map(_) => CasePolicySource::Inline(CaseInlinePolicy(node.clone())),
            _ => {
                self.report(
                    DiagnosticCode::WrongType,
                    first_char_span(node),
                    "`policy` must be a path or a policy",
                    help,
                );
                return None;
            }
        };
        self.sources.push(source);
        Some(self.sources.len() - 1)
    }

    fn check_field_names(&mut self, node: &SyntaxNode, known: &[&str], what: &str, help: &str) {
        let SyntaxNodeValue::Map(entries) = &node.value else {
            let message = format!("{what} must be an object, not {}", node.kind().with_article());
            return self.report(DiagnosticCode::WrongType, first_char_span(node), &message, help);
        };
        for entry in entries.iter().filter(|entry| !known.contains(&entry.key.as_str())).take(MAX_SEARCHED_DIAGNOSTICS)
        {
            let message = format!("`{}` is not a field of {what}", entry.key);
            self.report(
                DiagnosticCode::UnknownField,
                entry.key_span.clone(),
                &message,
                &suggest_word(&entry.key, known),
            );
        }
    }

    fn report(&mut self, code: DiagnosticCode, span: Range<usize>, message: &str, help: &str) {
        push_bounded(&mut self.diagnostics, Diagnostic::error(code, span, message).with_help(help));
    }
}

/// Returns the span of a node's first character. Messages that underline a whole object would be hard to read.
fn first_char_span(node: &SyntaxNode) -> Range<usize> {
    node.span.start..(node.span.start + 1).min(node.span.end)
}

/// Returns the call, completed with the members of `defaults` that it does not set itself.
fn with_defaults(call: &SyntaxNode, defaults: Option<&SyntaxNode>) -> SyntaxNode {
    let mut call = call.clone();
    if let (SyntaxNodeValue::Map(own), Some(SyntaxNodeValue::Map(defaults))) =
        (&mut call.value, defaults.map(|node| &node.value))
    {
        let missing: Vec<SyntaxMapEntry> =
            defaults.iter().filter(|entry| own.iter().all(|own| own.key != entry.key)).cloned().collect();
        own.extend(missing);
    }
    call
}
