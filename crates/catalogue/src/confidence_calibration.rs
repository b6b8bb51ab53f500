//! Converts the model's probabilities to calibrated confidence: of the tools with a confidence of 0.9, nine in ten are
//! classified correctly.

use std::collections::BTreeMap;

use gatelodge_policy::Category;
use serde::{Deserialize, Serialize};

/// Maximum confidence. Certainty is impossible, because a definition is only a claim and the tool has not been run.
const MAX_CONFIDENCE: f64 = 0.99;
/// Factor applied to the model's probability for categories without calibration data.
const UNCALIBRATED_FACTOR: f64 = 0.9;
/// Confidence in the category Unknown if there is no calibration data for it.
const UNKNOWN_CATEGORY_CONFIDENCE: f64 = 0.3;

/// A calibration curve for each category: observed accuracy as a non-decreasing function of the probability.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ConfidenceCalibration {
    /// Pairs of probability and accuracy, sorted by probability and keyed by the lower-case category name.
    pub curves: BTreeMap<String, Vec<(f64, f64)>>,
}

impl ConfidenceCalibration {
    /// Returns the confidence that corresponds to the model's probability for a category.
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

/// Interpolates a curve, which is constant before its first point and after its last.
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
