//! Durations in messages for people. Data for programs has seconds instead.

use std::time::Duration;

/// Formats seconds with the two largest units, rounded down: `45 s`, `1 min 30 s`, `18 h 9 min`, `3 d 2 h`.
///
/// ```
/// assert_eq!(gatelodge_policy::format_seconds(65_400), "18 h 10 min");
/// ```
pub fn format_seconds(seconds: u64) -> String {
    const UNITS: [(u64, &str); 4] = [(86_400, "d"), (3_600, "h"), (60, "min"), (1, "s")];
    let largest = UNITS.iter().position(|(size, _)| seconds >= *size).unwrap_or(UNITS.len() - 1);
    let mut rest = seconds;
    let mut parts = Vec::new();
    for (size, unit) in UNITS.iter().skip(largest).take(2) {
        let count = rest / size;
        rest %= size;
        if count > 0 || parts.is_empty() {
            parts.push(format!("{count} {unit}"));
        }
    }
    parts.join(" ")
}

/// Like [`format_seconds`], but with milliseconds below one second: `250 ms`.
pub fn format_duration(duration: Duration) -> String {
    match duration.as_secs() {
        0 => format!("{} ms", duration.as_millis()),
        seconds => format_seconds(seconds),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_show_their_two_largest_units() {
        for (seconds, text) in [
            (0, "0 s"),
            (45, "45 s"),
            (60, "1 min"),
            (90, "1 min 30 s"),
            (3_600, "1 h"),
            (3_605, "1 h"),
            (65_355, "18 h 9 min"),
            (86_400, "1 d"),
            (266_400, "3 d 2 h"),
        ] {
            assert_eq!(format_seconds(seconds), text);
        }
        assert_eq!(format_duration(Duration::from_millis(250)), "250 ms");
        assert_eq!(format_duration(Duration::from_millis(90_500)), "1 min 30 s");
    }
}
