//! Checks rules against the definitions of the tools that they apply to.

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;

use gatelodge_json::{JsonLimits, quote_into, read};

use super::did_you_mean::NameSuggester;
use super::impossible_condition::{self, LintFinding};
use super::located_block::{LocatedBlock, LocatedCondition, PolicySection, member_span};
use super::schema_lookup::{SchemaLookup, SchemaLookupResult};
use super::tool_list::{ListedTool, ToolList};
use super::value_shape::ValueShape;
use crate::call::call_path::{CallPath, CallPathRoot, CallPathSegment};
use crate::call::input_schema::InputSchema;
use crate::compile::compiled_policy::Policy;
use crate::operators::json_kind_set::JsonKindSet;
use crate::syntax::diagnostic::{Diagnostic, DiagnosticCode};

/// Maximum number of schema parts visited in total, which takes about one second.
const MAX_SCHEMA_PARTS: usize = 30_000_000;
/// Cost of reporting a finding, in visited schema parts.
const FINDING_COST_PARTS: usize = 100;
/// Maximum number of tools named in a message.
const MAX_NAMED_TOOLS: usize = 3;
/// Maximum number of different findings per condition.
const MAX_FINDINGS_PER_CONDITION: usize = 16;
/// Maximum number of arguments suggested in place of an unknown one.
const MAX_SUGGESTED_ARGUMENTS: usize = 12;

/// Findings for one block, collected from all tools that it applies to.
struct RuleBlockSchemaLint<'p, 't> {
    section: &'p LocatedBlock<'p>,
    argument_checks: Vec<ArgumentPathLint<'p, 't>>,
    /// Tools whose arguments cannot be validated, and the reason for the first of them.
    unusable_schemas: Option<(FindingToolNames<'t>, String)>,
}

/// A path into the arguments, used by a condition or limit of the block.
struct ArgumentPathLint<'p, 't> {
    path: &'p CallPath,
    span: Range<usize>,
    /// The condition that uses the path. `None` if a limit uses it as its amount.
    condition: Option<LocatedCondition<'p>>,
    findings: Vec<(LintFinding, FindingToolNames<'t>)>,
    /// Whether at least one tool has no finding.
    has_passing_tool: bool,
}

/// The number of tools with a finding, and the names of the first few.
#[derive(Default)]
struct FindingToolNames<'t> {
    names: Vec<&'t str>,
    count: usize,
}

/// Remaining budget for lookups and suggestions.
struct LintBudget {
    remaining_parts: usize,
    suggester: NameSuggester,
}

pub(super) fn lint_against_tools(
    policy: &Policy,
    sections: &[LocatedBlock<'_>],
    tools: &ToolList,
    suggester: NameSuggester,
    warnings: &mut Vec<Diagnostic>,
) {
    let mut blocks: Vec<RuleBlockSchemaLint<'_, '_>> = sections.iter().map(RuleBlockSchemaLint::new).collect();
    let all_tools = sections.iter().position(|section| section.field == PolicySection::AllTools);
    let places: HashMap<&str, usize> = sections.iter().map(|section| &*section.block.pointer).zip(0..).collect();
    let mut budget = LintBudget { remaining_parts: MAX_SCHEMA_PARTS, suggester };
    let globs = policy.hide.globs.len() + policy.tools.globs.len();
    for tool in tools.iter().filter(|tool| policy.hide.find(&tool.name).is_none()) {
        let own = policy.tools.find(&tool.name).and_then(|block| places.get(&*block.pointer).copied());
        for at in own.into_iter().chain(all_tools) {
            blocks.get_mut(at).into_iter().for_each(|block| block.check_tool(tool, &mut budget));
        }
        budget.remaining_parts = budget.remaining_parts.saturating_sub(globs);
        if budget.remaining_parts == 0 {
            warnings.push(unfinished_warning(&tool.name));
            // Findings for `all_tools` are valid only if all tools were checked.
            all_tools.and_then(|at| blocks.get_mut(at)).into_iter().for_each(|block| block.argument_checks.clear());
            break;
        }
    }
    blocks.into_iter().for_each(|block| block.push_warnings(warnings));
}

fn unusable_schema_reason(tool: &ListedTool) -> Option<String> {
    match &tool.schema {
        None => Some("it has no input schema".to_owned()),
        Some(text) => InputSchema::compile(text.as_bytes()).err().map(|error| error.to_string()),
    }
}

fn unfinished_warning(tool: &str) -> Diagnostic {
    let message = format!("too many rules and tools: from `{tool}` on they were not compared");
    Diagnostic::warning(DiagnosticCode::TooLarge, 0..0, message).with_help("check against fewer tools at a time")
}

impl<'p, 't> RuleBlockSchemaLint<'p, 't> {
    fn new(section: &'p LocatedBlock<'p>) -> Self {
        let check = |path, place, clause| ArgumentPathLint {
            path,
            span: place,
            condition: clause,
            findings: Vec::new(),
            has_passing_tool: false,
        };
        let clauses = section.all_predicates().flat_map(|(_, rule)| rule.conditions());
        let clauses = clauses.filter(|clause| clause.condition.path.root == CallPathRoot::Args);
        let conditions = clauses.map(|clause| check(&clause.condition.path, clause.path_span(), Some(clause)));
        let amounts = section.limits().filter_map(|(limit, node)| {
            let name = if node.get("amount").is_some() { "amount" } else { "increment_from" };
            Some(check(limit.amount.as_ref()?, member_span(node, name), None))
        });
        Self { section, argument_checks: conditions.chain(amounts).collect(), unusable_schemas: None }
    }

    /// Compares the block with the definition of one tool.
    fn check_tool(&mut self, tool: &'t ListedTool, budget: &mut LintBudget) {
        if self.section.block.validate_arguments
            && let Some(why) = unusable_schema_reason(tool)
        {
            self.unusable_schemas.get_or_insert_with(|| (FindingToolNames::default(), why)).0.add(&tool.name);
        }
        if self.argument_checks.is_empty() {
            return;
        }
        let document = tool.schema.as_deref().and_then(|text| read(text.as_bytes(), &JsonLimits::REPLY).ok());
        let mut declared = document.as_ref().map(|document| SchemaLookup::new(document.root()));
        for check in &mut self.argument_checks {
            if budget.remaining_parts == 0 {
                return;
            }
            let findings = match &mut declared {
                Some(declared) => check.findings(declared, budget),
                None => Vec::new(),
            };
            check.has_passing_tool |= findings.is_empty();
            findings.into_iter().for_each(|finding| check.add_finding(finding, &tool.name));
        }
    }

    fn push_warnings(self, warnings: &mut Vec<Diagnostic>) {
        let is_for_all = self.section.field == PolicySection::AllTools;
        if let (Some((named, why)), Some(place)) = (self.unusable_schemas, self.section.key_span("validate_arguments"))
        {
            let message = format!("the arguments of {named} cannot be validated, so each call is denied: {why}");
            let warning = Diagnostic::warning(DiagnosticCode::NoSchema, place, message);
            warnings.push(warning.with_help("fix the server's schema, or remove `validate_arguments` here"));
        }
        for check in self.argument_checks {
            if is_for_all {
                check.push_all_tools_warnings(warnings);
            } else {
                warnings.extend(check.findings.into_iter().map(|(finding, named)| tool_warning(finding, &named)));
            }
        }
    }
}

fn tool_warning(mut finding: LintFinding, named: &FindingToolNames<'_>) -> Diagnostic {
    finding.message = format!("in {named}, {}", finding.message);
    finding.into_warning()
}

impl<'t> ArgumentPathLint<'_, 't> {
    fn add_finding(&mut self, finding: LintFinding, tool: &'t str) {
        let is_same = |(other, _): &&mut (LintFinding, FindingToolNames<'t>)| other.is_same(&finding);
        if let Some((_, named)) = self.findings.iter_mut().find(is_same) {
            named.add(tool);
        } else if self.findings.len() < MAX_FINDINGS_PER_CONDITION {
            let mut named = FindingToolNames::default();
            named.add(tool);
            self.findings.push((finding, named));
        }
    }

    /// Reports findings for `all_tools`. A condition there may be intended for only some of the tools, so it is
    /// reported only if it is wrong for every tool that has the argument.
    fn push_all_tools_warnings(self, warnings: &mut Vec<Diagnostic>) {
        if self.has_passing_tool {
            return;
        }
        let is_missing = |finding: &LintFinding| finding.code == DiagnosticCode::UnknownArgument;
        if let Some((finding, _)) = self.findings.first()
            && self.findings.iter().all(|(finding, _)| is_missing(finding))
        {
            let message = format!("no tool has an argument `{}`", self.path);
            warnings.push(Diagnostic::warning(finding.code, self.span, message).with_help(finding.help.clone()));
            return;
        }
        let wrong = self.findings.into_iter().filter(|(finding, _)| !is_missing(finding));
        warnings.extend(wrong.map(|(finding, named)| tool_warning(finding, &named)));
    }

    fn findings(&self, declared: &mut SchemaLookup<'_>, budget: &mut LintBudget) -> Vec<LintFinding> {
        let before = declared.visited_parts;
        let found = declared.lookup(&self.path.segments);
        let members = self.condition.map_or(0, |clause| clause.members().len());
        let parts = declared.visited_parts - before + members + FINDING_COST_PARTS;
        budget.remaining_parts = budget.remaining_parts.saturating_sub(parts);
        match found {
            SchemaLookupResult::Unknown => Vec::new(),
            SchemaLookupResult::Missing { at, names } => {
                vec![self.missing_argument_finding(at, &names, &mut budget.suggester)]
            }
            SchemaLookupResult::WrongContainer { at, kinds } => vec![self.wrong_container_finding(at, kinds)],
            SchemaLookupResult::Value(shape) => match self.condition {
                Some(clause) => impossible_condition::find_impossible(clause, &shape, &mut budget.suggester),
                None => self.find_amount_mismatch(&shape).into_iter().collect(),
            },
        }
    }

    fn missing_argument_finding(&self, at: usize, names: &[String], suggester: &mut NameSuggester) -> LintFinding {
        let (parents, after) = self.path.segments.split_at(at);
        let name = match after.first() {
            Some(CallPathSegment::Name(name)) => name,
            Some(CallPathSegment::Index(_) | CallPathSegment::Wildcard) | None => "",
        };
        let written = |name: &str| path_text(parents) + &segment_text(&CallPathSegment::Name(name.into()));
        let help = match suggester.find_nearest(name, names.iter().map(String::as_str)) {
            Some(nearest) => format!("did you mean `{}`?", written(nearest)),
            None if names.is_empty() => "nothing is declared there".to_owned(),
            None => {
                let known: Vec<String> =
                    names.iter().take(MAX_SUGGESTED_ARGUMENTS).map(|name| format!("`{name}`")).collect();
                format!(
                    "the declared ones are {}{}",
                    known.join(", "),
                    if names.len() > MAX_SUGGESTED_ARGUMENTS { ", …" } else { "" }
                )
            }
        };
        let claim = format!("there is no `{}`", written(name));
        LintFinding { code: DiagnosticCode::UnknownArgument, span: self.span.clone(), message: claim, help }
    }

    fn wrong_container_finding(&self, at: usize, kinds: JsonKindSet) -> LintFinding {
        let (parents, after) = self.path.segments.split_at(at);
        let segment = after.first().map(segment_text).unwrap_or_default();
        LintFinding {
            code: DiagnosticCode::ImpossibleComparison,
            span: self.span.clone(),
            message: format!("`{}` is {kinds}, so `{segment}` never matches", path_text(parents)),
            help: "names are for objects, `[0]` and `[*]` for lists; every call with it is refused".to_owned(),
        }
    }

    fn find_amount_mismatch(&self, shape: &ValueShape<'_>) -> Option<LintFinding> {
        let is_possible = shape.kinds.is_empty() || shape.kinds.has(JsonKindSet::NUMBER);
        (!is_possible).then(|| LintFinding {
            code: DiagnosticCode::ImpossibleComparison,
            span: self.span.clone(),
            message: format!("`{}` is {}, and an amount is a number", self.path, shape.kinds),
            help: "every call is refused; name an argument that is a number".to_owned(),
        })
    }
}

impl<'t> FindingToolNames<'t> {
    fn add(&mut self, name: &'t str) {
        self.count += 1;
        if self.names.len() < MAX_NAMED_TOOLS {
            self.names.push(name);
        }
    }
}

impl fmt::Display for FindingToolNames<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.names.iter().map(|name| format!("`{name}`")).collect();
        f.write_str(&names.join(", "))?;
        match self.count - self.names.len() {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

/// Returns a path under `args` in policy notation.
fn path_text(segments: &[CallPathSegment]) -> String {
    let parts: Vec<String> = segments.iter().map(segment_text).collect();
    format!("args{}", parts.concat())
}

fn segment_text(segment: &CallPathSegment) -> String {
    match segment {
        CallPathSegment::Name(name) if name.is_empty() || name.contains(['.', '[', ']', '"']) => {
            let mut quoted = String::new();
            quote_into(name, &mut quoted);
            format!("[{quoted}]")
        }
        CallPathSegment::Name(name) => format!(".{name}"),
        CallPathSegment::Index(index) => format!("[{index}]"),
        CallPathSegment::Wildcard => "[*]".to_owned(),
    }
}
