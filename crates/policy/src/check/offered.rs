//! Rules held against the definitions of the tools they apply to.

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;

use gatelodge_json::{JsonLimits, quote_into, read};

use super::compare::{self, Finding};
use super::located_block::{LocatedBlock, LocatedCondition, PolicySection, member_span};
use super::nearest::Offers;
use super::schema_lookup::{SchemaLookup, SchemaLookupResult};
use super::tool_list::{ListedTool, ToolList};
use super::value_shape::{KindSet, ValueShape};
use crate::call_path::{CallPath, PathRoot, PathSegment};
use crate::compiled_policy::Policy;
use crate::diagnostic::{Diagnostic, DiagnosticCode};
use crate::input_schema::InputSchema;

/// How many parts of schemas are looked at in all; about a second.
const MOST_PARTS: usize = 30_000_000;
/// What telling a finding costs, in the same measure.
const FINDING_PARTS: usize = 100;
/// How many tools are named in a message.
const MOST_NAMED: usize = 3;
/// How many different findings are kept for one condition.
const MOST_FOUND: usize = 16;
/// How many arguments are offered in place of a wrong one.
const MOST_OFFERED: usize = 12;

/// A block with the tools it applies to, as far as they have been seen.
struct Held<'p, 't> {
    section: &'p LocatedBlock<'p>,
    looks: Vec<Look<'p, 't>>,
    /// Tools that `validate_arguments` cannot be done for, and why not for the first of them.
    unusable: Option<(Named<'t>, String)>,
}

/// A part of a block that looks at the arguments.
struct Look<'p, 't> {
    path: &'p CallPath,
    place: Range<usize>,
    /// The condition; none for the amount of a limit.
    clause: Option<LocatedCondition<'p>>,
    found: Vec<(Finding, Named<'t>)>,
    /// Whether some tool gave no reason for a warning.
    is_fine: bool,
}

/// Tools of which the first few are named.
#[derive(Default)]
struct Named<'t> {
    names: Vec<&'t str>,
    count: usize,
}

/// What may still be spent on comparing.
struct Effort {
    parts_left: usize,
    offers: Offers,
}

pub(super) fn check(
    policy: &Policy,
    sections: &[LocatedBlock<'_>],
    tools: &ToolList,
    offers: Offers,
    warnings: &mut Vec<Diagnostic>,
) {
    let mut blocks: Vec<Held<'_, '_>> = sections.iter().map(Held::new).collect();
    let all_tools = sections.iter().position(|section| section.field == PolicySection::AllTools);
    let places: HashMap<&str, usize> = sections.iter().map(|section| &*section.block.pointer).zip(0..).collect();
    let mut effort = Effort { parts_left: MOST_PARTS, offers };
    let globs = policy.hide.globs.len() + policy.tools.globs.len();
    for tool in tools.iter().filter(|tool| policy.hide.find(&tool.name).is_none()) {
        let own = policy.tools.find(&tool.name).and_then(|block| places.get(&*block.pointer).copied());
        for at in own.into_iter().chain(all_tools) {
            blocks.get_mut(at).into_iter().for_each(|block| block.hold(tool, &mut effort));
        }
        effort.parts_left = effort.parts_left.saturating_sub(globs);
        if effort.parts_left == 0 {
            warnings.push(not_finished(&tool.name));
            // Of all tools something can only be said when all were seen.
            all_tools.and_then(|at| blocks.get_mut(at)).into_iter().for_each(|block| block.looks.clear());
            break;
        }
    }
    blocks.into_iter().for_each(|block| block.warn(warnings));
}

fn why_unusable(tool: &ListedTool) -> Option<String> {
    match &tool.schema {
        None => Some("it has no input schema".to_owned()),
        Some(text) => InputSchema::compile(text.as_bytes()).err().map(|error| error.to_string()),
    }
}

fn not_finished(tool: &str) -> Diagnostic {
    let message = format!("too many rules for so many tools: from `{tool}` on they were not compared");
    Diagnostic::warning(DiagnosticCode::TooLarge, 0..0, message).with_help("check against fewer tools at a time")
}

impl<'p, 't> Held<'p, 't> {
    fn new(section: &'p LocatedBlock<'p>) -> Self {
        let look = |path, place, clause| Look { path, place, clause, found: Vec::new(), is_fine: false };
        let clauses = section.all_predicates().flat_map(|(_, rule)| rule.conditions());
        let clauses = clauses.filter(|clause| clause.condition.path.root == PathRoot::Args);
        let conditions = clauses.map(|clause| look(&clause.condition.path, clause.path_span(), Some(clause)));
        let amounts = section.limits().filter_map(|(limit, node)| {
            let name = if node.get("amount").is_some() { "amount" } else { "increment_from" };
            Some(look(limit.amount.as_ref()?, member_span(node, name), None))
        });
        Self { section, looks: conditions.chain(amounts).collect(), unusable: None }
    }

    /// Compares what the block looks at with what one tool declares.
    fn hold(&mut self, tool: &'t ListedTool, effort: &mut Effort) {
        if self.section.block.validate_arguments
            && let Some(why) = why_unusable(tool)
        {
            self.unusable.get_or_insert_with(|| (Named::default(), why)).0.add(&tool.name);
        }
        if self.looks.is_empty() {
            return;
        }
        let document = tool.schema.as_deref().and_then(|text| read(text.as_bytes(), &JsonLimits::REPLY).ok());
        let mut declared = document.as_ref().map(|document| SchemaLookup::new(document.root()));
        for look in &mut self.looks {
            if effort.parts_left == 0 {
                return;
            }
            let findings = match &mut declared {
                Some(declared) => look.findings(declared, effort),
                None => Vec::new(),
            };
            look.is_fine |= findings.is_empty();
            findings.into_iter().for_each(|finding| look.add(finding, &tool.name));
        }
    }

    fn warn(self, warnings: &mut Vec<Diagnostic>) {
        let is_for_all = self.section.field == PolicySection::AllTools;
        if let (Some((named, why)), Some(place)) = (self.unusable, self.section.key_span("validate_arguments")) {
            let message = format!("the arguments of {named} cannot be validated, so each call is denied: {why}");
            let warning = Diagnostic::warning(DiagnosticCode::NoSchema, place, message);
            warnings
                .push(warning.with_help("have the server repair its schema, or leave `validate_arguments` out here"));
        }
        for look in self.looks {
            if is_for_all {
                look.warn_of_all(warnings);
            } else {
                warnings.extend(look.found.into_iter().map(|(finding, named)| about(finding, &named)));
            }
        }
    }
}

fn about(mut finding: Finding, named: &Named<'_>) -> Diagnostic {
    finding.claim = format!("in {named}, {}", finding.claim);
    finding.into_warning()
}

impl<'t> Look<'_, 't> {
    fn add(&mut self, finding: Finding, tool: &'t str) {
        let is_same = |(other, _): &&mut (Finding, Named<'t>)| other.is_same(&finding);
        if let Some((_, named)) = self.found.iter_mut().find(is_same) {
            named.add(tool);
        } else if self.found.len() < MOST_FOUND {
            let mut named = Named::default();
            named.add(tool);
            self.found.push((finding, named));
        }
    }

    /// In `all_tools` a condition may be meant for some tools alone; it is wrong only if it is for all that have the
    /// argument.
    fn warn_of_all(self, warnings: &mut Vec<Diagnostic>) {
        if self.is_fine {
            return;
        }
        let is_missing = |finding: &Finding| finding.code == DiagnosticCode::UnknownArgument;
        if let Some((finding, _)) = self.found.first()
            && self.found.iter().all(|(finding, _)| is_missing(finding))
        {
            let message = format!("no tool has an argument `{}`", self.path);
            warnings.push(Diagnostic::warning(finding.code, self.place, message).with_help(finding.help.clone()));
            return;
        }
        let wrong = self.found.into_iter().filter(|(finding, _)| !is_missing(finding));
        warnings.extend(wrong.map(|(finding, named)| about(finding, &named)));
    }

    fn findings(&self, declared: &mut SchemaLookup<'_>, effort: &mut Effort) -> Vec<Finding> {
        let before = declared.visited_parts;
        let found = declared.lookup(&self.path.segments);
        let members = self.clause.map_or(0, |clause| clause.members().len());
        let parts = declared.visited_parts - before + members + FINDING_PARTS;
        effort.parts_left = effort.parts_left.saturating_sub(parts);
        match found {
            SchemaLookupResult::Unknown => Vec::new(),
            SchemaLookupResult::Missing { at, names } => vec![self.missing(at, &names, &mut effort.offers)],
            SchemaLookupResult::WrongContainer { at, kinds } => vec![self.astray(at, kinds)],
            SchemaLookupResult::Value(shape) => match self.clause {
                Some(clause) => compare::with_shape(clause, &shape, &mut effort.offers),
                None => self.amount(&shape).into_iter().collect(),
            },
        }
    }

    fn missing(&self, at: usize, names: &[String], offers: &mut Offers) -> Finding {
        let (parents, behind) = self.path.segments.split_at(at);
        let name = match behind.first() {
            Some(PathSegment::Name(name)) => name,
            Some(PathSegment::Index(_) | PathSegment::Wildcard) | None => "",
        };
        let written = |name: &str| shown(parents) + &shown_segment(&PathSegment::Name(name.into()));
        let help = match offers.find_nearest(name, names.iter().map(String::as_str)) {
            Some(nearest) => format!("did you mean `{}`?", written(nearest)),
            None if names.is_empty() => "nothing is declared there".to_owned(),
            None => {
                let known: Vec<String> = names.iter().take(MOST_OFFERED).map(|name| format!("`{name}`")).collect();
                format!("declared are {}{}", known.join(", "), if names.len() > MOST_OFFERED { ", …" } else { "" })
            }
        };
        let claim = format!("there is no `{}`", written(name));
        Finding { code: DiagnosticCode::UnknownArgument, span: self.place.clone(), claim, help }
    }

    fn astray(&self, at: usize, kinds: KindSet) -> Finding {
        let (parents, behind) = self.path.segments.split_at(at);
        let segment = behind.first().map(shown_segment).unwrap_or_default();
        Finding {
            code: DiagnosticCode::ImpossibleComparison,
            span: self.place.clone(),
            claim: format!("`{}` is {kinds}, and `{segment}` looks for something else", shown(parents)),
            help: "names are for objects, `[0]` and `[*]` for lists; every call with it is refused".to_owned(),
        }
    }

    fn amount(&self, shape: &ValueShape<'_>) -> Option<Finding> {
        let is_possible = shape.kinds.is_empty() || shape.kinds.has(KindSet::NUMBER);
        (!is_possible).then(|| Finding {
            code: DiagnosticCode::ImpossibleComparison,
            span: self.place.clone(),
            claim: format!("`{}` is {}, and an amount is a number", self.path, shape.kinds),
            help: "as it stands every call is refused; name an argument that is a number".to_owned(),
        })
    }
}

impl<'t> Named<'t> {
    fn add(&mut self, name: &'t str) {
        self.count += 1;
        if self.names.len() < MOST_NAMED {
            self.names.push(name);
        }
    }
}

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.names.iter().map(|name| format!("`{name}`")).collect();
        f.write_str(&names.join(", "))?;
        match self.count - self.names.len() {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

/// A path under `args`, as it could be written.
fn shown(segments: &[PathSegment]) -> String {
    let parts: Vec<String> = segments.iter().map(shown_segment).collect();
    format!("args{}", parts.concat())
}

fn shown_segment(segment: &PathSegment) -> String {
    match segment {
        PathSegment::Name(name) if name.is_empty() || name.contains(['.', '[', ']', '"']) => {
            let mut quoted = String::new();
            quote_into(name, &mut quoted);
            format!("[{quoted}]")
        }
        PathSegment::Name(name) => format!(".{name}"),
        PathSegment::Index(index) => format!("[{index}]"),
        PathSegment::Wildcard => "[*]".to_owned(),
    }
}
