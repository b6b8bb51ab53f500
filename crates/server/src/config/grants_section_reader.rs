//! `[[grants]]`: tokens, and the servers and policies they give access to.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::path::Path;

use gatelodge_admin::header_template::EnvironmentLookup;
use gatelodge_admin::suggest_name;
use gatelodge_gateway::{GrantConfig, GrantServerAccess};
use gatelodge_mcp::Revision;
use gatelodge_store::{
    EnforcementMode, FILE_GRANT_ID_PREFIX, GrantId, GrantToken, MAX_GRANT_LABEL_CHARS, ServerName, TokenHash,
    is_valid_grant_label,
};
use jiff::Timestamp;

use super::config_diagnostic::{ConfigDiagnostic, ConfigDiagnosticCode};
use super::config_sections::RawGrant;
use super::policies_section_reader::PoliciesSection;
use super::servers_section_reader::ServersSection;
use super::time_syntax::parse_timestamp;
use super::toml_reader::{ConfigReader, SpannedValue};
use crate::input_file::FileStamp;

/// Everything that grants refer to: servers, policies, files and environment variables.
#[derive(Clone, Copy)]
pub struct GrantsSectionContext<'a> {
    /// Servers defined in the configuration file.
    pub servers: &'a ServersSection,
    /// Policies defined in the configuration file.
    pub policies: &'a PoliciesSection,
    /// Directory against which relative paths are resolved.
    pub base_directory: &'a Path,
    /// The environment, whose variables may hold tokens.
    pub environment: EnvironmentLookup<'a>,
}

/// Validates the `[[grants]]` sections. Also returns the token files that were read.
pub fn read_grants(
    raw: Vec<RawGrant>,
    context: GrantsSectionContext<'_>,
    reader: &mut ConfigReader,
) -> (Vec<GrantConfig>, Vec<FileStamp>) {
    let (mut grants, mut files) = (Vec::new(), Vec::new());
    let mut labels = HashMap::new();
    let mut tokens: HashMap<TokenHash, Range<usize>> = HashMap::new();
    for raw in raw {
        let label = read_label(&raw, &mut labels, reader);
        let token = read_token(&raw, context, &mut files, reader);
        if let Some(SpannedValue { value, span }) = &token
            && let Some(first) = tokens.insert(*value, span.clone())
        {
            let diagnostic =
                ConfigDiagnostic::new(ConfigDiagnosticCode::Repeated, span, "two grants have the same token");
            reader.report(
                diagnostic
                    .with_help("generate another one: `gatelodge grant token`")
                    .with_related(&first, "the first is here"),
            );
        }
        let accesses = read_server_access(&raw, context, reader);
        let expires_at = read_expiry(raw.expires.as_ref(), reader);
        let minimum_revision = read_minimum_revision(raw.minimum_revision.as_ref(), reader);
        let grant_labels = raw.labels.map(|labels| labels.value.0).unwrap_or_default();
        let grant_labels: BTreeMap<String, String> =
            grant_labels.into_iter().map(|(key, value)| (key.value, value.value)).collect();
        if let (Some(label), Some(token), Some(accesses)) = (label, token, accesses) {
            let id = GrantId(format!("{FILE_GRANT_ID_PREFIX}{label}").into());
            grants.push(GrantConfig {
                id,
                label: label.into(),
                labels: grant_labels,
                token: token.value,
                expires: expires_at,
                minimum_revision,
                servers: accesses,
            });
        }
    }
    (grants, files)
}

fn read_label(raw: &RawGrant, taken: &mut HashMap<String, Range<usize>>, reader: &mut ConfigReader) -> Option<String> {
    let Some(SpannedValue { value, span }) = &raw.label else {
        let diagnostic =
            ConfigDiagnostic::new(ConfigDiagnosticCode::MissingField, &raw.span, "a grant needs a `label`");
        reader.report(diagnostic.with_help("add `label = \"…\"`, which says who the grant is for"));
        return None;
    };
    if let Some(first) = taken.insert(value.clone(), span.clone()) {
        let diagnostic =
            ConfigDiagnostic::new(ConfigDiagnosticCode::Repeated, span, format!("there are two grants `{value}`"));
        reader.report(diagnostic.with_help("give one of them another label").with_related(&first, "the first is here"));
        return None;
    }
    if !is_valid_grant_label(value) {
        let diagnostic = ConfigDiagnostic::new(ConfigDiagnosticCode::BadValue, span, "this is not a valid label");
        reader.report(
            diagnostic.with_help(format!(
                "write 1 to {MAX_GRANT_LABEL_CHARS} characters; no control characters and no token"
            )),
        );
        return None;
    }
    Some(value.clone())
}

fn read_token(
    raw: &RawGrant,
    context: GrantsSectionContext<'_>,
    files: &mut Vec<FileStamp>,
    reader: &mut ConfigReader,
) -> Option<SpannedValue<TokenHash>> {
    let written = [&raw.token_env, &raw.token_file, &raw.token_hash];
    let mut written = written.into_iter().flatten();
    let Some(first) = written.next() else {
        let diagnostic = ConfigDiagnostic::new(ConfigDiagnosticCode::MissingField, &raw.span, "a grant needs a token");
        reader.report(
            diagnostic
                .with_help("add `token_env`, `token_file` or `token_hash`; `gatelodge grant token` generates a token"),
        );
        return None;
    };
    if let Some(second) = written.next() {
        let diagnostic = ConfigDiagnostic::new(
            ConfigDiagnosticCode::FieldClash,
            &second.span,
            "a grant has only one of `token_env`, `token_file` and `token_hash`",
        );
        reader.report(diagnostic.with_help("remove one").with_related(&first.span, "the first is here"));
        return None;
    }
    let span = &first.span;
    if GrantToken::parse(&first.value).is_ok() {
        let diagnostic = ConfigDiagnostic::new(
            ConfigDiagnosticCode::BadValue,
            span,
            "this is the token itself, which must not be in this file",
        );
        reader.report(
            diagnostic.with_help("put it into an environment variable and set `token_env` to the variable's name"),
        );
        return None;
    }
    let hash = if raw.token_hash.is_some() {
        TokenHash::parse(&first.value).map_err(|error| token_diagnostic(span, &error))
    } else if raw.token_env.is_some() {
        token_from_environment(first, context.environment)
    } else {
        token_from_file(first, context.base_directory, files)
    };
    match hash {
        Ok(hash) => Some(SpannedValue { value: hash, span: span.clone() }),
        Err(diagnostic) => {
            reader.report(diagnostic);
            None
        }
    }
}

fn token_from_environment(
    name: &SpannedValue<String>,
    environment: EnvironmentLookup<'_>,
) -> Result<TokenHash, ConfigDiagnostic> {
    let Some(text) = environment(&name.value) else {
        // The value may be the token itself with a character missing.
        let is_name = name.value.len() <= 40 && !name.value.starts_with("glt_");
        let shown = if is_name { gatelodge_json::escape_for_terminal(&name.value) } else { "***".to_owned() };
        let message = format!("environment variable `{shown}` is not set");
        let help = "set it where the gateway starts (a value that is not UTF-8 counts as missing); `gatelodge grant token` generates a token";
        return Err(ConfigDiagnostic::new(ConfigDiagnosticCode::MissingVariable, &name.span, message).with_help(help));
    };
    GrantToken::parse(text.trim()).map(|token| token.hash()).map_err(|error| token_diagnostic(&name.span, &error))
}

fn token_from_file(
    path: &SpannedValue<String>,
    base_directory: &Path,
    files: &mut Vec<FileStamp>,
) -> Result<TokenHash, ConfigDiagnostic> {
    let full = base_directory.join(&path.value);
    files.push(FileStamp::of(&full));
    let source = crate::input_file::read_source(&full).map_err(|error| {
        let help = "relative paths are resolved against the directory of the configuration file";
        ConfigDiagnostic::new(ConfigDiagnosticCode::UnreadableFile, &path.span, format!("{error}")).with_help(help)
    })?;
    let text = String::from_utf8_lossy(&source.text);
    GrantToken::parse(text.trim()).map(|token| token.hash()).map_err(|error| token_diagnostic(&path.span, &error))
}

fn token_diagnostic(span: &Range<usize>, error: &gatelodge_store::GrantTokenError) -> ConfigDiagnostic {
    let diagnostic =
        ConfigDiagnostic::new(ConfigDiagnosticCode::BadValue, span, "this is not a valid token or token hash");
    diagnostic.with_help(format!("{error}; `gatelodge grant token` generates a token and its hash"))
}

fn read_server_access(
    raw: &RawGrant,
    context: GrantsSectionContext<'_>,
    reader: &mut ConfigReader,
) -> Option<HashMap<ServerName, GrantServerAccess>> {
    let written: Vec<(&SpannedValue<String>, Option<&SpannedValue<String>>)> = match (&raw.server, &raw.servers) {
        (Some(server), None) => vec![(server, raw.policy.as_ref())],
        (None, Some(servers)) => servers.value.0.iter().map(|(server, policy)| (server, Some(policy))).collect(),
        (Some(server), Some(servers)) => {
            let diagnostic = ConfigDiagnostic::new(
                ConfigDiagnosticCode::FieldClash,
                &servers.span,
                "a grant has `server` or `servers`, not both",
            );
            reader.report(
                diagnostic.with_help("list all of them in `servers`").with_related(&server.span, "`server` is here"),
            );
            return None;
        }
        // It has one of them, with a value of the wrong type.
        (None, None) if raw.has_mistyped_field => return None,
        (None, None) => {
            let diagnostic =
                ConfigDiagnostic::new(ConfigDiagnosticCode::MissingField, &raw.span, "a grant needs a `server`");
            reader.report(diagnostic.with_help("add `server = \"…\"`, the name of one of the `[[servers]]`"));
            return None;
        }
    };
    if let (Some(policy), Some(servers)) = (&raw.policy, &raw.servers) {
        let diagnostic = ConfigDiagnostic::new(
            ConfigDiagnosticCode::FieldClash,
            &policy.span,
            "in `servers`, each server has its own policy",
        );
        reader.report(diagnostic.with_help("remove `policy`").with_related(&servers.span, "`servers` is here"));
        return None;
    }
    let mode = read_mode(raw, reader);
    let accesses: Vec<Option<(ServerName, GrantServerAccess)>> = written
        .into_iter()
        .map(|(server, policy)| read_one_server_access(server, policy, mode, context, reader))
        .collect();
    accesses.into_iter().collect()
}

fn read_mode(raw: &RawGrant, reader: &mut ConfigReader) -> EnforcementMode {
    match &raw.observe {
        Some(SpannedValue { value: true, span }) => {
            let message = "this grant only observes: calls that its policy refuses are recorded but sent";
            reader.report(
                ConfigDiagnostic::new(ConfigDiagnosticCode::Observes, span, message)
                    .with_help("remove `observe` to enforce the policy"),
            );
            EnforcementMode::Observe
        }
        _ => EnforcementMode::Enforce,
    }
}

fn read_one_server_access(
    server: &SpannedValue<String>,
    policy: Option<&SpannedValue<String>>,
    mode: EnforcementMode,
    context: GrantsSectionContext<'_>,
    reader: &mut ConfigReader,
) -> Option<(ServerName, GrantServerAccess)> {
    let is_known = check_known_name(server, "server", "servers", context.servers.name_spans.keys(), reader);
    let policy = policy.and_then(|policy| {
        check_known_name(policy, "policy", "policies", context.policies.name_spans.keys(), reader);
        context.policies.valid.get(&policy.value).cloned()
    });
    let name = server.value.parse().ok().filter(|_| is_known)?;
    Some((name, GrantServerAccess { policy, mode }))
}

/// Returns whether a name is defined, and reports an error if it is not.
fn check_known_name<'n>(
    name: &SpannedValue<String>,
    noun: &str,
    section: &str,
    known: impl Iterator<Item = &'n String>,
    reader: &mut ConfigReader,
) -> bool {
    let mut known: Vec<&str> = known.map(String::as_str).collect();
    let is_known = known.contains(&name.value.as_str());
    if !is_known {
        known.sort_unstable();
        let message = format!("there is no {noun} `{}` in `[[{section}]]`", name.value);
        reader.report(
            ConfigDiagnostic::new(ConfigDiagnosticCode::UnknownName, &name.span, message)
                .with_help(suggest_name(&name.value, &known)),
        );
    }
    is_known
}

fn read_minimum_revision(
    written: Option<&SpannedValue<super::toml_reader::ProtocolRevisionText>>,
    reader: &mut ConfigReader,
) -> Option<Revision> {
    let SpannedValue { value, span } = written?;
    let found = value.0.parse().ok();
    if found.is_none() {
        let diagnostic = ConfigDiagnostic::new(ConfigDiagnosticCode::BadValue, span, "this is not a protocol revision");
        reader.report(diagnostic.with_help(format!("write one of {}", revision_list())));
    }
    found
}

/// Lists all protocol revisions, for messages.
pub fn revision_list() -> String {
    Revision::ALL.map(|revision| format!("`{revision}`")).join(", ")
}

fn read_expiry(
    written: Option<&SpannedValue<super::toml_reader::DateOrDateTime>>,
    reader: &mut ConfigReader,
) -> Option<Timestamp> {
    let SpannedValue { value, span } = written?;
    let found = parse_timestamp(&value.0);
    if found.is_none() && value.0.parse::<jiff::civil::DateTime>().is_ok_and(|date| date.year() == 9999) {
        let diagnostic = ConfigDiagnostic::new(ConfigDiagnosticCode::BadValue, span, "this date is out of range");
        reader.report(diagnostic.with_help("remove `expires` for a grant that never expires"));
    } else if found.is_none() {
        let diagnostic = ConfigDiagnostic::new(ConfigDiagnosticCode::BadValue, span, "this is not a date");
        reader.report(diagnostic.with_help("write it like `2027-01-31` or `2027-01-31T12:00:00Z`"));
    }
    found
}
