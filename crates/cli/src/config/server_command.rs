//! `command` of `[[servers]]`: a server that the gateway runs itself.

use std::path::Path;
use std::time::Duration;

use gatelodge_gateway::UpstreamProcessConfig;

use super::config_diagnostic::{ConfigDiagnostic, ConfigDiagnosticCode};
use super::config_reader::{ConfigReader, SpannedValue};
use super::config_sections::RawServer;
use super::gateway_section::set_duration;
use crate::header_template::{self, EnvironmentLookup, HeaderError};

const DEFAULT_GRACE: Duration = Duration::from_secs(2);

/// What the section says of the process.
pub fn read_child_config(
    raw: &RawServer,
    command: &SpannedValue<Vec<SpannedValue<String>>>,
    home: &Path,
    environment: EnvironmentLookup<'_>,
    reader: &mut ConfigReader,
) -> Option<UpstreamProcessConfig> {
    if let Some(headers) = &raw.headers {
        let fault = ConfigDiagnostic::new(
            ConfigDiagnosticCode::FieldClash,
            &headers.span,
            "a server that is run has no `headers`",
        );
        reader.report(fault.with_help("give it variables with `env`"));
    }
    let Some((program, arguments)) = command.value.split_first().filter(|(program, _)| !program.value.is_empty())
    else {
        let fault =
            ConfigDiagnostic::new(ConfigDiagnosticCode::BadValue, &command.span, "the command names no program");
        reader.report(fault.with_help("write `command = [\"program\", \"argument\", …]`; there is no shell"));
        return None;
    };
    if program.value.contains(' ') && arguments.is_empty() {
        let fault = ConfigDiagnostic::new(
            ConfigDiagnosticCode::BadValue,
            &program.span,
            "the command is one word with spaces in it",
        );
        reader.report(fault.with_help("write each argument as a text of its own: `[\"npx\", \"-y\", \"a-server\"]`"));
        return None;
    }
    let mut child = UpstreamProcessConfig {
        program: program.value.clone(),
        arguments: arguments.iter().map(|argument| argument.value.clone()).collect(),
        env: Vec::new(),
        secrets: Vec::new(),
        directory: raw.directory.as_ref().map(|directory| home.join(&directory.value)),
        grace: DEFAULT_GRACE,
    };
    set_duration(&mut child.grace, raw.grace.as_ref(), reader);
    let plain =
        header_template::INHERITED_VARIABLES.iter().filter_map(|name| Some(((*name).to_owned(), environment(name)?)));
    child.env.extend(plain);
    read_variables(raw, environment, &mut child, reader);
    Some(child)
}

fn read_variables(
    raw: &RawServer,
    environment: EnvironmentLookup<'_>,
    child: &mut UpstreamProcessConfig,
    reader: &mut ConfigReader,
) {
    let written = raw.env.as_ref().map(|env| env.value.0.as_slice()).unwrap_or_default();
    for (name, value) in written {
        if name.value.is_empty() || name.value.contains(['=', '\0']) {
            let fault =
                ConfigDiagnostic::new(ConfigDiagnosticCode::BadValue, &name.span, "this is not a variable's name");
            reader.report(fault.with_help("a name has letters, digits and `_`"));
            continue;
        }
        match header_template::expand_template(&value.value, environment) {
            Ok((text, secrets)) => {
                if header_template::is_secret_variable(&name.value) {
                    child.secrets.push(text.clone());
                }
                child.secrets.extend(secrets);
                child.env.retain(|(other, _)| *other != name.value);
                child.env.push((name.value.clone(), text));
            }
            Err(fault) => {
                let is_missing = matches!(fault, HeaderError::MissingVariable(_));
                let code =
                    if is_missing { ConfigDiagnosticCode::MissingVariable } else { ConfigDiagnosticCode::BadValue };
                reader.report(
                    ConfigDiagnostic::new(code, &value.span, fault.message(&name.value)).with_help(fault.help()),
                );
            }
        }
    }
}

/// Refuses what only a server that is run can have.
pub fn refuse_command_fields(raw: &RawServer, reader: &mut ConfigReader) {
    let env = raw.env.as_ref().map(|env| ("env", &env.span));
    let directory = raw.directory.as_ref().map(|directory| ("directory", &directory.span));
    let grace = raw.grace.as_ref().map(|grace| ("grace", &grace.span));
    for (name, span) in [env, directory, grace].into_iter().flatten() {
        let fault = ConfigDiagnostic::new(
            ConfigDiagnosticCode::FieldClash,
            span,
            format!("`{name}` is for a server with a `command`"),
        );
        reader.report(fault.with_help("leave it out"));
    }
}
