//! Times and durations for people. `--json` output has UTC times and seconds instead.

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// Formats a time in the local time zone, with the zone's abbreviation: `2026-11-15 13:00:00 CET`.
pub fn local_time(at: Timestamp) -> String {
    // A machine without a configured time zone gets UTC.
    let zone = TimeZone::try_system().unwrap_or(TimeZone::UTC);
    at.to_zoned(zone).strftime("%Y-%m-%d %H:%M:%S %Z").to_string()
}

/// Formats a time for a message that is also part of `--json` output: UTC there, local otherwise.
pub fn time_text(at: Timestamp, json: bool) -> String {
    if json { at.to_string() } else { local_time(at) }
}

/// Formats a duration in its two largest units: `18 h 9 min`.
pub fn duration_text(seconds: u64) -> String {
    const UNITS: [(u64, &str); 4] = [(86_400, "d"), (3_600, "h"), (60, "min"), (1, "s")];
    let first = UNITS.iter().position(|(size, _)| seconds >= *size).unwrap_or(UNITS.len() - 1);
    let mut rest = seconds;
    let mut parts = Vec::new();
    for (size, unit) in UNITS.iter().skip(first).take(2) {
        let count = rest / size;
        rest %= size;
        if count > 0 || parts.is_empty() {
            parts.push(format!("{count} {unit}"));
        }
    }
    parts.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duration_has_its_two_largest_units() {
        let cases =
            [(0, "0 s"), (59, "59 s"), (90, "1 min 30 s"), (3_600, "1 h"), (65_355, "18 h 9 min"), (90_000, "1 d 1 h")];
        for (seconds, text) in cases {
            assert_eq!(duration_text(seconds), text);
        }
    }

    #[test]
    fn local_time_names_its_zone() {
        let text = local_time("2026-11-15T12:00:00Z".parse().expect("a time"));
        assert_eq!(text.split(' ').count(), 3, "{text}");
    }
}
