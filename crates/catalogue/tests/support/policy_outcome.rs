//! Outcome of a call under a recommended policy, actual and expected.

use gatelodge_catalogue::StarterPolicyStrictness;
use gatelodge_json::{JsonLimits, read};
use gatelodge_policy::{
    Call, CallTarget, CalledTool, Category, ClientFacts, Decision, DefinitionStatus, LimitScope, LimitWindow, Policy,
    ReasonCode, decide,
};
use jiff::Timestamp;

/// Outcome of a call.
#[derive(Debug, PartialEq, Eq)]
pub enum PolicyOutcome {
    Allowed,
    /// Allowed this many times a minute for each grant.
    RateLimited(String),
    NeedsApproval,
    Refused,
}

/// Decides a call of a tool with a pinned definition.
pub fn decide_tool(policy: &Policy, tool: &str) -> PolicyOutcome {
    decide_target(
        policy,
        CallTarget::Tool(CalledTool {
            name: tool,
            category: Category::Unknown,
            definition: DefinitionStatus::Accepted,
            schema: None,
        }),
    )
}

/// Decides a call of any target.
pub fn decide_target(policy: &Policy, subject: CallTarget<'_>) -> PolicyOutcome {
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
            PolicyOutcome::Refused
        }
        Decision::Allow(terms) if terms.approval.is_some() => PolicyOutcome::NeedsApproval,
        Decision::Allow(terms) => match terms.charges.as_slice() {
            [] => PolicyOutcome::Allowed,
            [charge] => {
                assert_eq!((charge.window(), charge.scope()), (LimitWindow::Seconds(60), LimitScope::Grant));
                PolicyOutcome::RateLimited(charge.max().to_string())
            }
            more => panic!("{more:?}"),
        },
    }
}

/// Returns the outcome that a degree of strictness prescribes for a category.
pub fn expected_outcome(strictness: StarterPolicyStrictness, category: Category) -> PolicyOutcome {
    match (strictness, category) {
        (_, Category::Read) => PolicyOutcome::Allowed,
        (StarterPolicyStrictness::Strict, Category::Destructive | Category::Financial)
        | (StarterPolicyStrictness::Recommended, Category::Destructive) => PolicyOutcome::Refused,
        (StarterPolicyStrictness::Strict, _) | (_, Category::Financial | Category::Destructive) => {
            PolicyOutcome::NeedsApproval
        }
        (StarterPolicyStrictness::Recommended, Category::Unknown) => PolicyOutcome::NeedsApproval,
        (StarterPolicyStrictness::Recommended | StarterPolicyStrictness::Permissive, Category::Write) => {
            PolicyOutcome::RateLimited("30".to_owned())
        }
        (StarterPolicyStrictness::Recommended | StarterPolicyStrictness::Permissive, _) => {
            PolicyOutcome::RateLimited("10".to_owned())
        }
    }
}
