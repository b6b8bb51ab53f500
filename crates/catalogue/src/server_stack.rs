//! A stack: all servers that one agent uses, the tools it could call, and the data flows that result from combining
//! them.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::classify::{RiskLevel, category_name};
use crate::data_flow_label::DataFlowLabel;
use crate::package_index::ToolFacts;
use crate::server_grade::{ServerGrade, grade_server};

/// Maximum number of server combinations to list. Any others are only counted.
const MAX_LISTED_COMBINATIONS: usize = 20;

/// A server in a stack.
#[derive(Debug, Clone)]
pub struct ServerStackMember {
    /// Display name.
    pub name: String,
    /// The server's tools. `None` if the server is unknown.
    pub tools: Option<Vec<ToolFacts>>,
    /// Whether the server's package is only a guess. If so, the server's risk level is at least High.
    pub is_package_guessed: bool,
}

/// A summary of a stack.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ServerStackSummary {
    /// Highest risk level of any tool; an unknown server counts as High. `None` for an empty stack.
    pub level: Option<RiskLevel>,
    /// Number of known tools.
    pub tool_count: usize,
    /// Number of tools by category.
    pub categories: BTreeMap<&'static str, usize>,
    /// Number of tools by risk level.
    pub levels: BTreeMap<&'static str, usize>,
    /// Names of the unknown servers.
    pub unknown: Vec<String>,
    /// Minimal sets of servers that together can read private data, read untrusted content, and send data out.
    pub combinations: Vec<Vec<String>>,
    /// Total number of server combinations that can leak data, including those not listed.
    pub combination_count: usize,
}

impl ServerStackSummary {
    /// Returns the overall risk level. It is Critical if a combination can leak data or an incident affects a package;
    /// otherwise it is the highest level of any tool.
    pub fn overall_level(&self, leaks: bool, has_case: bool) -> Option<RiskLevel> {
        if leaks || has_case { Some(RiskLevel::Critical) } else { self.level }
    }
}

/// Summarizes a stack.
pub fn summarize_stack(members: &[ServerStackMember]) -> ServerStackSummary {
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
    ServerStackSummary { level, tool_count, categories, levels, unknown, combinations, combination_count }
}

impl ServerStackMember {
    /// Returns the server's grade, or `None` if the server is unknown.
    pub fn grade(&self) -> Option<ServerGrade> {
        self.tools.as_deref().map(grade_server)
    }

    /// Returns the highest risk level of the server's tools. If the server is unknown or its package is only a guess,
    /// the level is at least High.
    pub fn level(&self) -> RiskLevel {
        let least = if self.is_package_guessed || self.tools.is_none() { RiskLevel::High } else { RiskLevel::Low };
        self.tools.iter().flatten().map(|tool| RiskLevel::of(tool.category)).fold(least, RiskLevel::max)
    }

    /// Returns the data flows of the server's tools, as bits.
    fn flow_bits(&self) -> u8 {
        flow_bits(self.tools.iter().flatten().flat_map(|tool| tool.flow.iter().copied()))
    }
}

/// Bit mask of all three data flows.
const ALL_FLOW_BITS: u8 = 7;

fn flow_bits(flows: impl Iterator<Item = DataFlowLabel>) -> u8 {
    let bit = |flow| match flow {
        DataFlowLabel::ReadsPrivate => 1,
        DataFlowLabel::ReadsUntrusted => 2,
        DataFlowLabel::SendsOutward => 4,
    };
    flows.fold(0, |bits, flow| bits | bit(flow))
}

/// Returns whether all three data flows are present: reading private data, reading untrusted content, and sending.
pub(crate) fn has_all_flows(flows: impl Iterator<Item = DataFlowLabel>) -> bool {
    flow_bits(flows) == ALL_FLOW_BITS
}

/// Returns the first minimal sets of servers that together have all three flows, as indexes into `members`, and the
/// total number of such sets. Servers are grouped by their flows, so that the sets can be counted without enumerating
/// them.
pub fn leaking_combinations(members: &[&ServerStackMember]) -> (Vec<Vec<usize>>, usize) {
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

/// Returns the first `max` sets that can be formed by taking one member from each of the groups in `parts`.
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

    fn member(name: &str, category: Category, flow: &[DataFlowLabel]) -> ServerStackMember {
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
        ServerStackMember { name: name.into(), tools: Some(vec![tool]), is_package_guessed: false }
    }

    #[test]
    fn combinations_have_no_superfluous_server() {
        let (private, strange, send) =
            (DataFlowLabel::ReadsPrivate, DataFlowLabel::ReadsUntrusted, DataFlowLabel::SendsOutward);
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
            ServerStackMember { name: "x".into(), tools: None, is_package_guessed: false },
            member("files", Category::Read, &[]),
        ]);
        assert_eq!((listed.level, listed.unknown), (Some(RiskLevel::High), vec!["x".to_owned()]));
        assert_eq!(summarize_stack(&[]).level, None);
    }

    #[test]
    fn a_guessed_server_counts_as_high_at_least() {
        let guessed = ServerStackMember { is_package_guessed: true, ..member("x", Category::Read, &[]) };
        assert_eq!((guessed.level(), summarize_stack(&[guessed]).level), (RiskLevel::High, Some(RiskLevel::High)));
        let guessed = ServerStackMember { is_package_guessed: true, ..member("x", Category::Destructive, &[]) };
        assert_eq!(
            (guessed.level(), summarize_stack(&[guessed]).level),
            (RiskLevel::Critical, Some(RiskLevel::Critical))
        );
    }

    #[test]
    fn combinations_of_many_servers_are_counted_without_enumeration() {
        let all: Vec<ServerStackMember> =
            [DataFlowLabel::ReadsPrivate, DataFlowLabel::ReadsUntrusted, DataFlowLabel::SendsOutward]
                .iter()
                .flat_map(|flow| (0..5_000).map(move |at| member(&format!("{flow:?}-{at}"), Category::Read, &[*flow])))
                .collect();
        let started_at = std::time::Instant::now();
        let listed = summarize_stack(&all);
        assert_eq!((listed.combination_count, listed.combinations.len()), (125_000_000_000, MAX_LISTED_COMBINATIONS));
        assert!(listed.combinations.iter().all(|set| set.len() == 3));
        assert!(started_at.elapsed().as_secs() < 5, "{:?}", started_at.elapsed());
    }
}
