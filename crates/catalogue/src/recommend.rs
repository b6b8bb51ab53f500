//! The rule that fits a category, as a whole policy that can be used as it stands.

use gatelodge_policy::Category;
use serde_json::{Map, Value, json};

/// Calls a minute of a tool that changes something: a person at work makes fewer.
const WRITES_A_MINUTE: u32 = 30;
/// Calls a minute of a tool that runs something.
const RUNS_A_MINUTE: u32 = 10;

/// What a policy does about a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remedy {
    /// It may be called.
    Allow,
    /// It may be called so many times a minute.
    Limit(u32),
    /// Each call waits for a person.
    Approve,
    /// It is not there.
    Hide,
}

impl Remedy {
    /// What is recommended for a category.
    pub fn of(category: Category) -> Self {
        match category {
            Category::Read => Self::Allow,
            Category::Write => Self::Limit(WRITES_A_MINUTE),
            Category::Execute => Self::Limit(RUNS_A_MINUTE),
            Category::Destructive => Self::Hide,
            Category::Financial | Category::Unknown => Self::Approve,
        }
    }

    /// Where only reads pass by themselves.
    pub fn strict(category: Category) -> Self {
        match category {
            Category::Read => Self::Allow,
            Category::Write | Category::Execute | Category::Unknown => Self::Approve,
            Category::Destructive | Category::Financial => Self::Hide,
        }
    }

    /// Where all but the worst passes, bounded.
    pub fn permissive(category: Category) -> Self {
        match category {
            Category::Unknown => Self::Limit(RUNS_A_MINUTE),
            // Money is as gone as what was deleted.
            Category::Destructive | Category::Financial => Self::Approve,
            category => Self::of(category),
        }
    }

    /// How much it keeps from happening, to compare.
    pub(crate) fn binds(self) -> u8 {
        match self {
            Self::Allow => 0,
            Self::Limit(_) => 1,
            Self::Approve => 2,
            Self::Hide => 3,
        }
    }

    /// The rule block of a tool; none where it is hidden.
    pub(crate) fn block(self, tool: &str, category: Category) -> Option<Value> {
        match self {
            Self::Allow => Some(json!({})),
            Self::Limit(max) => {
                let limit =
                    json!({"counter": format!("{tool}_rate"), "window": "minute", "max": max, "scope": "grant"});
                Some(json!({ "limits": [limit] }))
            }
            Self::Approve => Some(json!({"action": "approve", "reason": reason(category)})),
            Self::Hide => None,
        }
    }
}

fn reason(category: Category) -> &'static str {
    match category {
        Category::Financial => "It commits money: a person looks at each call.",
        Category::Destructive => "What it removes is gone for good: a person looks at each call.",
        Category::Execute => "It runs what it is given: a person looks at each call.",
        Category::Unknown => "Nobody knows what it does: a person looks at each call.",
        Category::Read | Category::Write => "A person looks at each call.",
    }
}

/// Whether a policy can speak of a tool by its name alone: a `*` would stand for any text.
pub(crate) fn can_be_named(tool: &str) -> bool {
    !tool.is_empty() && !tool.contains('*')
}

/// The policy that is recommended for one tool. All else on the server is refused.
pub fn recommended(tool: &str, category: Category) -> Value {
    let mut policy = Map::new();
    policy.insert("version".to_owned(), "1".into());
    policy.insert("default".to_owned(), "deny".into());
    if can_be_named(tool) {
        match Remedy::of(category).block(tool, category) {
            Some(block) => drop(policy.insert("tools".to_owned(), json!({ tool: block }))),
            None => drop(policy.insert("hide".to_owned(), json!([tool]))),
        }
    }
    Value::Object(policy)
}

/// What the recommended rule does, in a sentence.
pub fn effect(category: Category) -> &'static str {
    match Remedy::of(category) {
        Remedy::Allow => "It can be called freely.",
        Remedy::Limit(WRITES_A_MINUTE) => {
            "It can be called, at most 30 times a minute: a loop cannot change things by the hundred."
        }
        Remedy::Limit(_) => {
            "It can be called, at most 10 times a minute; `validate_arguments` can be added to hold calls to its schema."
        }
        Remedy::Approve => "Each call waits until a person has agreed.",
        Remedy::Hide => "It is not listed, and not there when it is called.",
    }
}
