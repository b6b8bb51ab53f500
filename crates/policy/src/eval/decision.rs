//! The result of [`decide`](crate::decide).

use std::sync::Arc;

use crate::compile::limit::Charge;
use crate::string_enum::string_enum;

/// A policy's decision on one call.
#[derive(Debug, Clone)]
pub enum Decision {
    /// The call may proceed under these terms.
    Allow(AllowTerms),
    /// The call is refused.
    Deny(Reason),
}

/// What must happen before an allowed call is forwarded.
#[derive(Debug, Clone, Default)]
pub struct AllowTerms {
    /// JSON Pointer of the block that applies. `None` for methods that are always allowed.
    pub rule: Option<Arc<str>>,
    /// Charges to reserve before the call is forwarded: either all of them or none. If several counters are exhausted,
    /// the first of them in this list is reported.
    pub charges: Vec<Charge>,
    /// The approval to obtain first, if one is needed.
    pub approval: Option<ApprovalRequirement>,
}

/// Why a call needs approval.
#[derive(Debug, Clone)]
pub struct ApprovalRequirement {
    /// JSON Pointer of the rule that requires approval.
    pub rule: Arc<str>,
    /// The policy's message for the approver.
    pub message: Option<Arc<str>>,
}

/// Why a call is refused.
#[derive(Debug, Clone)]
pub struct Reason {
    /// Code of the step that refused the call.
    pub code: ReasonCode,
    /// JSON Pointer of the rule. `None` if no rule of the policy was involved.
    pub rule: Option<Arc<str>>,
    /// Name of the counter, if the call was refused because it exceeds a limit or has no valid amount.
    pub counter: Option<Arc<str>>,
    /// Message for the agent: the policy's own text or, if it has none, a built-in one.
    pub message: Arc<str>,
}

string_enum! {
    /// Codes of the steps that can refuse a call.
    ReasonCode {
        /// The grant has no policy for this server.
        NoPolicy = "no_policy",
        /// The policy hides the tool, by name or by category.
        Hidden = "hidden",
        /// No rule matches, and `default` is `deny`.
        NotListed = "not_listed",
        /// The server does not list the tool.
        NotOffered = "not_offered",
        /// The rule block has `action: deny`.
        Denied = "denied",
        /// The tool has no pinned definition.
        NotAccepted = "not_accepted",
        /// The tool's definition differs from the pinned one.
        DefinitionChanged = "definition_changed",
        /// The arguments do not satisfy the input schema.
        InvalidArguments = "invalid_arguments",
        /// A `require` predicate does not hold.
        Require = "require",
        /// A `deny_if` predicate holds.
        DenyIf = "deny_if",
        /// A value has a type that the rule cannot compare.
        TypeMismatch = "type_mismatch",
        /// The amount to charge cannot be read from the arguments.
        Amount = "amount",
        /// The amount of this call alone exceeds a limit.
        Limit = "limit",
    }
}

impl Reason {
    pub(crate) fn new(code: ReasonCode, rule: Option<&Arc<str>>, message: impl Into<Arc<str>>) -> Self {
        Self { code, rule: rule.cloned(), counter: None, message: message.into() }
    }

    pub(crate) fn with_counter(mut self, counter: Arc<str>) -> Self {
        self.counter = Some(counter);
        self
    }

    /// Returns the reason for a grant that has no policy for the server.
    pub fn no_policy() -> Self {
        Self::new(ReasonCode::NoPolicy, None, "no policy is attached to this grant for this server")
    }
}
