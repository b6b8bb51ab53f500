//! Figures as a table for people and as JSON for programs.

use std::fmt::Write as _;

use crate::measure::Slices;

/// Figures that are measured together.
pub struct Group {
    pub name: &'static str,
    pub run: fn() -> Vec<Figure>,
}

/// One line of the report.
pub struct Figure {
    name: String,
    unit: Unit,
    least: f64,
    median: f64,
    /// What the least may reach.
    target: Option<f64>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Unit {
    Nanoseconds,
    Milliseconds,
    MegabytesPerSecond,
    Ratio,
    Count,
}

impl Unit {
    fn as_str(self) -> &'static str {
        match self {
            Self::Nanoseconds => "ns",
            Self::Milliseconds => "ms",
            Self::MegabytesPerSecond => "MB/s",
            Self::Ratio => "times",
            Self::Count => "allocations",
        }
    }

    /// Three or so significant digits.
    fn format(self, value: f64) -> String {
        match self {
            Self::Nanoseconds | Self::MegabytesPerSecond | Self::Count => format!("{value:.0}"),
            Self::Milliseconds => format!("{value:.1}"),
            Self::Ratio => format!("{value:.2}"),
        }
    }
}

impl Figure {
    fn new(name: impl Into<String>, unit: Unit, (least, median): (f64, f64)) -> Self {
        Self { name: name.into(), unit, least, median, target: None }
    }

    pub fn nanoseconds(name: impl Into<String>, slices: &Slices) -> Self {
        Self::new(name, Unit::Nanoseconds, (slices.least(), slices.median()))
    }

    pub fn milliseconds(name: impl Into<String>, slices: &Slices) -> Self {
        Self::new(name, Unit::Milliseconds, (slices.least() / 1e6, slices.median() / 1e6))
    }

    /// How fast so many bytes went through.
    pub fn speed(name: impl Into<String>, bytes: usize, slices: &Slices) -> Self {
        let speed = |nanoseconds: f64| bytes as f64 / nanoseconds * 1e3;
        Self::new(name, Unit::MegabytesPerSecond, (speed(slices.least()), speed(slices.median())))
    }

    pub fn ratio(name: impl Into<String>, slices: &Slices, to: &Slices) -> Self {
        Self::new(name, Unit::Ratio, slices.ratio_to(to))
    }

    pub fn count(name: impl Into<String>, count: u64) -> Self {
        Self::new(name, Unit::Count, (count as f64, count as f64))
    }

    pub fn at_most(mut self, target: f64) -> Self {
        self.target = Some(target);
        self
    }

    pub fn is_met(&self) -> bool {
        self.target.is_none_or(|target| self.least <= target)
    }

    fn row(&self) -> String {
        let (least, median) = (self.unit.format(self.least), self.unit.format(self.median));
        let target = match self.target {
            None => String::new(),
            Some(target) => format!("at most {target}: {}", if self.is_met() { "met" } else { "MISSED" }),
        };
        let row = format!("  {:<58} {least:>9} {median:>9} {:<11} {target}", self.name, self.unit.as_str());
        row.trim_end().to_owned()
    }
}

pub fn table(groups: &[(&str, Vec<Figure>)]) -> String {
    let mut out = format!("{:<60} {:>9} {:>9} {:<11} target\n", "", "least", "median", "unit");
    for (name, figures) in groups {
        let _ = writeln!(out, "{name}");
        for figure in figures {
            let _ = writeln!(out, "{}", figure.row());
        }
    }
    out
}

pub fn json(groups: &[(&str, Vec<Figure>)]) -> String {
    let figure = |group: &str, figure: &Figure| {
        serde_json::json!({
            "group": group,
            "name": figure.name,
            "unit": figure.unit.as_str(),
            "least": figure.least,
            "median": figure.median,
            "target": figure.target,
            "met": figure.is_met(),
        })
    };
    let all = groups.iter().flat_map(|(group, figures)| figures.iter().map(|own| figure(group, own)));
    format!("{:#}\n", serde_json::Value::Array(all.collect()))
}
