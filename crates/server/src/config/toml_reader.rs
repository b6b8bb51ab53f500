//! Reads TOML values with their locations. Collects all diagnostics and the locations of secrets.

use std::collections::HashMap;
use std::ops::Range;
use std::str::FromStr;

use gatelodge_admin::suggest_name;
use gatelodge_store::ParseNameError;
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use super::config_diagnostic::{ConfigDiagnostic, ConfigDiagnosticCode};
use super::config_redaction::has_token;
use super::config_sections::{current_name, former_name};

/// A value and its location.
#[derive(Debug, Clone)]
pub struct SpannedValue<T> {
    /// The value.
    pub value: T,
    /// Byte range in the file.
    pub span: Range<usize>,
}

/// A table of strings, in file order.
#[derive(Debug, Clone, Default)]
pub struct ConfigStringTable(pub Vec<(SpannedValue<String>, SpannedValue<String>)>);

/// A table of strings, in file order, whose values may be secrets.
#[derive(Debug, Clone, Default)]
pub struct ConfigSecretTable(pub Vec<(SpannedValue<String>, SpannedValue<String>)>);

/// A date, with or without a time, as a TOML datetime or a string.
#[derive(Debug, Clone)]
pub struct DateOrDateTime(pub String);

/// A duration as it is written, such as `30s`.
#[derive(Debug, Clone)]
pub struct DurationText(pub String);

/// A protocol revision, as a TOML date or a string.
#[derive(Debug, Clone)]
pub struct ProtocolRevisionText(pub String);

/// A type that field values can have.
pub trait ConfigValueType: Sized {
    /// Name of the type in the documentation.
    const TYPE_NAME: &'static str;
    /// What a value must be, for messages.
    const REQUIREMENT: &'static str;
    /// What to write, for help.
    const HELP: &'static str;
    /// Whether values of this type must not be shown.
    const IS_SECRET: bool = false;
    /// Converts a TOML value, or returns `None` if it has a different type.
    fn of(value: &DeValue<'_>) -> Option<Self>;
}

impl ConfigValueType for String {
    const TYPE_NAME: &'static str = "string";
    const REQUIREMENT: &'static str = "a string";
    const HELP: &'static str = "write a string, in quotes";
    fn of(value: &DeValue<'_>) -> Option<Self> {
        value.as_str().map(str::to_owned)
    }
}

impl ConfigValueType for bool {
    const TYPE_NAME: &'static str = "true or false";
    const REQUIREMENT: &'static str = "`true` or `false`";
    const HELP: &'static str = "write `true` or `false`, without quotes";
    fn of(value: &DeValue<'_>) -> Option<Self> {
        value.as_bool()
    }
}

impl ConfigValueType for u64 {
    const TYPE_NAME: &'static str = "whole number";
    const REQUIREMENT: &'static str = "a whole number";
    const HELP: &'static str = "write a whole number, without quotes";
    fn of(value: &DeValue<'_>) -> Option<Self> {
        let number = value.as_integer()?;
        Self::from_str_radix(&number.as_str().replace('_', ""), number.radix()).ok()
    }
}

impl ConfigValueType for Vec<SpannedValue<String>> {
    const TYPE_NAME: &'static str = "list of strings";
    const REQUIREMENT: &'static str = "a list of strings";
    const HELP: &'static str = "write a list of strings: `[\"…\", \"…\"]`";
    fn of(value: &DeValue<'_>) -> Option<Self> {
        let text =
            |item: &Spanned<DeValue<'_>>| Some(SpannedValue { value: String::of(item.get_ref())?, span: item.span() });
        value.as_array()?.iter().map(text).collect()
    }
}

impl ConfigValueType for DateOrDateTime {
    const TYPE_NAME: &'static str = "date, or date and time";
    const REQUIREMENT: &'static str = "a date, or a date and time";
    const HELP: &'static str = "write it like `2027-01-31` or `2027-01-31T12:00:00Z`";
    fn of(value: &DeValue<'_>) -> Option<Self> {
        read_date_text(value).map(Self)
    }
}

impl ConfigValueType for ProtocolRevisionText {
    const TYPE_NAME: &'static str = "protocol revision";
    const REQUIREMENT: &'static str = "a protocol revision";
    const HELP: &'static str = "write it like `2025-11-25`";
    fn of(value: &DeValue<'_>) -> Option<Self> {
        read_date_text(value).map(Self)
    }
}

impl ConfigValueType for DurationText {
    const TYPE_NAME: &'static str = "duration";
    const REQUIREMENT: &'static str = "a duration";
    const HELP: &'static str = "write a duration such as `\"30s\"`";
    fn of(value: &DeValue<'_>) -> Option<Self> {
        String::of(value).map(Self)
    }
}

fn read_date_text(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::Datetime(datetime) => Some(datetime.to_string()),
        other => String::of(other),
    }
}

fn read_string_pairs(value: &DeValue<'_>) -> Option<Vec<(SpannedValue<String>, SpannedValue<String>)>> {
    let pair = |(key, value): (&Spanned<_>, &Spanned<DeValue<'_>>)| {
        let key: &Spanned<DeString<'_>> = key;
        let value = SpannedValue { value: String::of(value.get_ref())?, span: value.span() };
        Some((SpannedValue { value: key.get_ref().to_string(), span: key.span() }, value))
    };
    value.as_table()?.iter().map(pair).collect()
}

impl ConfigValueType for ConfigStringTable {
    const TYPE_NAME: &'static str = "table of strings";
    const REQUIREMENT: &'static str = "a table of strings";
    const HELP: &'static str = STRING_TABLE_HELP;
    fn of(value: &DeValue<'_>) -> Option<Self> {
        read_string_pairs(value).map(Self)
    }
}

impl ConfigValueType for ConfigSecretTable {
    const TYPE_NAME: &'static str = "table of strings";
    const REQUIREMENT: &'static str = "a table of strings";
    const HELP: &'static str = STRING_TABLE_HELP;
    const IS_SECRET: bool = true;
    fn of(value: &DeValue<'_>) -> Option<Self> {
        read_string_pairs(value).map(Self)
    }
}

const STRING_TABLE_HELP: &str = "write a table of strings: `{ name = \"…\" }`";

/// Describes why a value does not have the required type: the value itself or one of its elements has the wrong type,
/// or a number is out of range.
fn mismatch_reason(value: &DeValue<'_>, required: &str) -> String {
    match value {
        DeValue::Integer(number) if required == u64::TYPE_NAME && number.as_str().starts_with('-') => {
            "and not negative".to_owned()
        }
        DeValue::Integer(_) if required == u64::TYPE_NAME => "and this one is too large".to_owned(),
        DeValue::Table(_) if required == ConfigStringTable::TYPE_NAME => {
            "but not all of its values are strings".to_owned()
        }
        DeValue::Array(_) if required == <Vec<SpannedValue<String>> as ConfigValueType>::TYPE_NAME => {
            "but not all of its values are strings".to_owned()
        }
        other => format!("not a value of type {}", other.type_str()),
    }
}

/// Diagnostics and locations of secrets in one file.
#[derive(Debug, Default)]
pub struct ConfigReader {
    /// Diagnostics reported so far.
    pub diagnostics: Vec<ConfigDiagnostic>,
    /// Locations of values that must not be shown.
    pub secret_spans: Vec<Range<usize>>,
    /// How many fields had a value of the wrong type. They are not missing, although they have no value.
    pub mistyped_fields: usize,
}

impl ConfigReader {
    /// Adds a diagnostic.
    pub fn report(&mut self, diagnostic: ConfigDiagnostic) {
        self.diagnostics.push(diagnostic);
    }

    /// Reads a field, or reports that it has the wrong type.
    pub fn read_field<T: ConfigValueType>(&mut self, table: &DeTable<'_>, name: &str) -> Option<SpannedValue<T>> {
        let value = table.get(name).or_else(|| table.get(former_name(name)?))?;
        let converted = T::of(value.get_ref());
        // A token that is written with escapes is not recognizable in the file's text.
        let is_token = value.get_ref().as_str().is_some_and(has_token);
        // A number in place of a string is a mistake, not a secret; a string may be one.
        let is_plain = matches!(
            value.get_ref(),
            DeValue::Integer(_) | DeValue::Float(_) | DeValue::Boolean(_) | DeValue::Datetime(_)
        );
        if T::IS_SECRET || (converted.is_none() && !is_plain) || is_token {
            self.hide_value(value);
        }
        match converted {
            Some(converted) => Some(SpannedValue { value: converted, span: value.span() }),
            None => {
                let reason = mismatch_reason(value.get_ref(), T::TYPE_NAME);
                let message = format!("`{name}` must be {}, {reason}", T::REQUIREMENT);
                self.mistyped_fields += 1;
                self.report(
                    ConfigDiagnostic::new(ConfigDiagnosticCode::WrongType, &value.span(), message).with_help(T::HELP),
                );
                None
            }
        }
    }

    /// Reads a name that must be unique in its section. Invalid names are added to `taken` as well, so that references
    /// to them do not cause further errors.
    pub fn read_unique_name<T: FromStr<Err = ParseNameError>>(
        &mut self,
        written: Option<&SpannedValue<String>>,
        section: &Range<usize>,
        (singular, plural, hint): (&str, &str, &str),
        taken: &mut HashMap<String, Range<usize>>,
    ) -> Option<T> {
        let Some(SpannedValue { value, span }) = written else {
            let message = format!("a {singular} needs a `name`");
            let diagnostic = ConfigDiagnostic::new(ConfigDiagnosticCode::MissingField, section, message);
            self.report(diagnostic.with_help(format!("add `name = \"…\"`; {hint}")));
            return None;
        };
        if let Some(first) = taken.get(value) {
            let message = format!("there are two {plural} `{value}`");
            let diagnostic = ConfigDiagnostic::new(ConfigDiagnosticCode::Repeated, span, message);
            self.report(diagnostic.with_help("give one of them another name").with_related(first, "the first is here"));
            return None;
        }
        taken.insert(value.clone(), span.clone());
        let invalid = |error| {
            ConfigDiagnostic::new(
                ConfigDiagnosticCode::BadValue,
                span,
                format!("`{value}` is not a valid {singular} name"),
            )
            .with_help(format!("{error}"))
        };
        value.parse().map_err(|error: ParseNameError| self.report(invalid(error))).ok()
    }

    /// Reports unknown fields, and suggests the nearest known name. Their values are hidden, because they may be
    /// secrets.
    pub fn check_field_names(&mut self, table: &DeTable<'_>, known: &[&str], what: &str) {
        for (key, value) in table {
            if known.contains(&key.get_ref().as_ref()) {
                continue;
            }
            if let Some(current) = current_name(key.get_ref()).filter(|current| known.contains(current)) {
                self.report_renamed(table, key, current);
                continue;
            }
            self.hide_value(value);
            let name = gatelodge_json::escape_for_terminal(key.get_ref());
            let message = format!("`{name}` is not a field of {what}");
            self.report(
                ConfigDiagnostic::new(ConfigDiagnosticCode::UnknownField, &key.span(), message)
                    .with_help(suggest_name(key.get_ref(), known)),
            );
        }
    }

    /// Warns about a field that is used under its former name. Using both names is an error.
    fn report_renamed(&mut self, table: &DeTable<'_>, key: &Spanned<DeString<'_>>, current: &str) {
        let former = key.get_ref();
        let diagnostic = match table.get_key_value(current) {
            Some((other, _)) => {
                let message = format!("`{former}` and `{current}` are the same field");
                ConfigDiagnostic::new(ConfigDiagnosticCode::FieldClash, &key.span(), message)
                    .with_help(format!("remove `{former}`"))
                    .with_related(&other.span(), "it is also set here")
            }
            None => {
                let message = format!("`{former}` is called `{current}` now");
                ConfigDiagnostic::new(ConfigDiagnosticCode::RenamedField, &key.span(), message)
                    .with_help(format!("write `{current}`; the old name still works"))
            }
        };
        self.report(diagnostic);
    }

    /// Marks a value and everything in it as secret.
    pub fn hide_value(&mut self, value: &Spanned<DeValue<'_>>) {
        match value.get_ref() {
            DeValue::Table(table) => table.values().for_each(|value| self.hide_value(value)),
            DeValue::Array(list) => list.iter().for_each(|value| self.hide_value(value)),
            _ => self.secret_spans.push(value.span()),
        }
    }

    /// Returns the tables of a repeatable section.
    pub fn read_tables<'t, 'i>(
        &mut self,
        value: &'t Spanned<DeValue<'i>>,
        name: &str,
    ) -> Vec<SpannedValue<&'t DeTable<'i>>> {
        let tables = value.get_ref().as_array().and_then(|list| {
            let table = |item: &'t Spanned<DeValue<'i>>| {
                Some(SpannedValue { value: item.get_ref().as_table()?, span: item.span() })
            };
            list.iter().map(table).collect()
        });
        tables.unwrap_or_else(|| {
            self.hide_value(value);
            let message = format!("`{name}` must be one or more sections `[[{name}]]`");
            let help = format!("start each with a line `[[{name}]]`");
            self.report(ConfigDiagnostic::new(ConfigDiagnosticCode::WrongType, &value.span(), message).with_help(help));
            Vec::new()
        })
    }
}
