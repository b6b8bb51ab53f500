//! `[[grants]]`: who may come, with which token, to which server, by which policy.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::path::Path;

use gatelodge_gateway::{GrantConfig, ServerAccess};
use gatelodge_mcp::Revision;
use gatelodge_store::{EnforcementMode, GrantId, GrantToken, ServerName, TokenHash};
use jiff::Timestamp;

use super::config_diagnostic::{ConfigDiagnostic, ConfigDiagnosticCode, suggest_name};
use super::config_reader::{ConfigReader, SpannedValue};
use super::config_redaction::has_token;
use super::config_sections::RawGrant;
use super::policies_section::PoliciesSection;
use super::servers_section::ServersSection;
use super::time_syntax::parse_timestamp;
use crate::header_template::EnvironmentLookup;
use crate::source_file::FileStamp;

/// What ids of grants from the file begin with. Their counters stay as long as the label does.
pub const FILE_GRANT_ID_PREFIX: &str = "file:";
/// Longer labels are not for people.
const MAX_LABEL_CHARS: usize = 128;

/// What grants refer to.
#[derive(Clone, Copy)]
pub struct GrantContext<'a> {
    /// The servers of the file.
    pub servers: &'a ServersSection,
    /// The policies of the file.
    pub policies: &'a PoliciesSection,
    /// Where relative paths begin.
    pub base_directory: &'a Path,
    /// Where tokens may be.
    pub environment: EnvironmentLookup<'a>,
}

/// What the sections mean, and the files that were read for them.
pub fn read_grants(
    raw: Vec<RawGrant>,
    around: GrantContext<'_>,
    reader: &mut ConfigReader,
) -> (Vec<GrantConfig>, Vec<FileStamp>) {
    let (mut good, mut files) = (Vec::new(), Vec::new());
    let mut labels = HashMap::new();
    let mut tokens: HashMap<TokenHash, Range<usize>> = HashMap::new();
    for raw in raw {
        let label = read_label(&raw, &mut labels, reader);
        let token = read_token(&raw, around, &mut files, reader);
        if let Some(SpannedValue { value, span }) = &token
            && let Some(first) = tokens.insert(*value, span.clone())
        {
            let fault = ConfigDiagnostic::new(ConfigDiagnosticCode::Repeated, span, "two grants have the same token");
            reader.report(
                fault.with_help("make another one: `gatelodge grant token`").with_related(&first, "the first is here"),
            );
        }
        let doors = read_server_access(&raw, around, reader);
        let expires_at = read_expiry(raw.expires.as_ref(), reader);
        let minimum_revision = read_minimum_revision(raw.minimum_revision.as_ref(), reader);
        let facts = raw.labels.map(|labels| labels.value.0).unwrap_or_default();
        let facts: BTreeMap<String, String> = facts.into_iter().map(|(key, value)| (key.value, value.value)).collect();
        if let (Some(label), Some(token), Some(doors)) = (label, token, doors) {
            let id = GrantId(format!("{FILE_GRANT_ID_PREFIX}{label}").into());
            good.push(GrantConfig {
                id,
                label: label.into(),
                labels: facts,
                token: token.value,
                expires: expires_at,
                minimum_revision,
                servers: doors,
            });
        }
    }
    (good, files)
}

fn read_label(raw: &RawGrant, taken: &mut HashMap<String, Range<usize>>, reader: &mut ConfigReader) -> Option<String> {
    let Some(SpannedValue { value, span }) = &raw.label else {
        let fault = ConfigDiagnostic::new(ConfigDiagnosticCode::MissingField, &raw.span, "a grant needs a `label`");
        reader.report(fault.with_help("add `label = \"…\"`: who it is for"));
        return None;
    };
    if let Some(first) = taken.insert(value.clone(), span.clone()) {
        let fault =
            ConfigDiagnostic::new(ConfigDiagnosticCode::Repeated, span, format!("there are two grants `{value}`"));
        reader.report(fault.with_help("give one of them another label").with_related(&first, "the first is here"));
        return None;
    }
    if !is_valid_label(value) {
        let fault = ConfigDiagnostic::new(ConfigDiagnosticCode::BadValue, span, "this is not a label");
        reader.report(
            fault.with_help(format!(
                "write 1 to {MAX_LABEL_CHARS} characters, without control characters, and no token"
            )),
        );
        return None;
    }
    Some(value.clone())
}

/// Whether a text can be a grant's label. One that is a token would be in every log.
pub fn is_valid_label(text: &str) -> bool {
    let length = text.chars().count();
    let is_clean = !text.chars().any(char::is_control) && !text.starts_with(FILE_GRANT_ID_PREFIX) && !has_token(text);
    (1..=MAX_LABEL_CHARS).contains(&length) && is_clean
}

fn read_token(
    raw: &RawGrant,
    around: GrantContext<'_>,
    files: &mut Vec<FileStamp>,
    reader: &mut ConfigReader,
) -> Option<SpannedValue<TokenHash>> {
    let written = [&raw.token_env, &raw.token_file, &raw.token_hash];
    let mut written = written.into_iter().flatten();
    let Some(first) = written.next() else {
        let fault = ConfigDiagnostic::new(ConfigDiagnosticCode::MissingField, &raw.span, "a grant needs a token");
        reader.report(
            fault.with_help("add `token_env`, `token_file` or `token_hash`; `gatelodge grant token` makes a token"),
        );
        return None;
    };
    if let Some(second) = written.next() {
        let fault = ConfigDiagnostic::new(
            ConfigDiagnosticCode::FieldClash,
            &second.span,
            "a grant has one token, from one place",
        );
        reader.report(fault.with_help("leave one out").with_related(&first.span, "the first is here"));
        return None;
    }
    let span = &first.span;
    if GrantToken::parse(&first.value).is_ok() {
        let fault = ConfigDiagnostic::new(
            ConfigDiagnosticCode::BadValue,
            span,
            "this is the token itself; a token does not stand in a file like this",
        );
        reader.report(fault.with_help("put it into the environment and name the variable as `token_env`"));
        return None;
    }
    let hash = if raw.token_hash.is_some() {
        TokenHash::parse(&first.value).map_err(|error| token_diagnostic(span, &error))
    } else if raw.token_env.is_some() {
        token_from_environment(first, around.environment)
    } else {
        token_from_file(first, around.base_directory, files)
    };
    match hash {
        Ok(hash) => Some(SpannedValue { value: hash, span: span.clone() }),
        Err(fault) => {
            reader.report(fault);
            None
        }
    }
}

fn token_from_environment(
    name: &SpannedValue<String>,
    environment: EnvironmentLookup<'_>,
) -> Result<TokenHash, ConfigDiagnostic> {
    let Some(text) = environment(&name.value) else {
        // Somebody may have written the token itself, with a character lost.
        let is_name = name.value.len() <= 40 && !name.value.starts_with("glt_");
        let shown = if is_name { crate::diagnostic_report::escape_for_terminal(&name.value) } else { "***".to_owned() };
        let message = format!("the environment has no variable `{shown}`");
        let help = "set it where the gateway starts (one that is not UTF-8 counts as missing); `gatelodge grant token` makes a token";
        return Err(ConfigDiagnostic::new(ConfigDiagnosticCode::MissingVariable, &name.span, message).with_help(help));
    };
    GrantToken::parse(text.trim()).map(|token| token.hash()).map_err(|error| token_diagnostic(&name.span, &error))
}

fn token_from_file(
    path: &SpannedValue<String>,
    home: &Path,
    files: &mut Vec<FileStamp>,
) -> Result<TokenHash, ConfigDiagnostic> {
    let full = home.join(&path.value);
    files.push(FileStamp::of(&full));
    let source = crate::source_file::read_source(&full).map_err(|error| {
        let help = "relative paths begin at the configuration's own directory";
        ConfigDiagnostic::new(ConfigDiagnosticCode::UnreadableFile, &path.span, format!("{error}")).with_help(help)
    })?;
    let text = String::from_utf8_lossy(&source.text);
    GrantToken::parse(text.trim()).map(|token| token.hash()).map_err(|error| token_diagnostic(&path.span, &error))
}

fn token_diagnostic(span: &Range<usize>, error: &gatelodge_store::TokenError) -> ConfigDiagnostic {
    let fault = ConfigDiagnostic::new(
        ConfigDiagnosticCode::BadValue,
        span,
        "what is found here is not a token, or not its hash",
    );
    fault.with_help(format!("{error}; `gatelodge grant token` makes a token and its hash"))
}

fn read_server_access(
    raw: &RawGrant,
    around: GrantContext<'_>,
    reader: &mut ConfigReader,
) -> Option<HashMap<ServerName, ServerAccess>> {
    let written: Vec<(&SpannedValue<String>, Option<&SpannedValue<String>>)> = match (&raw.server, &raw.servers) {
        (Some(server), None) => vec![(server, raw.policy.as_ref())],
        (None, Some(servers)) => servers.value.0.iter().map(|(server, policy)| (server, Some(policy))).collect(),
        (Some(server), Some(servers)) => {
            let fault = ConfigDiagnostic::new(
                ConfigDiagnosticCode::FieldClash,
                &servers.span,
                "a grant has `server` or `servers`, not both",
            );
            reader.report(
                fault.with_help("name all of them in `servers`").with_related(&server.span, "`server` is here"),
            );
            return None;
        }
        (None, None) => {
            let fault =
                ConfigDiagnostic::new(ConfigDiagnosticCode::MissingField, &raw.span, "a grant needs a `server`");
            reader.report(fault.with_help("add `server = \"…\"`, the name of one of the `[[servers]]`"));
            return None;
        }
    };
    if let (Some(policy), Some(servers)) = (&raw.policy, &raw.servers) {
        let fault = ConfigDiagnostic::new(
            ConfigDiagnosticCode::FieldClash,
            &policy.span,
            "in `servers`, each server has its own policy",
        );
        reader.report(fault.with_help("leave `policy` out").with_related(&servers.span, "`servers` is here"));
        return None;
    }
    let mode = read_mode(raw, reader);
    let doors: Vec<Option<(ServerName, ServerAccess)>> = written
        .into_iter()
        .map(|(server, policy)| read_one_server_access(server, policy, mode, around, reader))
        .collect();
    doors.into_iter().collect()
}

fn read_mode(raw: &RawGrant, reader: &mut ConfigReader) -> EnforcementMode {
    match &raw.observe {
        Some(SpannedValue { value: true, span }) => {
            let message = "this grant only observes: what its policy refuses is recorded and sent all the same";
            reader.report(
                ConfigDiagnostic::new(ConfigDiagnosticCode::Observes, span, message)
                    .with_help("leave `observe` out to refuse"),
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
    around: GrantContext<'_>,
    reader: &mut ConfigReader,
) -> Option<(ServerName, ServerAccess)> {
    let is_known = check_known_name(server, "server", "servers", around.servers.name_spans.keys(), reader);
    let policy = policy.and_then(|policy| {
        check_known_name(policy, "policy", "policies", around.policies.name_spans.keys(), reader);
        around.policies.valid.get(&policy.value).cloned()
    });
    let name = server.value.parse().ok().filter(|_| is_known)?;
    Some((name, ServerAccess { policy, mode }))
}

/// Notes a name that nothing has.
fn check_known_name<'n>(
    name: &SpannedValue<String>,
    what: &str,
    section: &str,
    known: impl Iterator<Item = &'n String>,
    reader: &mut ConfigReader,
) -> bool {
    let mut known: Vec<&str> = known.map(String::as_str).collect();
    let is_known = known.contains(&name.value.as_str());
    if !is_known {
        known.sort_unstable();
        let message = format!("there is no {what} `{}` among the `[[{section}]]`", name.value);
        reader.report(
            ConfigDiagnostic::new(ConfigDiagnosticCode::UnknownName, &name.span, message)
                .with_help(suggest_name(&name.value, &known)),
        );
    }
    is_known
}

fn read_minimum_revision(
    written: Option<&SpannedValue<super::config_reader::DateOrDateTime>>,
    reader: &mut ConfigReader,
) -> Option<Revision> {
    let SpannedValue { value, span } = written?;
    let found = value.0.parse().ok();
    if found.is_none() {
        let fault =
            ConfigDiagnostic::new(ConfigDiagnosticCode::BadValue, span, "this is not a revision of the protocol");
        reader.report(fault.with_help(format!("write one of {}", revision_list())));
    }
    found
}

/// The revisions that a grant can want, for messages.
pub fn revision_list() -> String {
    Revision::ALL.map(|revision| format!("`{revision}`")).join(", ")
}

fn read_expiry(
    written: Option<&SpannedValue<super::config_reader::DateOrDateTime>>,
    reader: &mut ConfigReader,
) -> Option<Timestamp> {
    let SpannedValue { value, span } = written?;
    let found = parse_timestamp(&value.0);
    if found.is_none() && value.0.parse::<jiff::civil::DateTime>().is_ok_and(|date| date.year() == 9999) {
        let fault =
            ConfigDiagnostic::new(ConfigDiagnosticCode::BadValue, span, "this date is later than times can be counted");
        reader.report(fault.with_help("leave `expires` out: then it never ends"));
    } else if found.is_none() {
        let fault = ConfigDiagnostic::new(ConfigDiagnosticCode::BadValue, span, "this is not a date");
        reader.report(fault.with_help("write it like `2027-01-31` or `2027-01-31T12:00:00Z`"));
    }
    found
}
