//! Results of a case: medians of its slices, ratios within rounds, and their bounds.

use std::fmt::Write as _;

use super::bench_case::{BenchCase, Metric, RatioBound};
use super::load_generator::LoadSlice;

/// If the direct slices differ more than this, the machine is too noisy.
const MAX_SPREAD: f64 = 0.25;
/// Minimum number of slices to determine their spread.
const MIN_SLICES: usize = 3;

/// Results of a case.
pub struct CaseResult {
    pub name: &'static str,
    pub rows: Vec<TargetResult>,
    /// Spread of the direct slices, relative to their median.
    pub spread: f64,
    pub bound_results: Vec<BoundResult>,
}

/// Results of one target.
pub struct TargetResult {
    pub name: String,
    slices: Vec<LoadSlice>,
    idle_kib: u64,
}

/// A ratio and its bound.
pub struct BoundResult {
    bound: RatioBound,
    ratio: f64,
}

impl TargetResult {
    pub fn new(name: &str, idle_kib: u64) -> Self {
        Self { name: name.to_owned(), slices: Vec::new(), idle_kib }
    }

    pub fn push(&mut self, slice: LoadSlice) {
        self.slices.push(slice);
    }

    /// Returns the number of calls.
    pub fn calls(&self) -> usize {
        self.slices.iter().map(|slice| slice.calls).sum()
    }

    fn growth(&self) -> f64 {
        let memory = |slice: Option<&LoadSlice>| slice.map_or(0.0, |slice| slice.memory_kib as f64);
        memory(self.slices.last()) / memory(self.slices.first())
    }

    fn median(&self, of: impl Fn(&LoadSlice) -> f64) -> f64 {
        median(self.slices.iter().map(of).collect())
    }
}

impl BoundResult {
    fn is_met(&self) -> bool {
        match self.bound.metric {
            Metric::Calls => self.ratio >= self.bound.limit,
            _ => self.ratio <= self.bound.limit,
        }
    }
}

impl CaseResult {
    pub fn of(case: &BenchCase, rows: Vec<TargetResult>) -> Self {
        let spread = rows.iter().find(|row| row.name == "direct").map_or(0.0, |row| spread(&row.slices));
        let ratio = |bound: &RatioBound| {
            let find = |name: &str| rows.iter().find(|row| row.name == name);
            let of = find(bound.target)?;
            let alone = match bound.metric {
                Metric::IdleMemory => {
                    Some(of.idle_kib as f64 - find(bound.baseline).map_or(0.0, |to| to.idle_kib as f64))
                }
                Metric::MemoryGrowth => Some(of.growth()),
                _ => None,
            };
            if let Some(ratio) = alone {
                return Some(BoundResult { bound: *bound, ratio });
            }
            let to = find(bound.baseline)?;
            let without = match bound.metric {
                Metric::P50Beyond { baseline: beyond } => Some(find(beyond)?),
                _ => None,
            };
            let pairs = of.slices.iter().zip(&to.slices).enumerate();
            let ratios = pairs.map(|(round, (of, to))| {
                let without = without.and_then(|row| row.slices.get(round));
                let without = without.map_or(0.0, |slice| metric_value(bound.metric, slice));
                (metric_value(bound.metric, of) - without) / metric_value(bound.metric, to)
            });
            let ratios = ratios.collect();
            Some(BoundResult { bound: *bound, ratio: median(ratios) })
        };
        let bound_results = case.bounds.iter().filter_map(ratio).collect();
        Self { name: case.name, spread, bound_results, rows }
    }

    pub fn is_noisy(&self) -> bool {
        self.spread.is_nan() || self.spread > MAX_SPREAD
    }

    pub fn is_missed(&self) -> bool {
        !self.is_noisy() && self.bound_results.iter().any(|bound_result| !bound_result.is_met())
    }

    /// Formats the results as a table.
    pub fn table(&self) -> String {
        let mut out = format!(
            "{}\n  {:<12} {:>9} {:>8} {:>8} {:>8} {:>8} {:>11} {:>9}\n",
            self.name, "", "calls/s", "p50 us", "p90 us", "p99 us", "p99.9", "CPU us/call", "KiB"
        );
        for row in &self.rows {
            let _ = writeln!(
                out,
                "  {:<12} {:>9.0} {:>8.0} {:>8.0} {:>8.0} {:>8.0} {:>11.1} {:>9.0}",
                row.name,
                row.median(LoadSlice::calls_per_second),
                row.median(|slice| slice.percentile(0.5)),
                row.median(|slice| slice.percentile(0.9)),
                row.median(|slice| slice.percentile(0.99)),
                row.median(|slice| slice.percentile(0.999)),
                row.median(LoadSlice::cpu_per_call),
                row.median(|slice| slice.memory_kib as f64),
            );
        }
        if self.spread.is_nan() {
            let _ = writeln!(out, "  too few rounds to conclude: use {MIN_SLICES} or more");
            return out;
        }
        if self.is_noisy() {
            let spread = self.spread * 100.0;
            let _ = writeln!(out, "  too noisy to conclude: the direct slices differ by {spread:.0} %");
            return out;
        }
        for bound_result in &self.bound_results {
            let RatioBound { metric: figure, target: of, baseline: to, limit: bound } = bound_result.bound;
            let (word, which) = metric_text(figure);
            let met = if bound_result.is_met() { "met" } else { "MISSED" };
            let to = if to.is_empty() || to == of { String::new() } else { format!(" to {to}") };
            let _ = writeln!(out, "  {which} of {of}{to}: {:.2} ({word} {bound:.2}: {met})", bound_result.ratio);
        }
        out
    }

    /// Returns the results as JSON.
    pub fn json(&self) -> serde_json::Value {
        let rows = self.rows.iter().map(|row| {
            serde_json::json!({
                "target": row.name,
                "calls_per_second": row.median(LoadSlice::calls_per_second),
                "p50_us": row.median(|slice| slice.percentile(0.5)),
                "p90_us": row.median(|slice| slice.percentile(0.9)),
                "p99_us": row.median(|slice| slice.percentile(0.99)),
                "p999_us": row.median(|slice| slice.percentile(0.999)),
                "cpu_us_per_call": row.median(LoadSlice::cpu_per_call),
                "idle_kib": row.idle_kib,
                "memory_kib": row.median(|slice| slice.memory_kib as f64),
            })
        });
        let bound_results = self.bound_results.iter().map(|bound_result| {
            let RatioBound { metric: figure, target: of, baseline: to, limit: bound } = bound_result.bound;
            let is_met = (!self.is_noisy()).then(|| bound_result.is_met());
            serde_json::json!({"figure": metric_text(figure).1, "of": of, "to": to, "ratio": bound_result.ratio, "bound": bound, "is_met": is_met})
        });
        serde_json::json!({
            "case": self.name, "spread": self.spread, "is_noisy": self.is_noisy(),
            "targets": rows.collect::<Vec<_>>(), "ratios": bound_results.collect::<Vec<_>>(),
        })
    }
}

fn metric_text(figure: Metric) -> (&'static str, &'static str) {
    match figure {
        Metric::Calls => ("at least", "calls per second"),
        Metric::P50 => ("at most", "p50"),
        Metric::P50Beyond { .. } => ("at most", "p50 beyond that of a call without a sync"),
        Metric::P99 => ("at most", "p99"),
        Metric::Cpu => ("at most", "CPU per call"),
        Metric::IdleMemory => ("at most", "KiB more"),
        Metric::MemoryGrowth => ("at most", "memory at the end to that of the first slice"),
    }
}

fn metric_value(figure: Metric, slice: &LoadSlice) -> f64 {
    match figure {
        Metric::Calls => slice.calls_per_second(),
        Metric::P50 | Metric::P50Beyond { .. } => slice.percentile(0.5),
        Metric::P99 => slice.percentile(0.99),
        Metric::Cpu => slice.cpu_per_call(),
        Metric::IdleMemory | Metric::MemoryGrowth => slice.memory_kib as f64,
    }
}

fn spread(slices: &[LoadSlice]) -> f64 {
    if slices.len() < MIN_SLICES {
        return f64::NAN;
    }
    let speeds: Vec<f64> = slices.iter().map(LoadSlice::calls_per_second).collect();
    let most = speeds.iter().copied().fold(f64::MIN, f64::max);
    let least = speeds.iter().copied().fold(f64::MAX, f64::min);
    (most - least) / median(speeds)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}
