//! The policy language. [`parse`] compiles a document to a [`Policy`]; [`decide`] evaluates a call against it;
//! [`explain`], [`lint`] and [`CaseFile`] help with writing policies.
//!
//! All functions are pure: the same document, call and time give the same result. This crate does not use the clock,
//! files or the network. Counters are kept in the store; a decision only says what to charge.
//!
//! The modules are layers. Each may use those before it, and none after it:
//!
//! 1. `string_enum`: a macro for enums whose variants have names in documents; `duration_text`: durations in messages.
//! 2. `syntax`: documents as text, and diagnostics about them.
//! 3. `call`: the call that is evaluated, paths into it, and input schemas.
//! 4. `operators`: the operators of conditions; each is compiled, evaluated and described in its own file.
//! 5. `compile`: from a syntax tree to a [`Policy`].
//! 6. `eval`: decisions and explanations.
//! 7. `lint`: warnings about policies that load.
//! 8. `tools`: case files, drafts, formatting, the import of other formats, and the JSON Schema.

mod call;
mod compile;
mod duration_text;
mod eval;
mod lint;
mod operators;
mod string_enum;
mod syntax;
mod tools;

pub use call::input_schema::{InputSchema, InputSchemaError};
pub use call::{Call, CallTarget, CalledTool, Category, ClientFacts, CompletionReference, DefinitionStatus};
pub use compile::compiled_policy::{ClientRequestKind, Policy};
pub use compile::counter_identity::CounterIdentity;
pub use compile::limit::{Amount, Charge, LimitScope, LimitWindow, WindowAlignment};
pub use compile::method_names::is_policy_exempt;
pub use compile::policy_parser::parse;
pub use duration_text::{format_duration, format_seconds};
pub use eval::decide::decide;
pub use eval::decision::{AllowTerms, ApprovalRequirement, Decision, Reason, ReasonCode};
pub use eval::explain::{Explanation, explain};
pub use lint::{ToolList, lint};
pub use operators::Operator;
pub use operators::condition_result::ConditionResult;
pub use syntax::diagnostic::{Diagnostic, DiagnosticCode, Severity};
pub use syntax::syntax_tree::DocumentFormat;
pub use tools::call_file::CallFile;
pub use tools::case_file::{CaseFile, CaseInlinePolicy, CasePolicySource, CaseReport};
pub use tools::draft::{CallLogDraft, CallLogDraftBuilder, DraftBlock, DraftCoverageGap, DraftSection, ObservedCall};
pub use tools::format::{FormattedPolicy, format};
pub use tools::intercept_import::{ImportNote, ImportNoteKind, ImportedPolicy, import_intercept};
pub use tools::policy_json_schema::policy_json_schema;
