//! What a server's accepted tools can do, the riskiest first.

use gatelodge_catalogue::{RiskLevel, category_name};
use gatelodge_gateway::{ToolCategorization, categorize_accepted_tools};
use gatelodge_policy::Category;
use gatelodge_store::{ServerName, ServerTools};
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use crate::diagnostic_report::escape_for_terminal;

/// One tool, for people.
#[derive(Debug, Serialize)]
pub struct ToolRisk {
    pub tool: String,
    #[serde(serialize_with = "serialize_category")]
    pub category: Category,
    pub level: RiskLevel,
    /// How sure the catalogue is; none where somebody said it, or where the definition cannot be read.
    pub confidence: Option<f64>,
    /// What it rests on.
    pub evidence: Vec<String>,
    /// Who said otherwise, when and why.
    #[serde(rename = "said")]
    pub category_override: Option<Value>,
    /// Who said something of an earlier definition; it does not count.
    #[serde(rename = "lapsed")]
    pub lapsed_override: Option<Value>,
}

/// The accepted tools, by level, then by name.
pub fn tool_risks(server: &ServerName, known: &ServerTools) -> Vec<ToolRisk> {
    let mut risks: Vec<ToolRisk> =
        categorize_accepted_tools(server, known).into_iter().map(|(tool, class)| tool_risk(tool, class)).collect();
    risks.sort_by(|one, other| other.level.cmp(&one.level).then_with(|| one.tool.cmp(&other.tool)));
    risks
}

fn tool_risk(tool: String, class: ToolCategorization) -> ToolRisk {
    let category = class.category();
    let (judged, confidence, evidence) = match class.classification {
        Ok(judged) => (judged.category, Some(judged.confidence), judged.evidence),
        Err(why) => {
            (Category::Unknown, None, vec![format!("its definition cannot be read: {}", escape_for_terminal(&why))])
        }
    };
    let said = class.category_override.map(|said| {
        json!({"by": said.set_by, "at": said.set_at, "why": said.reason, "category": said.category.as_str(),
            "even_if_changed": said.fingerprint.is_none(), "catalogue": judged.as_str()})
    });
    let lapsed = class.stale_override.map(
        |said| json!({"by": said.set_by, "at": said.set_at, "why": said.reason, "category": said.category.as_str()}),
    );
    let confidence = confidence.filter(|_| said.is_none());
    ToolRisk {
        tool,
        category,
        level: RiskLevel::of(category),
        confidence,
        evidence,
        category_override: said,
        lapsed_override: lapsed,
    }
}

impl ToolRisk {
    /// As rows of a table.
    pub fn rows(&self) -> Vec<Vec<String>> {
        let sure = self.confidence.map(|sure| format!("{:.0} %", sure * 100.0)).unwrap_or_default();
        let text = |said: &Value, member: &str| {
            escape_for_terminal(said.get(member).and_then(Value::as_str).unwrap_or_default())
        };
        let mut because = match &self.category_override {
            Some(said) => format!("{} says so: {}", text(said, "by"), text(said, "why")),
            None => self.evidence.join("; "),
        };
        if let Some(lapsed) = &self.lapsed_override {
            let (by, category) = (text(lapsed, "by"), text(lapsed, "category"));
            because.push_str(&format!("; {by} said {category} of an earlier definition, which does not count here"));
        }
        let (level, category) = (self.level.as_str().to_owned(), category_name(self.category).to_owned());
        vec![vec![level, category, sure, escape_for_terminal(&self.tool), because]]
    }
}

fn serialize_category<S: Serializer>(category: &Category, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(category.as_str())
}

#[cfg(test)]
mod tests {
    use gatelodge_store::{CategoryOverride, PinnedDefinition, ServerName, ServerTools, ToolDefinition};

    use super::*;

    fn known(text: &str, said_of: Option<&str>) -> Vec<ToolRisk> {
        let definition = |name: &str, text: &str| PinnedDefinition {
            definition: ToolDefinition { name: name.to_owned(), fingerprint: "f".to_owned(), text: text.to_owned() },
            accepted_at: jiff::Timestamp::UNIX_EPOCH,
            accepted_by: "ada".to_owned(),
        };
        let accepted = vec![definition("get_x", r#"{"name": "get_x"}"#), definition("odd", text)];
        let said = said_of.map(|said_of| CategoryOverride {
            tool: "odd".to_owned(),
            category: Category::Read,
            reason: "I know it".to_owned(),
            fingerprint: Some(said_of.to_owned()),
            set_at: jiff::Timestamp::UNIX_EPOCH,
            set_by: "ada".to_owned(),
        });
        let known =
            ServerTools { pinned: accepted, offered: Vec::new(), category_overrides: said.into_iter().collect() };
        tool_risks(&"desk".parse::<ServerName>().expect("a name"), &known)
    }

    #[test]
    fn a_definition_that_cannot_be_read_is_listed_as_unknown_with_the_reason() {
        for (text, why) in [("no JSON", "cannot be read"), ("[1]", "a tool is an object"), ("{}", "has no `name`")] {
            let risks = known(text, None);
            assert_eq!((risks.len(), risks[0].tool.as_str(), risks[0].category), (2, "odd", Category::Unknown));
            assert!(risks[0].confidence.is_none() && risks[0].rows()[0][4].contains(why), "{:?}", risks[0].rows());
        }
    }

    #[test]
    fn what_somebody_says_counts_also_there_and_only_for_the_definition_it_was_said_of() {
        let said = known("no JSON", Some("f"));
        assert_eq!((said[1].tool.as_str(), said[1].category), ("odd", Category::Read));
        let lapsed = known("no JSON", Some("an earlier one"));
        assert_eq!(lapsed[0].category, Category::Unknown);
        assert!(lapsed[0].rows()[0][4].contains("ada said read of an earlier definition"), "{:?}", lapsed[0].rows());
    }
}
