//! Syntax of durations and times.

use std::time::Duration;

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

/// Describes the syntax of a duration, for messages.
pub const DURATION_SYNTAX: &str = "a whole number with `ms`, `s`, `m`, `h`, `d` or `w`: `90d`, `15m`";

/// Parses a duration such as `90d`, `15m` or `500ms`. Returns `None` for anything else, and for zero.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let unit_at = text.find(|character: char| !character.is_ascii_digit())?;
    let (number, unit) = text.split_at_checked(unit_at)?;
    let number: u64 = number.parse().ok()?;
    let milliseconds: u64 = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        "w" => 604_800_000,
        _ => return None,
    };
    number.checked_mul(milliseconds).filter(|duration| *duration > 0).map(Duration::from_millis)
}

/// Says why a text is not a duration that [`parse_duration`] accepts.
///
/// ```
/// use gatelodge_server::config::duration_error;
/// assert_eq!(duration_error("0s"), "`0s` must be longer than 0");
/// assert_eq!(duration_error("soon"), "`soon` is not a duration");
/// ```
pub fn duration_error(text: &str) -> String {
    let unit = text.trim_start_matches('0');
    let is_zero = unit.len() < text.len() && parse_duration(&format!("1{unit}")).is_some();
    let shown = gatelodge_json::escape_for_terminal(text);
    if is_zero { format!("`{shown}` must be longer than 0") } else { format!("`{shown}` is not a duration") }
}

/// Parses a date, which is taken as midnight UTC at the start of that day, or a date with a time and offset.
pub fn parse_timestamp(text: &str) -> Option<Timestamp> {
    if let Ok(timestamp) = text.parse::<Timestamp>() {
        return Some(timestamp);
    }
    let date = text.parse::<Date>().ok().filter(|_| text.len() == 10)?;
    date.to_zoned(TimeZone::UTC).ok().map(|zoned| zoned.timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_need_a_unit_and_are_not_zero() {
        assert_eq!(parse_duration("90d"), Some(Duration::from_secs(90 * 86_400)));
        assert_eq!(parse_duration("500ms"), Some(Duration::from_millis(500)));
        for text in ["", "90", "d", "0s", "-1s", "1.5h", "1 h", "99999999999999999999d", "1y"] {
            assert_eq!(parse_duration(text), None, "{text}");
        }
    }

    #[test]
    fn a_date_starts_at_midnight() {
        assert_eq!(parse_timestamp("2027-01-31").map(|at| at.to_string()).as_deref(), Some("2027-01-31T00:00:00Z"));
        assert_eq!(
            parse_timestamp("2027-01-31T12:00:00+01:00").map(|at| at.to_string()).as_deref(),
            Some("2027-01-31T11:00:00Z")
        );
        assert_eq!(parse_timestamp("tomorrow"), None);
    }
}
