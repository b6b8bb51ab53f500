//! What a server offers now, against what was accepted of it.

mod difference;
mod reach;
mod words;

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use gatelodge_gateway::{ToolCategorization, categorize_accepted_tools, categorize_tools, confusable_names};
use gatelodge_policy::Category;
use gatelodge_store::{CategoryOverride, ServerName, ServerTools, ToolDefinition};
use jiff::Timestamp;
use serde::{Serialize, Serializer};

use crate::admin_context::AdminContext;
use difference::difference;
pub use reach::Reach;
use reach::{Doors, doors, reached_by};
pub use words::{headline, lapse, told};

/// One tool that is not as it was accepted.
#[derive(Debug, Serialize)]
pub struct Drift {
    pub tool: String,
    pub what: What,
    /// What it could do if it were accepted as it is, beside all that is offered; none if it is gone.
    #[serde(serialize_with = "as_word")]
    pub category: Option<Category>,
    /// What it counts as by the accepted definition; none if there is none.
    #[serde(serialize_with = "as_word")]
    pub category_before: Option<Category>,
    /// What somebody said of the accepted definition, and what does not hold for this one.
    pub lapses: Option<Said>,
    /// The fingerprint of what is offered.
    pub fingerprint: Option<String>,
    /// Why it cannot be accepted.
    pub refused: Option<String>,
    /// The grants that could call it, and by which rule.
    pub reached_by: Vec<Reach>,
    /// Line by line, what changed.
    pub difference: String,
}

/// How a tool differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// It was never accepted.
    New,
    /// Its definition is another one.
    Changed,
    /// It was accepted, and is not offered any more.
    Gone,
}

/// What somebody said that a tool can do.
#[derive(Debug, Serialize)]
pub struct Said {
    #[serde(serialize_with = "as_word")]
    pub category: Option<Category>,
    pub by: String,
    pub at: Timestamp,
    pub why: String,
}

fn as_word<S: Serializer>(category: &Option<Category>, to: S) -> Result<S::Ok, S::Error> {
    category.map(Category::as_str).serialize(to)
}

/// Both sides of the comparison.
struct Sides<'k> {
    accepted: BTreeMap<&'k str, &'k ToolDefinition>,
    offered: BTreeSet<&'k str>,
    /// Names that no tool is accepted under.
    odd: BTreeSet<&'k str>,
    before: BTreeMap<String, ToolCategorization>,
    after: BTreeMap<String, ToolCategorization>,
    doors: Doors,
    desk: &'k AdminContext,
}

/// Everything that is not as it was accepted, by name.
pub async fn drifts(desk: &AdminContext, server: &ServerName, known: &ServerTools) -> Result<Vec<Drift>> {
    let accepted: BTreeMap<&str, &ToolDefinition> =
        known.pinned.iter().map(|pin| (pin.definition.name.as_str(), &pin.definition)).collect();
    let offered: BTreeSet<&str> = known.offered.iter().map(|tool| tool.name.as_str()).collect();
    let siblings = accepted.keys().chain(&offered).copied();
    let sides = Sides {
        odd: confusable_names(offered.iter().copied()),
        before: categorize_accepted_tools(server, known),
        after: categorize_tools(server, siblings, &known.category_overrides, &known.offered),
        doors: doors(desk, server).await?,
        accepted,
        offered,
        desk,
    };
    let differ = known.offered.iter().filter_map(|tool| sides.differs(tool));
    let gone = sides.accepted.values().filter(|tool| !sides.offered.contains(tool.name.as_str()));
    Ok(differ.chain(gone.map(|tool| sides.gone(tool))).collect())
}

impl Sides<'_> {
    fn differs(&self, tool: &ToolDefinition) -> Option<Drift> {
        let (name, accepted) = (tool.name.as_str(), self.accepted.get(tool.name.as_str()));
        let what = match accepted {
            Some(accepted) if accepted.fingerprint == tool.fingerprint => return None,
            Some(_) => What::Changed,
            None => What::New,
        };
        let (before, after) = (self.before.get(name), self.after.get(name));
        let category = after.map_or(Category::Unknown, ToolCategorization::category);
        let held = before.is_some_and(|before| before.category_override.is_some());
        let is_odd = self.odd.contains(name);
        Some(Drift {
            tool: tool.name.clone(),
            what,
            category: Some(category),
            category_before: before.map(ToolCategorization::category),
            lapses: after.and_then(|after| after.stale_override.as_ref()).filter(|_| held).map(Said::from),
            fingerprint: Some(tool.fingerprint.clone()),
            refused: is_odd.then(|| "its name cannot be read, or looks like another tool's".to_owned()),
            reached_by: reached_by(&self.doors, name, category, self.desk),
            difference: difference(accepted.copied(), Some(tool)),
        })
    }

    fn gone(&self, tool: &ToolDefinition) -> Drift {
        let category = self.before.get(&tool.name).map_or(Category::Unknown, ToolCategorization::category);
        Drift {
            tool: tool.name.clone(),
            what: What::Gone,
            category: None,
            category_before: Some(category),
            lapses: None,
            fingerprint: None,
            refused: None,
            reached_by: reached_by(&self.doors, &tool.name, category, self.desk),
            difference: String::new(),
        }
    }
}

impl From<&CategoryOverride> for Said {
    fn from(said: &CategoryOverride) -> Self {
        let CategoryOverride { set_by: said_by, set_at: said_at, reason: why, .. } = said;
        Self { category: Some(said.category), by: said_by.clone(), at: *said_at, why: why.clone() }
    }
}
