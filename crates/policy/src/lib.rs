//! The policy language. [`parse`] compiles a document to a [`Policy`]; [`decide`] evaluates a call against it;
//! [`explain`], [`lint`] and [`CaseFile`] help with writing policies.
//!
//! All functions are pure: the same document, call and time give the same result. This crate does not use the clock,
//! files or the network. Counters are kept in the store; a decision only says what to charge.

mod ambiguous_uri;
mod call;
mod call_fact;
mod call_file;
mod call_path;
mod case_file;
mod charges;
mod compiled_policy;
mod condition;
mod condition_evaluation;
mod condition_result;
mod counter_identity;
mod decide;
mod decision;
mod diagnostic;
mod draft;
mod explain;
mod format;
mod glob;
mod host_in;
mod input_schema;
mod intercept_import;
mod limit;
mod lint;
mod method_names;
mod method_rules;
mod path_within;
mod policy_json_schema;
mod policy_parser;
mod scalar;
mod string_enum;
mod syntax_tree;
mod visibility;

pub use call::{Call, CallTarget, CalledTool, Category, ClientFacts, CompletionReference, DefinitionStatus};
pub use call_file::CallFile;
pub use case_file::{CaseFile, CaseInlinePolicy, CasePolicySource, CaseReport};
pub use compiled_policy::{ClientRequestKind, Policy};
pub use condition::Operator;
pub use condition_result::ConditionResult;
pub use counter_identity::CounterIdentity;
pub use decide::decide;
pub use decision::{AllowTerms, ApprovalRequirement, Decision, Reason, ReasonCode};
pub use diagnostic::{Diagnostic, DiagnosticCode, Severity};
pub use draft::{CallLogDraft, CallLogDraftBuilder, DraftBlock, DraftCoverageGap, DraftSection, ObservedCall};
pub use explain::{Explanation, explain};
pub use format::{FormattedPolicy, format};
pub use input_schema::{InputSchema, InputSchemaError};
pub use intercept_import::{ImportNote, ImportNoteKind, ImportedPolicy, import_intercept};
pub use limit::{Amount, Charge, LimitScope, LimitWindow, WindowAlignment};
pub use lint::{ToolList, lint};
pub use method_names::is_policy_exempt;
pub use policy_json_schema::policy_json_schema;
pub use policy_parser::parse;
pub use syntax_tree::DocumentFormat;
