//! `[[policies]]`: policies in separate files. Each is checked as by `policy check`, and its diagnostics refer to its
//! own file.

use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gatelodge_gateway::ActivePolicy;
use gatelodge_policy::{Severity, lint};
use gatelodge_store::PolicyName;

use super::config_diagnostic::{ConfigDiagnostic, ConfigDiagnosticCode};
use super::config_sections::RawPolicy;
use super::toml_reader::{ConfigReader, SpannedValue};
use crate::count_noun::count_noun;
use crate::input_file::{self, FileStamp, InputFileText};
use crate::policy_cache::{CheckedPolicy, PolicyCache};

/// Parts of messages about policy names: singular, plural, and a hint about what the name is used for.
const POLICY_NAME_MESSAGES: (&str, &str, &str) = ("policy", "policies", "grants refer to it");

/// Policies, and the diagnostics for their files.
#[derive(Debug, Default)]
pub struct PoliciesSection {
    /// Valid policies by name.
    pub valid: HashMap<String, Arc<ActivePolicy>>,
    /// All policy names with their locations, including the names of invalid policies.
    pub name_spans: HashMap<String, Range<usize>>,
    /// Policy documents that have diagnostics.
    pub diagnostics: Vec<(InputFileText, Vec<gatelodge_policy::Diagnostic>)>,
    /// Files that were read.
    pub files: Vec<FileStamp>,
}

/// Validates the `[[policies]]` sections. Policies whose text is in `cache` are not compiled again.
pub fn read_policies(
    raw: Vec<RawPolicy>,
    base_directory: &Path,
    cache: &mut PolicyCache,
    reader: &mut ConfigReader,
) -> PoliciesSection {
    let mut policies = PoliciesSection::default();
    for raw in raw {
        let name = reader.read_unique_name::<PolicyName>(
            raw.name.as_ref(),
            &raw.span,
            POLICY_NAME_MESSAGES,
            &mut policies.name_spans,
        );
        let Some(SpannedValue { value: file, span }) = raw.file else {
            let diagnostic =
                ConfigDiagnostic::new(ConfigDiagnosticCode::MissingField, &raw.span, "a policy needs a `file`");
            reader.report(diagnostic.with_help("add `file = \"policy.json\"`"));
            continue;
        };
        let document = PolicyDocument { path: base_directory.join(file), name, span };
        if let Some(policy) = read_document(&document, cache, &mut policies, reader) {
            policies.valid.insert(policy.name.to_string(), policy);
        }
    }
    cache.remove_unused();
    policies
}

/// A policy file that the configuration refers to.
struct PolicyDocument {
    path: PathBuf,
    /// Name of the policy, or `None` if it is missing or invalid.
    name: Option<PolicyName>,
    /// Location of the path in the configuration file.
    span: Range<usize>,
}

fn read_document(
    document: &PolicyDocument,
    cache: &mut PolicyCache,
    policies: &mut PoliciesSection,
    reader: &mut ConfigReader,
) -> Option<Arc<ActivePolicy>> {
    let PolicyDocument { path, name, span } = document;
    policies.files.push(FileStamp::of(path));
    let source = match input_file::read_source(path) {
        Ok(source) => source,
        Err(error) => {
            let diagnostic = ConfigDiagnostic::new(ConfigDiagnosticCode::UnreadableFile, span, format!("{error}"));
            reader.report(
                diagnostic.with_help("relative paths are resolved against the directory of the configuration file"),
            );
            return None;
        }
    };
    let format = source.policy_format(None);
    let CheckedPolicy { policy, diagnostics: found } = match name {
        Some(name) => cache.compile_file(name, &source.text, format),
        None => CheckedPolicy { policy: None, diagnostics: lint(&source.text, format, None) },
    };
    let errors = found.iter().filter(|diagnostic| diagnostic.severity == Severity::Error).count();
    if errors > 0 || (name.is_some() && policy.is_none()) {
        let message = format!("the policy has {}", count_noun(errors, "error"));
        reader.report(
            ConfigDiagnostic::new(ConfigDiagnosticCode::BadPolicy, span, message)
                .with_help("they are listed with the policy file"),
        );
    }
    if !found.is_empty() {
        policies.diagnostics.push((source, found));
    }
    policy
}
