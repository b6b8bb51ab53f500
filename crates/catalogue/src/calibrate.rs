//! From the model's share to a confidence: of the tools given 0.9, nine in ten are right.

use std::collections::BTreeMap;

use gatelodge_policy::Category;
use serde::{Deserialize, Serialize};

/// Never surer than this: a definition is a claim, and nobody ran the tool.
const MOST: f64 = 0.99;
/// Where nothing was learned for a category.
const UNLEARNED: f64 = 0.9;
/// The same for a tool of which nothing is known.
const UNKNOWN: f64 = 0.3;

/// For each category, points of a line that never falls: the share, and how often it was right.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Calibration {
    pub lines: BTreeMap<String, Vec<(f64, f64)>>,
}

impl Calibration {
    /// How sure to be of a category, by the model's share for it.
    pub fn confidence(&self, category: Category, share: f64) -> f64 {
        let line = self.lines.get(category.as_str()).map(Vec::as_slice).unwrap_or_default();
        let sure = if line.is_empty() && category == Category::Unknown {
            UNKNOWN
        } else if line.is_empty() {
            share * UNLEARNED
        } else {
            along(line, share)
        };
        (sure.clamp(0.05, MOST) * 100.0).round() / 100.0
    }
}

/// The height of a line at a place; level before its first point and behind its last.
fn along(line: &[(f64, f64)], at: f64) -> f64 {
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

/// Fits a line that never falls to what was right and what was not: neighbours that fall are pooled.
pub(crate) fn fit(mut seen: Vec<(f64, bool)>) -> Vec<(f64, f64)> {
    /// Fewer than this in a pool say little; a new point needs so many.
    const LEAST: usize = 25;
    seen.sort_by(|one, other| one.0.total_cmp(&other.0));
    let mut pools: Vec<(f64, f64, f64)> = Vec::new();
    for chunk in seen.chunks(LEAST) {
        let count = chunk.len() as f64;
        let share = chunk.iter().map(|(share, _)| share).sum::<f64>();
        let right = chunk.iter().filter(|(_, is_right)| *is_right).count() as f64;
        pools.push((share, right, count));
        while let [.., before, last] = pools.as_mut_slice()
            && before.1 / before.2 >= last.1 / last.2
        {
            *before = (before.0 + last.0, before.1 + last.1, before.2 + last.2);
            pools.pop();
        }
    }
    let three = |value: f64| (value * 1_000.0).round() / 1_000.0;
    // As if one more had been right and one more wrong: few cases prove little.
    let smooth = |right: f64, count: f64| (right + 1.0) / (count + 2.0);
    pools.into_iter().map(|(share, right, count)| (three(share / count), three(smooth(right, count)))).collect()
}

#[cfg(test)]
mod tests {
    use super::{along, fit};

    #[test]
    fn a_fitted_line_never_falls() {
        let seen = (0..1_000).map(|at| (f64::from(at) / 1_000.0, (at * 7_919) % 1_000 < at)).collect();
        let line = fit(seen);
        assert!(line.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1 + 0.02), "{line:?}");
        assert!((along(&line, 0.5) - 0.5).abs() < 0.12);
        assert!(along(&line, 0.0) < 0.2 && along(&line, 1.0) > 0.8);
    }
}
