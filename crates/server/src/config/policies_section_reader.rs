//! `[[policies]]`: policies in separate files. Each is checked as by `policy check`, and its diagnostics refer to its
//! own file.

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use gatelodge_gateway::ActivePolicy;
use gatelodge_policy::{Severity, lint, parse};
use gatelodge_store::{PolicyName, PolicyVersionNumber};

use super::config_diagnostic::{ConfigDiagnostic, ConfigDiagnosticCode};
use super::config_reader::{ConfigReader, SpannedValue};
use super::config_sections::RawPolicy;
use crate::count_noun::count_noun;
use crate::input_file::{self, FileStamp, InputFileText};

/// Version number that the log shows for policies from the configuration file, which are not versioned.
pub const FILE_POLICY_VERSION: PolicyVersionNumber = PolicyVersionNumber(0);

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

/// Validates the `[[policies]]` sections.
pub fn read_policies(raw: Vec<RawPolicy>, base_directory: &Path, reader: &mut ConfigReader) -> PoliciesSection {
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
        if let (Some(policy), Some(name)) =
            (read_document(&base_directory.join(file), &span, &mut policies, reader), name)
        {
            let active = ActivePolicy { name: name.clone(), version: FILE_POLICY_VERSION, policy };
            policies.valid.insert(name.to_string(), Arc::new(active));
        }
    }
    policies
}

fn read_document(
    path: &Path,
    span: &Range<usize>,
    policies: &mut PoliciesSection,
    reader: &mut ConfigReader,
) -> Option<gatelodge_policy::Policy> {
    policies.files.push(FileStamp::of(path));
    let source = match input_file::read_source(path) {
        Ok(source) => source,
        Err(error) => {
            let diagnostic = ConfigDiagnostic::new(ConfigDiagnosticCode::UnreadableFile, span, format!("{error}"));
            reader.report(diagnostic.with_help("relative paths start at the directory of the configuration file"));
            return None;
        }
    };
    let format = source.policy_format(None);
    let found = lint(&source.text, format, None);
    let errors = found.iter().filter(|diagnostic| diagnostic.severity == Severity::Error).count();
    let policy = parse(&source.text, format).ok();
    if errors > 0 || policy.is_none() {
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
