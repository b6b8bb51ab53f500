//! Figures of a case: medians of its slices, ratios within rounds, and whether they keep their bounds.

use std::fmt::Write as _;

use super::case::{Bound, Case, Figure};
use super::load::Slice;

/// Beyond this spread of the direct slices the machine does too much else.
const NOISY: f64 = 0.25;
/// Fewer slices do not show how far they lie apart.
const FEWEST: usize = 3;

/// What was measured of a case.
pub struct Measured {
    pub name: &'static str,
    pub rows: Vec<Row>,
    /// How far the direct slices lie apart, as a share of their median.
    pub spread: f64,
    pub verdicts: Vec<Verdict>,
}

/// One target's figures.
pub struct Row {
    pub name: String,
    slices: Vec<Slice>,
    idle_kib: u64,
}

/// A ratio and its bound.
pub struct Verdict {
    bound: Bound,
    ratio: f64,
}

impl Row {
    pub fn new(name: &str, idle_kib: u64) -> Self {
        Self { name: name.to_owned(), slices: Vec::new(), idle_kib }
    }

    pub fn push(&mut self, slice: Slice) {
        self.slices.push(slice);
    }

    /// How many calls it has answered.
    pub fn calls(&self) -> usize {
        self.slices.iter().map(|slice| slice.calls).sum()
    }

    fn growth(&self) -> f64 {
        let memory = |slice: Option<&Slice>| slice.map_or(0.0, |slice| slice.memory as f64);
        memory(self.slices.last()) / memory(self.slices.first())
    }

    fn median(&self, of: impl Fn(&Slice) -> f64) -> f64 {
        median(self.slices.iter().map(of).collect())
    }
}

impl Verdict {
    fn is_met(&self) -> bool {
        match self.bound.figure {
            Figure::Calls => self.ratio >= self.bound.bound,
            _ => self.ratio <= self.bound.bound,
        }
    }
}

impl Measured {
    pub fn of(case: &Case, rows: Vec<Row>) -> Self {
        let spread = rows.iter().find(|row| row.name == "direct").map_or(0.0, |row| spread(&row.slices));
        let ratio = |bound: &Bound| {
            let find = |name: &str| rows.iter().find(|row| row.name == name);
            let of = find(bound.of)?;
            let alone = match bound.figure {
                Figure::Idle => Some(of.idle_kib as f64 - find(bound.to).map_or(0.0, |to| to.idle_kib as f64)),
                Figure::Growth => Some(of.growth()),
                _ => None,
            };
            if let Some(ratio) = alone {
                return Some(Verdict { bound: *bound, ratio });
            }
            let to = find(bound.to)?;
            let without = match bound.figure {
                Figure::Wait { beyond } => Some(find(beyond)?),
                _ => None,
            };
            let pairs = of.slices.iter().zip(&to.slices).enumerate();
            let ratios = pairs.map(|(round, (of, to))| {
                let without = without.and_then(|row| row.slices.get(round));
                let without = without.map_or(0.0, |slice| value(bound.figure, slice));
                (value(bound.figure, of) - without) / value(bound.figure, to)
            });
            let ratios = ratios.collect();
            Some(Verdict { bound: *bound, ratio: median(ratios) })
        };
        let verdicts = case.bounds.iter().filter_map(ratio).collect();
        Self { name: case.name, spread, verdicts, rows }
    }

    pub fn is_noisy(&self) -> bool {
        self.spread.is_nan() || self.spread > NOISY
    }

    pub fn is_missed(&self) -> bool {
        !self.is_noisy() && self.verdicts.iter().any(|verdict| !verdict.is_met())
    }

    /// As a table for people.
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
                row.median(Slice::calls_per_second),
                row.median(|slice| slice.percentile(0.5)),
                row.median(|slice| slice.percentile(0.9)),
                row.median(|slice| slice.percentile(0.99)),
                row.median(|slice| slice.percentile(0.999)),
                row.median(Slice::cpu_per_call),
                row.median(|slice| slice.memory as f64),
            );
        }
        if self.spread.is_nan() {
            let _ = writeln!(out, "  too few rounds to conclude: ask for {FEWEST} or more; no verdict");
            return out;
        }
        if self.is_noisy() {
            let spread = self.spread * 100.0;
            let _ = writeln!(out, "  too noisy to conclude: the direct slices lie {spread:.0} % apart; no verdict");
            return out;
        }
        for verdict in &self.verdicts {
            let Bound { figure, of, to, bound } = verdict.bound;
            let (word, which) = words(figure);
            let met = if verdict.is_met() { "met" } else { "MISSED" };
            let to = if to.is_empty() || to == of { String::new() } else { format!(" to {to}") };
            let _ = writeln!(out, "  {which} of {of}{to}: {:.2} ({word} {bound:.2}: {met})", verdict.ratio);
        }
        out
    }

    /// As JSON for programs.
    pub fn json(&self) -> serde_json::Value {
        let rows = self.rows.iter().map(|row| {
            serde_json::json!({
                "target": row.name,
                "calls_per_second": row.median(Slice::calls_per_second),
                "p50_us": row.median(|slice| slice.percentile(0.5)),
                "p90_us": row.median(|slice| slice.percentile(0.9)),
                "p99_us": row.median(|slice| slice.percentile(0.99)),
                "p999_us": row.median(|slice| slice.percentile(0.999)),
                "cpu_us_per_call": row.median(Slice::cpu_per_call),
                "idle_kib": row.idle_kib,
                "memory_kib": row.median(|slice| slice.memory as f64),
            })
        });
        let verdicts = self.verdicts.iter().map(|verdict| {
            let Bound { figure, of, to, bound } = verdict.bound;
            let is_met = (!self.is_noisy()).then(|| verdict.is_met());
            serde_json::json!({"figure": words(figure).1, "of": of, "to": to, "ratio": verdict.ratio, "bound": bound, "is_met": is_met})
        });
        serde_json::json!({
            "case": self.name, "spread": self.spread, "is_noisy": self.is_noisy(),
            "targets": rows.collect::<Vec<_>>(), "ratios": verdicts.collect::<Vec<_>>(),
        })
    }
}

fn words(figure: Figure) -> (&'static str, &'static str) {
    match figure {
        Figure::Calls => ("at least", "calls per second"),
        Figure::P50 => ("at most", "p50"),
        Figure::Wait { .. } => ("at most", "p50 beyond that of a call without a sync"),
        Figure::P99 => ("at most", "p99"),
        Figure::Cpu => ("at most", "CPU per call"),
        Figure::Idle => ("at most", "KiB more"),
        Figure::Growth => ("at most", "memory at the end to that of the first slice"),
    }
}

fn value(figure: Figure, slice: &Slice) -> f64 {
    match figure {
        Figure::Calls => slice.calls_per_second(),
        Figure::P50 | Figure::Wait { .. } => slice.percentile(0.5),
        Figure::P99 => slice.percentile(0.99),
        Figure::Cpu => slice.cpu_per_call(),
        Figure::Idle | Figure::Growth => slice.memory as f64,
    }
}

fn spread(slices: &[Slice]) -> f64 {
    if slices.len() < FEWEST {
        return f64::NAN;
    }
    let speeds: Vec<f64> = slices.iter().map(Slice::calls_per_second).collect();
    let most = speeds.iter().copied().fold(f64::MIN, f64::max);
    let least = speeds.iter().copied().fold(f64::MAX, f64::min);
    (most - least) / median(speeds)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}
