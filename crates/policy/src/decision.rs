//! What `decide` answers.

use std::sync::Arc;

use crate::limit::{Charge, string_enum};

/// The answer of a policy to one call.
#[derive(Debug, Clone)]
pub enum Decision {
    /// It may go on, on these terms.
    Allow(Terms),
    /// It may not.
    Deny(Reason),
}

/// What an allowed call is bound to.
#[derive(Debug, Clone, Default)]
pub struct Terms {
    /// The block used, as a JSON Pointer; none for methods that are always allowed.
    pub rule: Option<Arc<str>>,
    /// What to take from counters: all, or the call is refused. In the order in which a full one is named.
    pub charges: Vec<Charge>,
    /// What to ask a person first.
    pub approval: Option<ApprovalRequirement>,
}

/// Why a person has to agree.
#[derive(Debug, Clone)]
pub struct ApprovalRequirement {
    /// The rule that asks.
    pub rule: Arc<str>,
    /// What the policy says to the approver.
    pub message: Option<Arc<str>>,
}

/// Why a call is refused.
#[derive(Debug, Clone)]
pub struct Reason {
    /// Which step refused.
    pub code: Code,
    /// The rule, as a JSON Pointer; none where there is none.
    pub rule: Option<Arc<str>>,
    /// The counter, for limits and amounts.
    pub counter: Option<Arc<str>>,
    /// What the policy says to the agent, else what the engine says.
    pub message: Arc<str>,
}

string_enum! {
    /// The steps that can refuse a call, by their codes.
    Code {
        /// No policy for this server on the grant.
        NoPolicy = "no_policy",
        /// Hidden by `hide` or by its category.
        Hidden = "hidden",
        /// Nothing speaks of it, and `default` is `deny`.
        NotListed = "not_listed",
        /// The server does not offer it.
        NotOffered = "not_offered",
        /// `action: deny`.
        Denied = "denied",
        /// A tool whose definition nobody has accepted.
        NotAccepted = "not_accepted",
        /// A tool whose definition is no longer the accepted one.
        DefinitionChanged = "definition_changed",
        /// The arguments do not satisfy the input schema.
        InvalidArguments = "invalid_arguments",
        /// A `require` does not hold.
        Require = "require",
        /// A `deny_if` holds.
        DenyIf = "deny_if",
        /// A value cannot be compared.
        TypeMismatch = "type_mismatch",
        /// The amount of a limit cannot be taken from the arguments.
        Amount = "amount",
        /// More than a limit allows.
        Limit = "limit",
    }
}

impl Reason {
    pub(crate) fn new(code: Code, rule: Option<&Arc<str>>, message: impl Into<Arc<str>>) -> Self {
        Self { code, rule: rule.cloned(), counter: None, message: message.into() }
    }

    pub(crate) fn with_counter(mut self, counter: Arc<str>) -> Self {
        self.counter = Some(counter);
        self
    }

    /// The reason for a grant that has no policy for the server.
    pub fn no_policy() -> Self {
        Self::new(Code::NoPolicy, None, "no policy is attached to this grant for this server")
    }
}
