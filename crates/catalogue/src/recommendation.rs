//! The rule recommended for each category, as a complete policy.

use gatelodge_policy::Category;
use serde_json::{Map, Value, json};

/// Maximum number of calls per minute to a tool that makes changes. This is more than a person would make.
const MAX_WRITES_PER_MINUTE: u32 = 30;
/// Maximum number of calls per minute to a tool that runs something.
const MAX_RUNS_PER_MINUTE: u32 = 10;

/// What a policy does with calls to a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecommendedAction {
    /// Allows all calls.
    Allow,
    /// Allows up to this many calls per minute.
    RateLimit(u32),
    /// Requires approval for each call.
    Approve,
    /// Hides the tool from clients.
    Hide,
}

impl RecommendedAction {
    /// Returns the recommended action for a category.
    pub fn of(category: Category) -> Self {
        match category {
            Category::Read => Self::Allow,
            Category::Write => Self::RateLimit(MAX_WRITES_PER_MINUTE),
            Category::Execute => Self::RateLimit(MAX_RUNS_PER_MINUTE),
            Category::Destructive => Self::Hide,
            Category::Financial | Category::Unknown => Self::Approve,
        }
    }

    /// Returns the action for a strict policy, in which only reads are allowed without approval.
    pub fn strict(category: Category) -> Self {
        match category {
            Category::Read => Self::Allow,
            Category::Write | Category::Execute | Category::Unknown => Self::Approve,
            Category::Destructive | Category::Financial => Self::Hide,
        }
    }

    /// Returns the action for a permissive policy, in which only irreversible actions require approval and the rate of
    /// all others except reads is limited.
    pub fn permissive(category: Category) -> Self {
        match category {
            Category::Unknown => Self::RateLimit(MAX_RUNS_PER_MINUTE),
            // Money cannot be recovered any more than deleted data.
            Category::Destructive | Category::Financial => Self::Approve,
            category => Self::of(category),
        }
    }

    /// Returns the action's rank in the order from least to most restrictive.
    pub(crate) fn strictness_rank(self) -> u8 {
        match self {
            Self::Allow => 0,
            Self::RateLimit(_) => 1,
            Self::Approve => 2,
            Self::Hide => 3,
        }
    }

    /// Returns the rule block for a tool, or `None` if the tool is hidden.
    pub(crate) fn rule_block(self, tool: &str, category: Category) -> Option<Value> {
        match self {
            Self::Allow => Some(json!({})),
            Self::RateLimit(max) => {
                let limit =
                    json!({"counter": format!("{tool}_rate"), "window": "minute", "max": max, "scope": "grant"});
                Some(json!({ "limits": [limit] }))
            }
            Self::Approve => Some(json!({"action": "approve", "reason": approval_reason(category)})),
            Self::Hide => None,
        }
    }
}

fn approval_reason(category: Category) -> &'static str {
    match category {
        Category::Financial => "It commits money: a person reviews each call.",
        Category::Destructive => "What it removes cannot be restored: a person reviews each call.",
        Category::Execute => "It runs what it is given: a person reviews each call.",
        Category::Unknown => "Its effect is unknown: a person reviews each call.",
        Category::Read | Category::Write => "A person reviews each call.",
    }
}

/// Returns whether a policy can refer to the tool by its name. A `*` in the name would act as a wildcard.
pub(crate) fn can_be_named(tool: &str) -> bool {
    !tool.is_empty() && !tool.contains('*')
}

/// Returns the recommended policy for one tool. Everything else on the server is denied.
///
/// # Examples
/// ```
/// use gatelodge_catalogue::recommended_policy;
/// use gatelodge_policy::Category;
///
/// let policy = recommended_policy("drop_table", Category::Destructive);
/// assert_eq!(policy["hide"][0], "drop_table");
/// ```
pub fn recommended_policy(tool: &str, category: Category) -> Value {
    let mut policy = Map::new();
    policy.insert("version".to_owned(), "1".into());
    policy.insert("default".to_owned(), "deny".into());
    if can_be_named(tool) {
        match RecommendedAction::of(category).rule_block(tool, category) {
            Some(block) => drop(policy.insert("tools".to_owned(), json!({ tool: block }))),
            None => drop(policy.insert("hide".to_owned(), json!([tool]))),
        }
    }
    Value::Object(policy)
}

/// Describes the effect of the recommended rule.
pub fn recommendation_effect(category: Category) -> &'static str {
    match RecommendedAction::of(category) {
        RecommendedAction::Allow => "Calls are not limited.",
        RecommendedAction::RateLimit(MAX_WRITES_PER_MINUTE) => {
            "At most 30 calls a minute are allowed, so that a loop cannot make hundreds of changes."
        }
        RecommendedAction::RateLimit(_) => {
            "At most 10 calls a minute are allowed; add `validate_arguments` to check the arguments against its schema."
        }
        RecommendedAction::Approve => "A person must approve each call.",
        RecommendedAction::Hide => "It is not listed, and a call to it is refused as if it did not exist.",
    }
}
