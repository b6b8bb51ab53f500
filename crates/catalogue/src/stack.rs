//! Servers that one agent has at once: what it could call, and what they complete together.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::classify::{Level, word};
use crate::flow::Flow;
use crate::grade::{Grade, grade};
use crate::index::ToolFacts;

/// More combinations are counted, not told.
const MOST_TOLD: usize = 20;

/// A server of a stack.
#[derive(Debug, Clone)]
pub struct Member {
    /// Its name, for people.
    pub name: String,
    /// Its tools; none where nothing is known of it.
    pub tools: Option<Vec<ToolFacts>>,
}

/// What servers add up to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Stack {
    /// The highest level of any tool; a server that nobody knows counts as High. None where there is nothing.
    pub level: Option<Level>,
    /// How many tools are known.
    pub tool_count: usize,
    /// Tools by category.
    pub categories: BTreeMap<&'static str, usize>,
    /// Tools by level.
    pub levels: BTreeMap<&'static str, usize>,
    /// Servers that are not known.
    pub unknown: Vec<String>,
    /// Servers that together read private data, take in text of strangers, and can send: no server of a combination can
    /// be left out.
    pub combinations: Vec<Vec<String>>,
    /// How many combinations there are.
    pub combination_count: usize,
}

/// Adds up servers.
pub fn stack(members: &[Member]) -> Stack {
    let (mut categories, mut levels) = (BTreeMap::new(), BTreeMap::new());
    let mut level: Option<Level> = None;
    let mut tool_count = 0;
    for tool in members.iter().filter_map(|member| member.tools.as_ref()).flatten() {
        let own = Level::of(tool.category);
        *categories.entry(word(tool.category)).or_default() += 1;
        *levels.entry(own.as_str()).or_default() += 1;
        level = level.max(Some(own));
        tool_count += 1;
    }
    let unknown: Vec<String> =
        members.iter().filter(|member| member.tools.is_none()).map(|member| member.name.clone()).collect();
    if !unknown.is_empty() {
        level = level.max(Some(Level::High));
    }
    let (combinations, combination_count) = combinations(members);
    Stack { level, tool_count, categories, levels, unknown, combinations, combination_count }
}

/// The grade of a member that is known.
impl Member {
    /// Its grade; none where nothing is known of it.
    pub fn grade(&self) -> Option<Grade> {
        self.tools.as_deref().map(grade)
    }

    /// The highest level of its tools; High where nothing is known of it.
    pub fn level(&self) -> Level {
        match &self.tools {
            Some(tools) => tools.iter().map(|tool| Level::of(tool.category)).max().unwrap_or(Level::Low),
            None => Level::High,
        }
    }

    /// Which of the three its tools have, as bits.
    fn flows(&self) -> u8 {
        let all = [Flow::ReadsPrivate, Flow::ReadsUntrusted, Flow::SendsOutward];
        let has = |flow: &Flow| self.tools.iter().flatten().any(|tool| tool.flow.contains(flow));
        all.iter().enumerate().filter(|(_, flow)| has(flow)).fold(0, |bits, (at, _)| bits | 1 << at)
    }
}

/// The smallest sets of servers that have all three.
fn combinations(members: &[Member]) -> (Vec<Vec<String>>, usize) {
    const ALL: u8 = 7;
    let flows: Vec<(u8, &str)> = members.iter().map(|member| (member.flows(), member.name.as_str())).collect();
    let parts: Vec<&(u8, &str)> = flows.iter().filter(|(flow, _)| *flow != ALL && *flow != 0).collect();
    let mut told: Vec<Vec<String>> = Vec::new();
    let mut count = 0;
    let mut tell = |names: &[&str]| {
        count += 1;
        if told.len() < MOST_TOLD {
            told.push(names.iter().map(|name| (*name).to_owned()).collect());
        }
    };
    flows.iter().filter(|(flow, _)| *flow == ALL).for_each(|(_, name)| tell(&[name]));
    for (at, (one, first)) in parts.iter().enumerate() {
        for (next, (other, second)) in parts.iter().enumerate().skip(at + 1) {
            if one | other == ALL {
                tell(&[first, second]);
                continue;
            }
            for (third_flow, third) in parts.iter().skip(next + 1) {
                let is_needed = one | third_flow != ALL && other | third_flow != ALL;
                if is_needed && one | other | third_flow == ALL {
                    tell(&[first, second, third]);
                }
            }
        }
    }
    (told, count)
}

#[cfg(test)]
mod tests {
    use gatelodge_policy::Category;

    use super::*;
    use crate::index::Claims;

    fn member(name: &str, category: Category, flow: &[Flow]) -> Member {
        let tool = ToolFacts {
            name: "t".into(),
            parameters: Vec::new(),
            claims: Claims::default(),
            category,
            confidence: 1.0,
            signals: Vec::new(),
            flow: flow.to_vec(),
            hash: "0".repeat(16),
            optional: false,
        };
        Member { name: name.into(), tools: Some(vec![tool]) }
    }

    #[test]
    fn combinations_have_no_server_too_many() {
        let (private, strange, send) = (Flow::ReadsPrivate, Flow::ReadsUntrusted, Flow::SendsOutward);
        let all = [
            member("mail", Category::Read, &[private, strange, send]),
            member("files", Category::Read, &[private]),
            member("web", Category::Read, &[strange]),
            member("post", Category::Write, &[send]),
            member("chat", Category::Write, &[strange, send]),
            member("sums", Category::Read, &[]),
        ];
        let told = stack(&all);
        let expected = [&["mail"][..], &["files", "web", "post"], &["files", "chat"]];
        assert_eq!(told.combinations, expected);
        assert_eq!((told.combination_count, told.level, told.tool_count), (3, Some(Level::Medium), 6));
    }

    #[test]
    fn a_server_that_nobody_knows_counts_as_high() {
        let told = stack(&[Member { name: "x".into(), tools: None }, member("files", Category::Read, &[])]);
        assert_eq!((told.level, told.unknown), (Some(Level::High), vec!["x".to_owned()]));
        assert_eq!(stack(&[]).level, None);
    }
}
