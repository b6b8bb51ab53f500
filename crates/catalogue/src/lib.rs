//! The catalogue: classifies tools by risk, with a confidence and a rationale, reads the package index, and recommends
//! policies.
//!
//! All functions are pure: the same definition always gives the same result. No language model is called, and nothing
//! is fetched. Words, weights and attack patterns come from data files in `data/`.

mod archive;
mod attack_pattern;
mod categorize;
mod classification_rationale;
mod classifier_data;
mod classifier_model;
mod classify;
mod classify_index_facts;
mod confidence_calibration;
mod data_file_names;
mod data_flow_label;
mod derive_package_facts;
mod description_text;
mod display_escape;
mod extracted_tool;
mod homoglyphs;
mod incident;
mod lexicon;
mod package_index;
mod package_reference;
mod precheck;
mod recommendation;
mod risk_signals;
mod server_context;
mod server_grade;
mod server_stack;
mod starter_policy;
mod static_site;
mod tool_features;
mod tool_name_words;
mod tool_parameters;
mod tool_reader;
mod tool_spec;
pub mod training_interface;
mod weights_file;

pub use archive::{
    ArchiveFormat, ArchiveLimits, ArchiveSkipReason, ExtractDecision, SourceFile, UnpackedArchive, unpack,
};
pub use attack_pattern::{AttackPattern, attack_patterns};
pub use classify::{Classification, RiskLevel, category_name, classify, qualified_category_name};
pub use data_file_names::{CHANGES_FILE, INDEX_FILE, index_hash, pending_changes_file};
pub use data_flow_label::DataFlowLabel;
pub use derive_package_facts::{PackageRelease, derive_facts};
pub use display_escape::escape_for_display;
pub use extracted_tool::ExtractedTool;
pub use incident::{AffectedPackage, Incident, IncidentMatch, incidents};
pub use package_index::{
    IndexMetadata, IndexQuery, IndexedServer, IndexedTool, IndexedToolParameter, OpenIndexError, PackageFacts,
    PackageIndex, PackageRegistry, SearchResults, ServerCatalogueEntry, ServerChanges, ToolChange, ToolChangeKind,
    ToolFacts, ToolHints, index_changes, index_file_format as index_format, normalized_name,
};
pub use package_reference::{PackageReference, VersionComparison};
pub use precheck::{ConnectionAdvice, PrecheckVerdict, precheck, precheck_indexed};
pub use recommendation::{RecommendedAction, recommendation_effect, recommended_policy};
pub use risk_signals::{RiskSignal, RiskSignalKind};
pub use server_context::ServerContext;
pub use server_grade::{ServerGrade, grade_server};
pub use server_stack::{ServerStackMember, ServerStackSummary, leaking_combinations, summarize_stack};
pub use starter_policy::{StarterPolicyError, StarterPolicyStrictness, policy_scaffold, starter_policy};
pub use static_site::{SiteFile, StaticSite, escaped_html_code};
pub use tool_reader::{ReadToolError, ToolListEntry, read_tools};
pub use tool_spec::{ToolAnnotations, ToolSpec};
