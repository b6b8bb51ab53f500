//! Formats times for output: in local time for the terminal, in UTC for `--json`.

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// Formats a time in the local time zone, with the zone's abbreviation: `2026-11-15 13:00:00 CET`.
pub fn local_time(at: Timestamp) -> String {
    // A machine without a configured time zone gets UTC.
    let zone = TimeZone::try_system().unwrap_or(TimeZone::UTC);
    at.to_zoned(zone).strftime("%Y-%m-%d %H:%M:%S %Z").to_string()
}

/// Formats a time for a message: in UTC if the message is part of `--json` output, else in local time.
pub fn time_text(at: Timestamp, json: bool) -> String {
    if json { at.to_string() } else { local_time(at) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_time_names_its_zone() {
        let text = local_time("2026-11-15T12:00:00Z".parse().expect("a time"));
        assert_eq!(text.split(' ').count(), 3, "{text}");
    }
}
