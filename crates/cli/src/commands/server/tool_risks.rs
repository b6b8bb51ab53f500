//! Determines the category and risk level of each accepted tool of a server, and lists the riskiest tools first.

use gatelodge_catalogue::{RiskLevel, category_name};
use gatelodge_gateway::{ToolCategorization, categorize_accepted_tools};
use gatelodge_policy::Category;
use gatelodge_store::{ServerName, ServerTools};
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use crate::diagnostic_report::escape_for_terminal;

/// Category and risk level of one tool, with the evidence.
#[derive(Debug, Serialize)]
pub struct ToolRisk {
    pub tool: String,
    #[serde(serialize_with = "serialize_category")]
    pub category: Category,
    pub level: RiskLevel,
    /// The catalogue's confidence in the category; `None` if the category is overridden or the definition cannot be
    /// parsed.
    pub confidence: Option<f64>,
    /// Evidence on which the category is based.
    pub evidence: Vec<String>,
    /// The category override, if any: who set it, when and why.
    #[serde(rename = "said")]
    pub category_override: Option<Value>,
    /// Category override that was set for an earlier definition and no longer applies.
    #[serde(rename = "lapsed")]
    pub lapsed_override: Option<Value>,
}

/// Returns the risks of a server's accepted tools, sorted by risk level and name.
pub fn tool_risks(server: &ServerName, known: &ServerTools) -> Vec<ToolRisk> {
    let mut risks: Vec<ToolRisk> = categorize_accepted_tools(server, known)
        .into_iter()
        .map(|(tool, categorization)| tool_risk(tool, categorization))
        .collect();
    risks.sort_by(|one, other| other.level.cmp(&one.level).then_with(|| one.tool.cmp(&other.tool)));
    risks
}

fn tool_risk(tool: String, categorization: ToolCategorization) -> ToolRisk {
    let category = categorization.category();
    let (classification, confidence, evidence) = match categorization.classification {
        Ok(classification) => (classification.category, Some(classification.confidence), classification.evidence),
        Err(why) => {
            (Category::Unknown, None, vec![format!("its definition cannot be read: {}", escape_for_terminal(&why))])
        }
    };
    let category_override = categorization.category_override.map(|value| {
        json!({"by": value.set_by, "at": value.set_at, "why": value.reason, "category": value.category.as_str(),
            "even_if_changed": value.fingerprint.is_none(), "catalogue": classification.as_str()})
    });
    let lapsed = categorization.stale_override.map(
        |value| json!({"by": value.set_by, "at": value.set_at, "why": value.reason, "category": value.category.as_str()}),
    );
    let confidence = confidence.filter(|_| category_override.is_none());
    ToolRisk {
        tool,
        category,
        level: RiskLevel::of(category),
        confidence,
        evidence,
        category_override,
        lapsed_override: lapsed,
    }
}

impl ToolRisk {
    /// Formats the tool and its risk as table rows.
    pub fn rows(&self) -> Vec<Vec<String>> {
        let confidence = self.confidence.map(|confidence| format!("{confidence:.2}")).unwrap_or_default();
        let text = |value: &Value, member: &str| {
            escape_for_terminal(value.get(member).and_then(Value::as_str).unwrap_or_default())
        };
        let mut because = match &self.category_override {
            Some(value) => format!("set by {}: {}", text(value, "by"), text(value, "why")),
            None => self.evidence.join("; "),
        };
        if let Some(lapsed) = &self.lapsed_override {
            let (by, category) = (text(lapsed, "by"), text(lapsed, "category"));
            because.push_str(&format!(
                "; {by} set the category {category} for an earlier definition, which does not apply here"
            ));
        }
        let (level, category) = (self.level.as_str().to_owned(), category_name(self.category).to_owned());
        vec![vec![level, category, confidence, escape_for_terminal(&self.tool), because]]
    }
}

fn serialize_category<S: Serializer>(category: &Category, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(category.as_str())
}

#[cfg(test)]
mod tests {
    use gatelodge_store::{CategoryOverride, PinnedDefinition, ServerName, ServerTools, ToolDefinition};

    use super::*;

    fn risks_of(text: &str, override_fingerprint: Option<&str>) -> Vec<ToolRisk> {
        let definition = |name: &str, text: &str| PinnedDefinition {
            definition: ToolDefinition { name: name.to_owned(), fingerprint: "f".to_owned(), text: text.to_owned() },
            accepted_at: jiff::Timestamp::UNIX_EPOCH,
            accepted_by: "ada".to_owned(),
        };
        let accepted = vec![definition("get_x", r#"{"name": "get_x"}"#), definition("odd", text)];
        let category_override = override_fingerprint.map(|fingerprint| CategoryOverride {
            tool: "odd".to_owned(),
            category: Category::Read,
            reason: "I know it".to_owned(),
            fingerprint: Some(fingerprint.to_owned()),
            set_at: jiff::Timestamp::UNIX_EPOCH,
            set_by: "ada".to_owned(),
        });
        let known = ServerTools {
            pinned: accepted,
            offered: Vec::new(),
            category_overrides: category_override.into_iter().collect(),
        };
        tool_risks(&"books".parse::<ServerName>().expect("a name"), &known)
    }

    #[test]
    fn unreadable_definition_is_listed_as_unknown_with_the_reason() {
        for (text, why) in [("no JSON", "cannot be read"), ("[1]", "a tool is an object"), ("{}", "has no `name`")] {
            let risks = risks_of(text, None);
            assert_eq!((risks.len(), risks[0].tool.as_str(), risks[0].category), (2, "odd", Category::Unknown));
            assert!(risks[0].confidence.is_none() && risks[0].rows()[0][4].contains(why), "{:?}", risks[0].rows());
        }
    }

    #[test]
    fn override_applies_to_an_unreadable_definition_and_only_to_its_own() {
        let overridden = risks_of("no JSON", Some("f"));
        assert_eq!((overridden[1].tool.as_str(), overridden[1].category), ("odd", Category::Read));
        let lapsed = risks_of("no JSON", Some("an earlier one"));
        assert_eq!(lapsed[0].category, Category::Unknown);
        assert!(
            lapsed[0].rows()[0][4].contains("ada set the category read for an earlier definition"),
            "{:?}",
            lapsed[0].rows()
        );
    }
}
