//! What becomes of a call under a ready policy, and what should.

use gatelodge_catalogue::Strictness;
use gatelodge_json::{JsonLimits, read};
use gatelodge_policy::{
    Call, CallTarget, CalledTool, Category, ClientFacts, Decision, DefinitionStatus, LimitScope, LimitWindow, Policy,
    ReasonCode, decide,
};
use jiff::Timestamp;

/// What becomes of a call.
#[derive(Debug, PartialEq, Eq)]
pub enum Fate {
    Passes,
    /// So many times a minute, for each grant.
    Limited(String),
    Waits,
    Refused,
}

/// Judges a call of an accepted tool.
pub fn judge(policy: &Policy, tool: &str) -> Fate {
    of(
        policy,
        CallTarget::Tool(CalledTool {
            name: tool,
            category: Category::Unknown,
            definition: DefinitionStatus::Accepted,
            schema: None,
        }),
    )
}

/// Judges anything.
pub fn of(policy: &Policy, subject: CallTarget<'_>) -> Fate {
    let document = read(b"{}", &JsonLimits::REQUEST).expect("JSON");
    let call = Call {
        target: subject,
        arguments: Some(document.root()),
        server: None,
        client: ClientFacts::default(),
        session: None,
    };
    match decide(policy, &call, Timestamp::UNIX_EPOCH) {
        Decision::Deny(reason) => {
            assert!(
                matches!(reason.code, ReasonCode::Hidden | ReasonCode::NotListed | ReasonCode::Denied),
                "{reason:?}"
            );
            Fate::Refused
        }
        Decision::Allow(terms) if terms.approval.is_some() => Fate::Waits,
        Decision::Allow(terms) => match terms.charges.as_slice() {
            [] => Fate::Passes,
            [charge] => {
                assert_eq!((charge.window(), charge.scope()), (LimitWindow::Seconds(60), LimitScope::Grant));
                Fate::Limited(charge.max().to_string())
            }
            more => panic!("{more:?}"),
        },
    }
}

/// What a posture owes a category.
pub fn expected(posture: Strictness, category: Category) -> Fate {
    match (posture, category) {
        (_, Category::Read) => Fate::Passes,
        (Strictness::Strict, Category::Destructive | Category::Financial)
        | (Strictness::Recommended, Category::Destructive) => Fate::Refused,
        (Strictness::Strict, _) | (_, Category::Financial | Category::Destructive) => Fate::Waits,
        (Strictness::Recommended, Category::Unknown) => Fate::Waits,
        (Strictness::Recommended | Strictness::Permissive, Category::Write) => Fate::Limited("30".to_owned()),
        (Strictness::Recommended | Strictness::Permissive, _) => Fate::Limited("10".to_owned()),
    }
}
