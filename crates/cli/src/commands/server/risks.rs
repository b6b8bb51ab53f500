//! What a server's accepted tools can do, the riskiest first.

use gatelodge_catalogue::Level;
use gatelodge_gateway::{Class, classes};
use gatelodge_store::{Known, ServerName};
use serde::Serialize;
use serde_json::{Value, json};

use crate::report::shown;

/// One tool, for people.
#[derive(Debug, Serialize)]
pub struct Risk {
    pub tool: String,
    pub category: &'static str,
    pub level: Level,
    /// How sure the catalogue is; none where somebody said it.
    pub confidence: Option<f64>,
    /// What it rests on.
    pub evidence: Vec<String>,
    /// Who said otherwise, when and why.
    pub said: Option<Value>,
}

/// The accepted tools, by level, then by name.
pub fn risks(server: &ServerName, known: &Known) -> Vec<Risk> {
    let classes = classes(server, known, known.accepted.iter().map(|pin| &pin.definition));
    let mut risks: Vec<Risk> = classes.into_iter().map(|(tool, class)| risk(tool, class)).collect();
    risks.sort_by(|one, other| other.level.cmp(&one.level).then_with(|| one.tool.cmp(&other.tool)));
    risks
}

fn risk(tool: String, class: Class) -> Risk {
    let category = class.category();
    let said = class.said.map(|said| {
        json!({"by": said.said_by, "at": said.said_at, "why": said.why, "category": said.category.as_str(),
            "even_if_changed": said.fingerprint.is_none(), "catalogue": class.judged.category.as_str()})
    });
    let confidence = said.is_none().then_some(class.judged.confidence);
    Risk {
        tool,
        category: category.as_str(),
        level: Level::of(category),
        confidence,
        evidence: class.judged.evidence,
        said,
    }
}

impl Risk {
    /// As rows of a table.
    pub fn rows(&self) -> Vec<Vec<String>> {
        let sure = self.confidence.map(|sure| format!("{:.0} %", sure * 100.0)).unwrap_or_default();
        let because = match &self.said {
            Some(said) => {
                let text =
                    |member: &str| shown(said.get(member).and_then(Value::as_str).unwrap_or_default()).to_string();
                format!("{} says so: {}", text("by"), text("why"))
            }
            None => self.evidence.join("; "),
        };
        vec![vec![
            self.level.as_str().to_owned(),
            self.category.to_owned(),
            sure,
            shown(&self.tool).to_string(),
            because,
        ]]
    }
}
