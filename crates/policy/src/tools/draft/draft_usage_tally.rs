//! How one tool, resource, prompt or method was used: number of calls, times and arguments.

use std::collections::BTreeMap;

use gatelodge_json::{JsonKind, JsonValue};
use jiff::Timestamp;

use super::draft_conditions::ArgumentValueTally;
use super::{DraftBlock, DraftSection, ObservedCall, draft_conditions};

/// Lengths of the windows for which peaks are reported, in minutes.
const PEAK_WINDOWS_MINUTES: [i64; 3] = [1, 60, 1_440];
/// Reason codes that are expected in observe mode and say nothing about the call itself.
const EXPECTED_REASON_CODES: [&str; 2] = ["not_listed", "no_policy"];

#[derive(Debug)]
pub(super) struct DraftUsageTally {
    calls: u64,
    first: Timestamp,
    last: Timestamp,
    /// Number of calls, keyed by minutes since the Unix epoch.
    calls_per_minute: BTreeMap<i64, u64>,
    argument_names: BTreeMap<Box<str>, u64>,
    values: BTreeMap<Box<str>, ArgumentValueTally>,
    reason_codes: BTreeMap<Box<str>, u64>,
}

impl DraftUsageTally {
    pub fn new(at: Timestamp) -> Self {
        Self {
            calls: 0,
            first: at,
            last: at,
            calls_per_minute: BTreeMap::new(),
            argument_names: BTreeMap::new(),
            values: BTreeMap::new(),
            reason_codes: BTreeMap::new(),
        }
    }

    pub fn add(&mut self, call: &ObservedCall<'_>) {
        self.calls += 1;
        self.first = self.first.min(call.at);
        self.last = self.last.max(call.at);
        *self.calls_per_minute.entry(call.at.as_second().div_euclid(60)).or_default() += 1;
        for name in call.argument_names {
            *self.argument_names.entry((*name).into()).or_default() += 1;
        }
        if let Some(code) = call.reason_code.filter(|code| !EXPECTED_REASON_CODES.contains(code)) {
            *self.reason_codes.entry(code.into()).or_default() += 1;
        }
        if let Some(arguments) = call.arguments.filter(|arguments| arguments.kind() == JsonKind::Object) {
            self.add_arguments(arguments);
        }
    }

    fn add_arguments(&mut self, arguments: JsonValue<'_>) {
        for (key, value) in arguments.members() {
            if let Some(name) = key.as_str().filter(|name| !draft_conditions::is_secret_name(name)) {
                self.values.entry(name.as_ref().into()).or_default().add(value);
            }
        }
    }

    pub fn summary(&self, part: DraftSection, name: &str) -> DraftBlock {
        let to_vec = |counts: &BTreeMap<Box<str>, u64>| {
            counts.iter().map(|(name, count)| (name.to_string(), *count)).collect::<Vec<_>>()
        };
        let peaks = PEAK_WINDOWS_MINUTES.map(|window| self.peak(window));
        let [_, per_hour, _] = peaks;
        let takes_conditions = matches!(part, DraftSection::Tools | DraftSection::Prompts);
        DraftBlock {
            section: part,
            name: name.to_owned(),
            calls: self.calls,
            first: self.first,
            last: self.last,
            peaks,
            arguments: to_vec(&self.argument_names),
            suggested_conditions: if takes_conditions {
                draft_conditions::suggest_conditions(&self.values, self.calls)
            } else {
                Vec::new()
            },
            reason_codes: to_vec(&self.reason_codes),
            rate_limit: (part == DraftSection::Tools).then(|| format!("{}/hour", rate_with_headroom(per_hour))),
        }
    }

    /// Returns the highest number of calls in any window of `window` minutes. As with limits, windows start at
    /// multiples of their length since the Unix epoch.
    fn peak(&self, window: i64) -> u64 {
        let (mut peak, mut current, mut sum) = (0, None, 0);
        for (minute, count) in &self.calls_per_minute {
            let start = minute.div_euclid(window);
            sum = if current == Some(start) { sum + count } else { *count };
            current = Some(start);
            peak = sum.max(peak);
        }
        peak
    }
}

/// Returns twice the peak, rounded up to one significant digit. The result is at least ten, because a single use says
/// little about future use.
fn rate_with_headroom(peak: u64) -> u64 {
    let twice = peak.saturating_mul(2).max(10);
    let unit = 10_u64.saturating_pow(twice.ilog10());
    twice.div_ceil(unit).saturating_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::rate_with_headroom;

    #[test]
    fn a_rate_is_a_round_number_of_at_least_twice_the_peak() {
        let found: Vec<u64> = [0, 1, 5, 6, 10, 11, 42, 50, 51, 499, 501].map(rate_with_headroom).into();
        assert_eq!(found, [10, 10, 10, 20, 20, 30, 90, 100, 200, 1_000, 2_000]);
    }
}
