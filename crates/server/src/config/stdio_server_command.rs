//! The `command` field of `[[servers]]`: a stdio server that the gateway runs itself.

use std::path::Path;
use std::time::Duration;

use gatelodge_admin::header_template::{self, EnvironmentLookup, HeaderError};
use gatelodge_gateway::UpstreamProcessConfig;

use super::config_diagnostic::{ConfigDiagnostic, ConfigDiagnosticCode};
use super::config_sections::RawServer;
use super::gateway_section_reader::set_duration;
use super::toml_reader::{ConfigReader, SpannedValue};

const DEFAULT_GRACE: Duration = Duration::from_secs(2);

/// Validates the fields that describe the server process.
pub fn read_child_config(
    raw: &RawServer,
    command: &SpannedValue<Vec<SpannedValue<String>>>,
    base_directory: &Path,
    environment: EnvironmentLookup<'_>,
    reader: &mut ConfigReader,
) -> Option<UpstreamProcessConfig> {
    if let Some(headers) = &raw.headers {
        let diagnostic = ConfigDiagnostic::new(
            ConfigDiagnosticCode::FieldClash,
            &headers.span,
            "a server with a `command` cannot have `headers`",
        );
        reader.report(diagnostic.with_help("pass credentials with `env`"));
    }
    let Some((program, arguments)) = command.value.split_first().filter(|(program, _)| !program.value.is_empty())
    else {
        let diagnostic =
            ConfigDiagnostic::new(ConfigDiagnosticCode::BadValue, &command.span, "`command` does not name a program");
        reader.report(diagnostic.with_help("write `command = [\"program\", \"argument\", …]`; there is no shell"));
        return None;
    };
    if program.value.contains(' ') && arguments.is_empty() {
        let diagnostic = ConfigDiagnostic::new(
            ConfigDiagnosticCode::BadValue,
            &program.span,
            "`command` is one string with spaces in it",
        );
        reader.report(
            diagnostic.with_help("write each argument as a string of its own: `[\"npx\", \"-y\", \"a-server\"]`"),
        );
        return None;
    }
    let mut process = UpstreamProcessConfig {
        program: program.value.clone(),
        arguments: arguments.iter().map(|argument| argument.value.clone()).collect(),
        env: Vec::new(),
        secrets: Vec::new(),
        directory: raw.directory.as_ref().map(|directory| base_directory.join(&directory.value)),
        grace: DEFAULT_GRACE,
    };
    set_duration(&mut process.grace, raw.grace.as_ref(), reader);
    let inherited =
        header_template::INHERITED_VARIABLES.iter().filter_map(|name| Some(((*name).to_owned(), environment(name)?)));
    process.env.extend(inherited);
    read_variables(raw, environment, &mut process, reader);
    Some(process)
}

fn read_variables(
    raw: &RawServer,
    environment: EnvironmentLookup<'_>,
    process: &mut UpstreamProcessConfig,
    reader: &mut ConfigReader,
) {
    let written = raw.env.as_ref().map(|env| env.value.0.as_slice()).unwrap_or_default();
    for (name, value) in written {
        if name.value.is_empty() || name.value.contains(['=', '\0']) {
            let diagnostic = ConfigDiagnostic::new(
                ConfigDiagnosticCode::BadValue,
                &name.span,
                "this is not the name of an environment variable",
            );
            reader.report(diagnostic.with_help("a name consists of letters, digits and `_`"));
            continue;
        }
        match header_template::expand_template(&value.value, environment) {
            Ok((text, secrets)) => {
                if header_template::is_secret_variable(&name.value) {
                    process.secrets.push(text.clone());
                }
                process.secrets.extend(secrets);
                process.env.retain(|(other, _)| *other != name.value);
                process.env.push((name.value.clone(), text));
            }
            Err(error) => {
                let is_missing = matches!(error, HeaderError::MissingVariable(_));
                let code =
                    if is_missing { ConfigDiagnosticCode::MissingVariable } else { ConfigDiagnosticCode::BadValue };
                reader.report(
                    ConfigDiagnostic::new(code, &value.span, error.message(&name.value)).with_help(error.help()),
                );
            }
        }
    }
}

/// Reports fields that are allowed only for a server with a `command`.
pub fn refuse_command_fields(raw: &RawServer, reader: &mut ConfigReader) {
    let env = raw.env.as_ref().map(|env| ("env", &env.span));
    let directory = raw.directory.as_ref().map(|directory| ("directory", &directory.span));
    let grace = raw.grace.as_ref().map(|grace| ("grace", &grace.span));
    for (name, span) in [env, directory, grace].into_iter().flatten() {
        let diagnostic = ConfigDiagnostic::new(
            ConfigDiagnosticCode::FieldClash,
            span,
            format!("`{name}` is only for a server with a `command`"),
        );
        reader.report(diagnostic.with_help("remove it"));
    }
}
