//! A stack: all servers of one agent, what it could call, and which data flows they add up to.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::classify::{RiskLevel, category_name};
use crate::data_flow::DataFlow;
use crate::package_index::ToolFacts;
use crate::server_grade::{ServerGrade, grade_server};

/// Maximum number of combinations listed; more are only counted.
const MAX_LISTED_COMBINATIONS: usize = 20;

/// A server of a stack.
#[derive(Debug, Clone)]
pub struct StackMember {
    /// Display name.
    pub name: String,
    /// Its tools. `None` if the server is unknown.
    pub tools: Option<Vec<ToolFacts>>,
    /// Whether the package is only a guess. The server then counts as at least High.
    pub is_package_guessed: bool,
}

/// Summary of a stack.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StackSummary {
    /// Highest risk level of any tool; an unknown server counts as High. `None` for an empty stack.
    pub level: Option<RiskLevel>,
    /// Number of known tools.
    pub tool_count: usize,
    /// Number of tools by category.
    pub categories: BTreeMap<&'static str, usize>,
    /// Number of tools by risk level.
    pub levels: BTreeMap<&'static str, usize>,
    /// Unknown servers.
    pub unknown: Vec<String>,
    /// Minimal sets of servers that together read private data, read untrusted content, and can send.
    pub combinations: Vec<Vec<String>>,
    /// Total number of combinations.
    pub combination_count: usize,
}

impl StackSummary {
    /// Returns the overall level. A combination that leaks, or an affected package of an incident, is worse than the
    /// tools individually.
    pub fn overall_level(&self, leaks: bool, has_case: bool) -> Option<RiskLevel> {
        if leaks || has_case { Some(RiskLevel::Critical) } else { self.level }
    }
}

/// Summarizes a stack.
pub fn summarize_stack(members: &[StackMember]) -> StackSummary {
    let (mut categories, mut levels) = (BTreeMap::new(), BTreeMap::new());
    let mut level: Option<RiskLevel> = None;
    let mut tool_count = 0;
    for tool in members.iter().filter_map(|member| member.tools.as_ref()).flatten() {
        let own = RiskLevel::of(tool.category);
        *categories.entry(category_name(tool.category)).or_default() += 1;
        *levels.entry(own.as_str()).or_default() += 1;
        level = level.max(Some(own));
        tool_count += 1;
    }
    let unknown: Vec<String> =
        members.iter().filter(|member| member.tools.is_none()).map(|member| member.name.clone()).collect();
    if members.iter().any(|member| member.tools.is_none() || member.is_package_guessed) {
        level = level.max(Some(RiskLevel::High));
    }
    let (sets, combination_count) = leaking_combinations(&members.iter().collect::<Vec<_>>());
    let named = |set: &Vec<usize>| set.iter().filter_map(|at| members.get(*at)).map(|own| own.name.clone()).collect();
    let combinations = sets.iter().map(named).collect();
    StackSummary { level, tool_count, categories, levels, unknown, combinations, combination_count }
}

impl StackMember {
    /// Returns its grade. `None` if the server is unknown.
    pub fn grade(&self) -> Option<ServerGrade> {
        self.tools.as_deref().map(grade_server)
    }

    /// Returns the highest level of its tools; at least High if the server is not known for certain.
    pub fn level(&self) -> RiskLevel {
        let least = if self.is_package_guessed || self.tools.is_none() { RiskLevel::High } else { RiskLevel::Low };
        self.tools.iter().flatten().map(|tool| RiskLevel::of(tool.category)).fold(least, RiskLevel::max)
    }

    /// Returns the flows of its tools, as bits.
    fn flow_bits(&self) -> u8 {
        flow_bits(self.tools.iter().flatten().flat_map(|tool| tool.flow.iter().copied()))
    }
}

/// All three flows.
const ALL_FLOW_BITS: u8 = 7;

fn flow_bits(flows: impl Iterator<Item = DataFlow>) -> u8 {
    let bit = |flow| match flow {
        DataFlow::ReadsPrivate => 1,
        DataFlow::ReadsUntrusted => 2,
        DataFlow::SendsOutward => 4,
    };
    flows.fold(0, |bits, flow| bits | bit(flow))
}

/// Returns whether these flows include all three: reading private data, reading untrusted content, and sending.
pub(crate) fn has_all_flows(flows: impl Iterator<Item = DataFlow>) -> bool {
    flow_bits(flows) == ALL_FLOW_BITS
}

/// Returns the first minimal sets of servers that have all three flows, as indexes into `members`, and their total
/// number. Servers are grouped by their flows, so the cost does not depend on the number of servers.
pub fn leaking_combinations(members: &[&StackMember]) -> (Vec<Vec<usize>>, usize) {
    let mut groups: [Vec<usize>; 8] = Default::default();
    for (at, member) in members.iter().enumerate() {
        if let Some(group) = groups.get_mut(usize::from(member.flow_bits())) {
            group.push(at);
        }
    }
    let group = |flows: u8| groups.get(usize::from(flows)).map_or(&[][..], Vec::as_slice);
    let (mut listed, mut count) = (Vec::new(), 0_usize);
    let mut add_sets = |parts: &[&[usize]]| {
        count = count.saturating_add(parts.iter().map(|part| part.len()).fold(1, usize::saturating_mul));
        let max = MAX_LISTED_COMBINATIONS.saturating_sub(listed.len());
        listed.extend(member_sets(parts, max));
    };
    add_sets(&[group(ALL_FLOW_BITS)]);
    for one in 1..ALL_FLOW_BITS {
        for other in one + 1..ALL_FLOW_BITS {
            if one | other == ALL_FLOW_BITS {
                add_sets(&[group(one), group(other)]);
            }
        }
    }
    // With three servers, the set is minimal only if each has exactly one flow.
    add_sets(&[group(1), group(2), group(4)]);
    (listed, count)
}

/// Returns the first `max` sets with one member of each part.
fn member_sets(parts: &[&[usize]], max: usize) -> Vec<Vec<usize>> {
    let mut sets = vec![Vec::new()];
    for part in parts {
        let longer = sets
            .iter()
            .flat_map(|set: &Vec<usize>| part.iter().map(move |at| set.iter().copied().chain([*at]).collect()));
        sets = longer.take(max).collect();
    }
    sets
}

#[cfg(test)]
mod tests {
    use gatelodge_policy::Category;

    use super::*;
    use crate::package_index::ToolHints;

    fn member(name: &str, category: Category, flow: &[DataFlow]) -> StackMember {
        let tool = ToolFacts {
            name: "t".into(),
            parameters: Vec::new(),
            claims: ToolHints::default(),
            category,
            confidence: 1.0,
            signals: Vec::new(),
            flow: flow.to_vec(),
            hash: "0".repeat(16),
            optional: false,
        };
        StackMember { name: name.into(), tools: Some(vec![tool]), is_package_guessed: false }
    }

    #[test]
    fn combinations_have_no_superfluous_server() {
        let (private, strange, send) = (DataFlow::ReadsPrivate, DataFlow::ReadsUntrusted, DataFlow::SendsOutward);
        let all = [
            member("mail", Category::Read, &[private, strange, send]),
            member("files", Category::Read, &[private]),
            member("web", Category::Read, &[strange]),
            member("post", Category::Write, &[send]),
            member("chat", Category::Write, &[strange, send]),
            member("sums", Category::Read, &[]),
        ];
        let listed = summarize_stack(&all);
        let expected = [&["mail"][..], &["files", "chat"], &["files", "web", "post"]];
        assert_eq!(listed.combinations, expected);
        assert_eq!((listed.combination_count, listed.level, listed.tool_count), (3, Some(RiskLevel::Medium), 6));
    }

    #[test]
    fn unknown_server_counts_as_high() {
        let listed = summarize_stack(&[
            StackMember { name: "x".into(), tools: None, is_package_guessed: false },
            member("files", Category::Read, &[]),
        ]);
        assert_eq!((listed.level, listed.unknown), (Some(RiskLevel::High), vec!["x".to_owned()]));
        assert_eq!(summarize_stack(&[]).level, None);
    }

    #[test]
    fn a_guessed_server_counts_as_high_at_least() {
        let guessed = StackMember { is_package_guessed: true, ..member("x", Category::Read, &[]) };
        assert_eq!((guessed.level(), summarize_stack(&[guessed]).level), (RiskLevel::High, Some(RiskLevel::High)));
        let guessed = StackMember { is_package_guessed: true, ..member("x", Category::Destructive, &[]) };
        assert_eq!(
            (guessed.level(), summarize_stack(&[guessed]).level),
            (RiskLevel::Critical, Some(RiskLevel::Critical))
        );
    }

    #[test]
    fn combinations_of_many_servers_are_counted_without_enumeration() {
        let all: Vec<StackMember> = [DataFlow::ReadsPrivate, DataFlow::ReadsUntrusted, DataFlow::SendsOutward]
            .iter()
            .flat_map(|flow| (0..5_000).map(move |at| member(&format!("{flow:?}-{at}"), Category::Read, &[*flow])))
            .collect();
        let begun = std::time::Instant::now();
        let listed = summarize_stack(&all);
        assert_eq!((listed.combination_count, listed.combinations.len()), (125_000_000_000, MAX_LISTED_COMBINATIONS));
        assert!(listed.combinations.iter().all(|set| set.len() == 3));
        assert!(begun.elapsed().as_secs() < 5, "{:?}", begun.elapsed());
    }
}
