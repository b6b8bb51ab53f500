//! From the model's share to a confidence: of the tools given 0.9, nine in ten are right.

use std::collections::BTreeMap;

use gatelodge_policy::Category;
use serde::{Deserialize, Serialize};

/// Never surer than this: a definition is a claim, and nobody ran the tool.
const MAX_CONFIDENCE: f64 = 0.99;
/// Where nothing was learned for a category.
const UNCALIBRATED_FACTOR: f64 = 0.9;
/// The same for a tool of which nothing is known.
const UNKNOWN_CATEGORY_CONFIDENCE: f64 = 0.3;

/// For each category, points of a line that never falls: the share, and how often it was right.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ConfidenceCalibration {
    /// The points of each category, by its word in small letters, sorted by share.
    pub curves: BTreeMap<String, Vec<(f64, f64)>>,
}

impl ConfidenceCalibration {
    /// How sure to be of a category, by the model's share for it.
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

/// The height of a line at a place; level before its first point and behind its last.
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
