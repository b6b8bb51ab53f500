//! Reports figures as a table or as JSON.

use std::fmt::Write as _;

use crate::interleaved_timing::SliceTimes;

/// Figures that are measured together.
pub struct BenchGroup {
    pub name: &'static str,
    pub run: fn() -> Vec<BenchFigure>,
}

/// One line of the report.
pub struct BenchFigure {
    name: String,
    unit: FigureUnit,
    min: f64,
    median: f64,
    /// Upper bound of the minimum.
    max_value: Option<f64>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum FigureUnit {
    Nanoseconds,
    Milliseconds,
    MegabytesPerSecond,
    Ratio,
    Count,
}

impl FigureUnit {
    fn as_str(self) -> &'static str {
        match self {
            Self::Nanoseconds => "ns",
            Self::Milliseconds => "ms",
            Self::MegabytesPerSecond => "MB/s",
            Self::Ratio => "times",
            Self::Count => "allocations",
        }
    }

    /// Formats about three significant digits.
    fn format(self, value: f64) -> String {
        match self {
            Self::Nanoseconds | Self::MegabytesPerSecond | Self::Count => format!("{value:.0}"),
            Self::Milliseconds => format!("{value:.1}"),
            Self::Ratio => format!("{value:.2}"),
        }
    }
}

impl BenchFigure {
    fn new(name: impl Into<String>, unit: FigureUnit, (min, median): (f64, f64)) -> Self {
        Self { name: name.into(), unit, min, median, max_value: None }
    }

    pub fn nanoseconds(name: impl Into<String>, slices: &SliceTimes) -> Self {
        Self::new(name, FigureUnit::Nanoseconds, (slices.min(), slices.median()))
    }

    pub fn milliseconds(name: impl Into<String>, slices: &SliceTimes) -> Self {
        Self::new(name, FigureUnit::Milliseconds, (slices.min() / 1e6, slices.median() / 1e6))
    }

    /// Throughput of `bytes` per run.
    pub fn throughput(name: impl Into<String>, bytes: usize, slices: &SliceTimes) -> Self {
        let speed = |nanoseconds: f64| bytes as f64 / nanoseconds * 1e3;
        Self::new(name, FigureUnit::MegabytesPerSecond, (speed(slices.min()), speed(slices.median())))
    }

    pub fn ratio(name: impl Into<String>, slices: &SliceTimes, to: &SliceTimes) -> Self {
        Self::new(name, FigureUnit::Ratio, slices.ratio_to(to))
    }

    pub fn count(name: impl Into<String>, count: u64) -> Self {
        Self::new(name, FigureUnit::Count, (count as f64, count as f64))
    }

    pub fn with_max(mut self, target: f64) -> Self {
        self.max_value = Some(target);
        self
    }

    pub fn is_met(&self) -> bool {
        self.max_value.is_none_or(|target| self.min <= target)
    }

    fn row(&self) -> String {
        let (least, median) = (self.unit.format(self.min), self.unit.format(self.median));
        let target = match self.max_value {
            None => String::new(),
            Some(target) => format!("at most {target}: {}", if self.is_met() { "met" } else { "MISSED" }),
        };
        let row = format!("  {:<58} {least:>9} {median:>9} {:<11} {target}", self.name, self.unit.as_str());
        row.trim_end().to_owned()
    }
}

pub fn figures_table(groups: &[(&str, Vec<BenchFigure>)]) -> String {
    let mut out = format!("{:<60} {:>9} {:>9} {:<11} target\n", "", "least", "median", "unit");
    for (name, figures) in groups {
        let _ = writeln!(out, "{name}");
        for figure in figures {
            let _ = writeln!(out, "{}", figure.row());
        }
    }
    out
}

pub fn figures_json(groups: &[(&str, Vec<BenchFigure>)]) -> String {
    let figure = |group: &str, figure: &BenchFigure| {
        serde_json::json!({
            "group": group,
            "name": figure.name,
            "unit": figure.unit.as_str(),
            "least": figure.min,
            "median": figure.median,
            "target": figure.max_value,
            "met": figure.is_met(),
        })
    };
    let all = groups.iter().flat_map(|(group, figures)| figures.iter().map(|own| figure(group, own)));
    format!("{:#}\n", serde_json::Value::Array(all.collect()))
}
