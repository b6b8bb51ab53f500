//! From TOML to fields with places. Collects every fault on the way, and every place that must not be shown.

use std::collections::HashMap;
use std::ops::Range;
use std::str::FromStr;

use gatelodge_store::ParseNameError;
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use super::config_diagnostic::{ConfigDiagnostic, ConfigDiagnosticCode, suggest_name};
use super::config_redaction::has_token;
use super::config_sections::{current_name, former_name};

/// A value and where it stands.
#[derive(Debug, Clone)]
pub struct SpannedValue<T> {
    /// The value.
    pub value: T,
    /// Where it stands, in bytes.
    pub span: Range<usize>,
}

/// A table of texts, in the order of the file.
#[derive(Debug, Clone, Default)]
pub struct ConfigStringTable(pub Vec<(SpannedValue<String>, SpannedValue<String>)>);

/// A table of texts that may be secrets, in the order of the file.
#[derive(Debug, Clone, Default)]
pub struct ConfigSecretTable(pub Vec<(SpannedValue<String>, SpannedValue<String>)>);

/// A date, with or without a time, written as TOML's own or as a text.
#[derive(Debug, Clone)]
pub struct DateOrDateTime(pub String);

/// A kind of value that a field may have.
pub trait ConfigValue: Sized {
    /// What the documentation and faults call it.
    const WORDS: &'static str;
    /// Whether its text may be shown.
    const IS_SECRET: bool = false;
    /// Takes the value, if it is of this kind.
    fn of(value: &DeValue<'_>) -> Option<Self>;
}

impl ConfigValue for String {
    const WORDS: &'static str = "text";
    fn of(value: &DeValue<'_>) -> Option<Self> {
        value.as_str().map(str::to_owned)
    }
}

impl ConfigValue for bool {
    const WORDS: &'static str = "true or false";
    fn of(value: &DeValue<'_>) -> Option<Self> {
        value.as_bool()
    }
}

impl ConfigValue for u64 {
    const WORDS: &'static str = "whole number";
    fn of(value: &DeValue<'_>) -> Option<Self> {
        let number = value.as_integer()?;
        Self::from_str_radix(&number.as_str().replace('_', ""), number.radix()).ok()
    }
}

impl ConfigValue for Vec<SpannedValue<String>> {
    const WORDS: &'static str = "list of texts";
    fn of(value: &DeValue<'_>) -> Option<Self> {
        let text =
            |item: &Spanned<DeValue<'_>>| Some(SpannedValue { value: String::of(item.get_ref())?, span: item.span() });
        value.as_array()?.iter().map(text).collect()
    }
}

impl ConfigValue for DateOrDateTime {
    const WORDS: &'static str = "date, or date and time";
    fn of(value: &DeValue<'_>) -> Option<Self> {
        match value {
            DeValue::Datetime(datetime) => Some(Self(datetime.to_string())),
            other => String::of(other).map(Self),
        }
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

impl ConfigValue for ConfigStringTable {
    const WORDS: &'static str = "table of texts";
    fn of(value: &DeValue<'_>) -> Option<Self> {
        read_string_pairs(value).map(Self)
    }
}

impl ConfigValue for ConfigSecretTable {
    const WORDS: &'static str = "table of texts";
    const IS_SECRET: bool = true;
    fn of(value: &DeValue<'_>) -> Option<Self> {
        read_string_pairs(value).map(Self)
    }
}

/// Why a value is not of the kind that it has to be: its type, or what is in it.
fn mismatch_reason(value: &DeValue<'_>, words: &str) -> String {
    match value {
        DeValue::Integer(_) if words == u64::WORDS => "from 0 to 18446744073709551615".to_owned(),
        DeValue::Table(_) if words == ConfigStringTable::WORDS => "and not all in it are texts".to_owned(),
        DeValue::Array(_) if words == <Vec<SpannedValue<String>> as ConfigValue>::WORDS => {
            "and not all in it are texts".to_owned()
        }
        other => format!("not a value of type {}", other.type_str()),
    }
}

/// Collects what the reading of one file finds.
#[derive(Debug, Default)]
pub struct ConfigReader {
    /// What is wrong so far.
    pub diagnostics: Vec<ConfigDiagnostic>,
    /// What must not be shown.
    pub secret_spans: Vec<Range<usize>>,
}

impl ConfigReader {
    /// Notes a finding.
    pub fn report(&mut self, fault: ConfigDiagnostic) {
        self.diagnostics.push(fault);
    }

    /// Takes a field, or notes that it is of the wrong kind.
    pub fn read_field<T: ConfigValue>(&mut self, table: &DeTable<'_>, name: &str) -> Option<SpannedValue<T>> {
        let value = table.get(name).or_else(|| table.get(former_name(name)?))?;
        let taken = T::of(value.get_ref());
        // Written with an escape, a token would not look like one in the text.
        let is_token = value.get_ref().as_str().is_some_and(has_token);
        if T::IS_SECRET || taken.is_none() || is_token {
            self.hide_value(value);
        }
        match taken {
            Some(taken) => Some(SpannedValue { value: taken, span: value.span() }),
            None => {
                let message = format!("`{name}` is a {}, {}", T::WORDS, mismatch_reason(value.get_ref(), T::WORDS));
                self.report(
                    ConfigDiagnostic::new(ConfigDiagnosticCode::WrongType, &value.span(), message)
                        .with_help(format!("write a {}", T::WORDS)),
                );
                None
            }
        }
    }

    /// Takes a name that no other of its kind has. A fault in one is not told again where it is used: `taken` has all.
    pub fn read_unique_name<T: FromStr<Err = ParseNameError>>(
        &mut self,
        written: Option<&SpannedValue<String>>,
        section: &Range<usize>,
        (one, many, what_for): (&str, &str, &str),
        taken: &mut HashMap<String, Range<usize>>,
    ) -> Option<T> {
        let Some(SpannedValue { value, span }) = written else {
            let fault =
                ConfigDiagnostic::new(ConfigDiagnosticCode::MissingField, section, format!("a {one} needs a `name`"));
            self.report(fault.with_help(format!("add `name = \"…\"`; {what_for}")));
            return None;
        };
        if let Some(first) = taken.get(value) {
            let fault =
                ConfigDiagnostic::new(ConfigDiagnosticCode::Repeated, span, format!("there are two {many} `{value}`"));
            self.report(fault.with_help("give one of them another name").with_related(first, "the first is here"));
            return None;
        }
        taken.insert(value.clone(), span.clone());
        let unfit = |error| {
            ConfigDiagnostic::new(ConfigDiagnosticCode::BadValue, span, format!("`{value}` is not a {one}'s name"))
                .with_help(format!("{error}"))
        };
        value.parse().map_err(|error: ParseNameError| self.report(unfit(error))).ok()
    }

    /// Refuses fields that do not exist, and offers the nearest that does. What they hold may be anything.
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
            let name = crate::diagnostic_report::escape_for_terminal(key.get_ref());
            let message = format!("`{name}` is not a field of {what}");
            self.report(
                ConfigDiagnostic::new(ConfigDiagnosticCode::UnknownField, &key.span(), message)
                    .with_help(suggest_name(key.get_ref(), known)),
            );
        }
    }

    /// Warns about a field with its former name; both names at once are an error.
    fn report_renamed(&mut self, table: &DeTable<'_>, key: &Spanned<DeString<'_>>, current: &str) {
        let former = key.get_ref();
        let diagnostic = match table.get_key_value(current) {
            Some((other, _)) => {
                let message = format!("`{former}` and `{current}` are the same field");
                ConfigDiagnostic::new(ConfigDiagnosticCode::FieldClash, &key.span(), message)
                    .with_help(format!("remove `{former}`"))
                    .with_related(&other.span(), "it is set here, too")
            }
            None => {
                let message = format!("`{former}` is called `{current}` now");
                ConfigDiagnostic::new(ConfigDiagnosticCode::RenamedField, &key.span(), message)
                    .with_help(format!("write `{current}`; the old name still works"))
            }
        };
        self.report(diagnostic);
    }

    /// Marks a value, and everything in it, as not to be shown.
    pub fn hide_value(&mut self, value: &Spanned<DeValue<'_>>) {
        match value.get_ref() {
            DeValue::Table(table) => table.values().for_each(|value| self.hide_value(value)),
            DeValue::Array(list) => list.iter().for_each(|value| self.hide_value(value)),
            _ => self.secret_spans.push(value.span()),
        }
    }

    /// The tables of a section that may be there many times.
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
            let message = format!("`{name}` is written as one or more `[[{name}]]`");
            let help = format!("begin each with a line `[[{name}]]`");
            self.report(ConfigDiagnostic::new(ConfigDiagnosticCode::WrongType, &value.span(), message).with_help(help));
            Vec::new()
        })
    }
}
