//! Grades a server by how much harm its tools could do without a policy. The grade says nothing about the server's
//! author.

use serde::Serialize;

use crate::classify::RiskLevel;
use crate::package_index::ToolFacts;
use crate::risk_signals::RiskSignalKind;
use crate::server_context::MANY_TOOLS;
use crate::server_stack::has_all_flows;

/// A server's grade and the reasons for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ServerGrade {
    /// The grade, from `A` (least risky) to `F`.
    pub letter: char,
    /// Reasons, most serious first.
    pub reasons: Vec<String>,
}

/// Grades a server based on its tools.
///
/// ```
/// assert_eq!(gatelodge_catalogue::grade_server(&[]).letter, 'A');
/// ```
pub fn grade_server(tools: &[ToolFacts]) -> ServerGrade {
    let count = |level: RiskLevel| tools.iter().filter(|tool| RiskLevel::of(tool.category) == level).count();
    let shows = |kinds: &[RiskSignalKind]| {
        tools.iter().filter(|tool| tool.signals.iter().any(|kind| kinds.contains(kind))).count()
    };
    let mut reasons = Vec::new();
    let steering = shows(&[RiskSignalKind::SteersModel, RiskSignalKind::HiddenText, RiskSignalKind::MixedLetters]);
    if steering > 0 {
        reasons.push(format!(
            "{} text written for the model, or characters that are not what they seem",
            tools_have(steering)
        ));
    }
    let (critical, high, medium) = (count(RiskLevel::Critical), count(RiskLevel::High), count(RiskLevel::Medium));
    let mut step = match (critical, high, medium) {
        (0, 0, 0) => 0,
        (0, 0, _) => 1,
        (0, ..) => 2,
        _ => 3,
    };
    if critical > 0 {
        reasons.push(format!("{} Destructive or Financial", tools_are(critical)));
    }
    if high > 0 {
        reasons.push(format!("{} Execute or Unknown", tools_are(high)));
    }
    if has_all_flows(tools.iter().flat_map(|tool| tool.flow.iter().copied())) {
        reasons.push("by itself it reads private data, reads untrusted text, and can send data out".to_owned());
        step += 1;
    }
    let code = shows(&[RiskSignalKind::TakesCode, RiskSignalKind::TakesShell]);
    if code > 0 {
        reasons.push(format!("{} code or a command line", tools_take(code)));
        step += usize::from(critical > 0);
    }
    if tools.len() > MANY_TOOLS {
        reasons.push(format!("it has {} tools, more than a person reviews", tools.len()));
    }
    if medium > 0 && critical + high == 0 {
        reasons.push("what it changes can be changed back".to_owned());
    }
    if critical + high + medium == 0 {
        reasons.push("all tools that were found only read".to_owned());
    }
    if steering > 0 {
        step = 5;
    }
    let letter = ['A', 'B', 'C', 'D', 'E', 'F'].get(step.min(5)).copied().unwrap_or('F');
    ServerGrade { letter, reasons }
}

fn tools_have(count: usize) -> String {
    if count == 1 { "one tool has".to_owned() } else { format!("{count} tools have") }
}

fn tools_are(count: usize) -> String {
    if count == 1 { "one tool is".to_owned() } else { format!("{count} tools are") }
}

fn tools_take(count: usize) -> String {
    if count == 1 { "one tool takes".to_owned() } else { format!("{count} tools take") }
}
