//! Facts about a call other than its arguments: tool, server, grant, client and time.

use std::borrow::Cow;

use gatelodge_json::Decimal;
use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::call::call_path::CallPathRoot;
use crate::call::call_value::CallValue;
use crate::call::{Call, CallTarget};

/// Time of the evaluation, and the time zone for `time` facts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EvaluationTime<'a> {
    pub at: Timestamp,
    pub time_zone: &'a TimeZone,
}

pub(crate) const HOUR_TEXTS: [&str; 24] = [
    "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15", "16", "17", "18", "19", "20",
    "21", "22", "23",
];

/// Looks up a fact about the call other than an argument. `None` if the fact is unknown.
pub(crate) fn call_fact<'a>(root: &CallPathRoot, call: &Call<'a>, time: EvaluationTime<'_>) -> Option<CallValue<'a>> {
    let text = |text: &'a str| CallValue::Text(Cow::Borrowed(text));
    let zoned = || time.at.to_zoned(time.time_zone.clone());
    match (root, call.target) {
        (CallPathRoot::Args, _) => None,
        (CallPathRoot::ToolName, CallTarget::Tool(tool)) => Some(text(tool.name)),
        (CallPathRoot::ToolCategory, CallTarget::Tool(tool)) => Some(text(tool.effective_category().as_str())),
        (CallPathRoot::ToolLevel, CallTarget::Tool(tool)) => Some(text(tool.effective_category().level())),
        (CallPathRoot::ToolName | CallPathRoot::ToolCategory | CallPathRoot::ToolLevel, _) => None,
        (CallPathRoot::ServerName, _) => call.server.map(text),
        (CallPathRoot::GrantLabel, _) => call.client.grant_label.map(text),
        (CallPathRoot::GrantLabels(key), _) => {
            call.client.grant_labels.and_then(|labels| labels.get(&**key)).map(|label| text(label))
        }
        (CallPathRoot::ClientName, _) => call.client.client_name.map(text),
        (CallPathRoot::ClientVersion, _) => call.client.client_version.map(text),
        (CallPathRoot::TimeHour, _) => {
            let hour = HOUR_TEXTS.get(usize::try_from(zoned().hour()).unwrap_or_default())?;
            Decimal::new(hour).map(CallValue::Number)
        }
        (CallPathRoot::TimeWeekday, _) => Some(text(weekday_name(zoned().weekday()))),
        (CallPathRoot::TimeDate, _) => Some(CallValue::Text(zoned().date().to_string().into())),
    }
}

pub(crate) fn weekday_name(day: jiff::civil::Weekday) -> &'static str {
    use jiff::civil::Weekday;
    match day {
        Weekday::Monday => "mon",
        Weekday::Tuesday => "tue",
        Weekday::Wednesday => "wed",
        Weekday::Thursday => "thu",
        Weekday::Friday => "fri",
        Weekday::Saturday => "sat",
        Weekday::Sunday => "sun",
    }
}
