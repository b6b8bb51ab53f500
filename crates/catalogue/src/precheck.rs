//! Advice to consider before connecting a server. It never claims that a server is safe, because that cannot be known.

use serde::Serialize;

use crate::classify::{RiskLevel, backtick_quoted};
use crate::incident::{IncidentMatch, incidents_of_package};
use crate::package_index::{IndexedServer, ToolFacts};
use crate::risk_signals::RiskSignalKind;
use crate::server_stack::has_all_flows;
use gatelodge_policy::Category;

/// The advice on connecting a server, from most to least favorable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PrecheckVerdict {
    /// Connect the server. Nothing known about it calls for more than the usual policy.
    Proceed,
    /// Connect the server, but with the recommended rule.
    ConnectWithRule,
    /// Have a person review the server first.
    AskFirst,
}

impl PrecheckVerdict {
    /// Returns the verdict's identifier.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Proceed => "proceed",
            Self::ConnectWithRule => "connect-with-rule",
            Self::AskFirst => "ask-first",
        }
    }
}

/// The advice on connecting a server, and the reasons for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ConnectionAdvice {
    /// The advice.
    pub verdict: PrecheckVerdict,
    /// The reasons for the advice.
    pub reasons: Vec<String>,
}

impl ConnectionAdvice {
    /// Raises the verdict to at least `least`, and adds the reason.
    pub fn at_least(mut self, least: PrecheckVerdict, why: String) -> Self {
        self.verdict = self.verdict.max(least);
        self.reasons.push(why);
        self
    }

    /// Adds incidents that involve the package. If an incident affects the version in use, the verdict becomes
    /// [`AskFirst`](PrecheckVerdict::AskFirst).
    pub fn with_incidents(mut self, incidents: &[IncidentMatch]) -> Self {
        for incident in incidents {
            let least = if incident.is_affected { PrecheckVerdict::AskFirst } else { self.verdict };
            self = self.at_least(least, incident.message.clone());
        }
        self
    }

    /// Returns the advice for an unknown server.
    pub fn unknown(why: &str) -> Self {
        Self { verdict: PrecheckVerdict::AskFirst, reasons: vec![why.to_owned()] }
    }
}

/// Returns the advice on connecting the indexed version of a server.
pub fn precheck_indexed(server: &IndexedServer<'_>, tools: &[ToolFacts]) -> ConnectionAdvice {
    precheck(tools).with_incidents(&incidents_of_package(server.source(), server.package(), Some(server.version())))
}

/// Returns the advice on connecting a server, based on its tools.
///
/// ```
/// use gatelodge_catalogue::{PrecheckVerdict, precheck};
///
/// let only_reads = precheck(&[]);
/// assert_eq!(only_reads.verdict, PrecheckVerdict::Proceed, "no tool changes anything");
/// let reported = only_reads.at_least(PrecheckVerdict::AskFirst, "its publisher has changed".into());
/// assert_eq!(reported.verdict, PrecheckVerdict::AskFirst);
/// ```
pub fn precheck(tools: &[ToolFacts]) -> ConnectionAdvice {
    let mut reasons: Vec<String> = Vec::new();
    let names = |wanted: &dyn Fn(&ToolFacts) -> bool| {
        let all: Vec<String> =
            tools.iter().filter(|tool| wanted(tool)).map(|tool| backtick_quoted(&tool.name)).collect();
        match all.len() {
            0 => None,
            1..=3 => Some(all.join(", ")),
            count => {
                Some(format!("{} and {} more", all.iter().take(2).cloned().collect::<Vec<_>>().join(", "), count - 2))
            }
        }
    };
    let steers = |tool: &ToolFacts| {
        let odd = [RiskSignalKind::SteersModel, RiskSignalKind::HiddenText, RiskSignalKind::MixedLetters];
        tool.signals.iter().any(|kind| odd.contains(kind))
    };
    let mut needs_review = false;
    if let Some(names) = names(&steers) {
        reasons.push(format!("{names}: text written for the model, or characters that are not what they seem"));
        needs_review = true;
    }
    if has_all_flows(tools.iter().flat_map(|tool| tool.flow.iter().copied())) {
        reasons.push("by itself it reads private data, reads untrusted text, and can send data out".to_owned());
        needs_review = true;
    }
    let unknown = tools.iter().filter(|tool| tool.category == Category::Unknown).count();
    if unknown * 2 > tools.len() {
        reasons.push("most of its tools are Unknown".to_owned());
        needs_review = true;
    }
    // For one tool and for several.
    let consequences: [(Category, [&str; 2]); 5] = [
        (
            Category::Destructive,
            ["removes something permanently; the rule hides it", "remove something permanently; the rule hides them"],
        ),
        (Category::Financial, ["commits money; each call needs approval", "commit money; each call needs approval"]),
        (
            Category::Execute,
            ["runs what a call says; at most 10 calls a minute", "run what a call says; at most 10 calls a minute"],
        ),
        (Category::Unknown, ["is Unknown; each call needs approval", "are Unknown; each call needs approval"]),
        (
            Category::Write,
            ["changes something; at most 30 calls a minute", "change something; at most 30 calls a minute"],
        ),
    ];
    for (category, [of_one, of_several]) in consequences {
        if let Some(names) = names(&|tool: &ToolFacts| tool.category == category) {
            let is_one = tools.iter().filter(|tool| tool.category == category).count() == 1;
            reasons.push(format!("{names}: {}", if is_one { of_one } else { of_several }));
        }
    }
    let worst = tools.iter().map(|tool| RiskLevel::of(tool.category)).max().unwrap_or(RiskLevel::Low);
    let verdict = match (needs_review, worst) {
        (true, _) => PrecheckVerdict::AskFirst,
        (false, RiskLevel::Low) => PrecheckVerdict::Proceed,
        (false, _) => PrecheckVerdict::ConnectWithRule,
    };
    if reasons.is_empty() {
        reasons.push("all tools that were found only read; the model still sees what they read".to_owned());
    }
    ConnectionAdvice { verdict, reasons }
}
