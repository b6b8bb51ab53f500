//! Converts model probabilities to calibrated confidence: of the tools with 0.9, nine in ten are right.

use std::collections::BTreeMap;

use gatelodge_policy::Category;
use serde::{Deserialize, Serialize};

/// Upper limit: a definition is only a claim, and the tool was not run.
const MAX_CONFIDENCE: f64 = 0.99;
/// Factor for categories without calibration data.
const UNCALIBRATED_FACTOR: f64 = 0.9;
/// Confidence of Unknown without calibration data.
const UNKNOWN_CATEGORY_CONFIDENCE: f64 = 0.3;

/// Calibration curve of each category: non-decreasing points of probability and observed accuracy.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ConfidenceCalibration {
    /// Points by lower-case category name, sorted by probability.
    pub curves: BTreeMap<String, Vec<(f64, f64)>>,
}

impl ConfidenceCalibration {
    /// Returns the confidence of a category for the model's probability.
    pub fn confidence(&self, category: Category, share: f64) -> f64 {
        let line = self.curves.get(category.as_str()).map(Vec::as_slice).unwrap_or_default();
        let sure = if line.is_empty() && category == Category::Unknown {
            UNKNOWN_CATEGORY_CONFIDENCE
        } else if line.is_empty() {
            share * UNCALIBRATED_FACTOR
        } else {
            interpolate(line, share)
        };
        (sure.clamp(0.05, MAX_CONFIDENCE) * 100.0).round() / 100.0
    }
}

/// Interpolates a curve. It is constant before the first point and after the last.
fn interpolate(line: &[(f64, f64)], at: f64) -> f64 {
    let mut before: Option<(f64, f64)> = None;
    for (x, y) in line.iter().copied() {
        if at <= x {
            return match before {
                Some((left, low)) if x > left => low + (y - low) * (at - left) / (x - left),
                _ => y,
            };
        }
        before = Some((x, y));
    }
    before.map_or(at, |(_, y)| y)
}
