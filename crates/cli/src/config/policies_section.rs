//! `[[policies]]`: each is read and checked like `policy check` does, and its faults are shown with its own file.

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use gatelodge_gateway::ActivePolicy;
use gatelodge_policy::{Severity, lint, parse};
use gatelodge_store::{PolicyName, PolicyVersion};

use super::config_diagnostic::{ConfigDiagnostic, ConfigDiagnosticCode};
use super::config_reader::{ConfigReader, SpannedValue};
use super::config_sections::RawPolicy;
use crate::source_file::{self, FileStamp, NamedSource};

/// Policies from the file have no versions; the log says 0.
pub const FILE_POLICY_VERSION: PolicyVersion = PolicyVersion(0);

/// What faults of names say: one, many, and what the name is for.
const POLICY_NAME_MESSAGES: (&str, &str, &str) = ("policy", "policies", "grants refer to it");

/// The policies, and what was found in their files.
#[derive(Debug, Default)]
pub struct PoliciesSection {
    /// Those that are good.
    pub valid: HashMap<String, Arc<ActivePolicy>>,
    /// All names, with their places.
    pub name_spans: HashMap<String, Range<usize>>,
    /// The documents with findings.
    pub diagnostics: Vec<(NamedSource, Vec<gatelodge_policy::Diagnostic>)>,
    /// The files that were read.
    pub files: Vec<FileStamp>,
}

/// What the sections mean.
pub fn read_policies(raw: Vec<RawPolicy>, home: &Path, reader: &mut ConfigReader) -> PoliciesSection {
    let mut policies = PoliciesSection::default();
    for raw in raw {
        let name = reader.read_unique_name::<PolicyName>(
            raw.name.as_ref(),
            &raw.span,
            POLICY_NAME_MESSAGES,
            &mut policies.name_spans,
        );
        let Some(SpannedValue { value: file, span }) = raw.file else {
            let fault = ConfigDiagnostic::new(ConfigDiagnosticCode::MissingField, &raw.span, "a policy needs a `file`");
            reader.report(fault.with_help("add `file = \"policy.json\"`"));
            continue;
        };
        if let (Some(policy), Some(name)) = (read_document(&home.join(file), &span, &mut policies, reader), name) {
            let live = ActivePolicy { name: name.clone(), version: FILE_POLICY_VERSION, policy };
            policies.valid.insert(name.to_string(), Arc::new(live));
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
    let source = match source_file::read_source(path) {
        Ok(source) => source,
        Err(error) => {
            let fault = ConfigDiagnostic::new(ConfigDiagnosticCode::UnreadableFile, span, format!("{error}"));
            reader.report(fault.with_help("relative paths begin at the configuration's own directory"));
            return None;
        }
    };
    let format = source.policy_format(None);
    let found = lint(&source.text, format, None);
    let errors = found.iter().filter(|fault| fault.severity == Severity::Error).count();
    let policy = parse(&source.text, format).ok();
    if errors > 0 || policy.is_none() {
        let message = format!("the policy has {errors} fault{}", if errors == 1 { "" } else { "s" });
        reader.report(
            ConfigDiagnostic::new(ConfigDiagnosticCode::BadPolicy, span, message)
                .with_help("they are shown with the policy's own file"),
        );
    }
    if !found.is_empty() {
        policies.diagnostics.push((source, found));
    }
    policy
}
