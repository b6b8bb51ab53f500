//! Fits the curves of a [`ConfidenceCalibration`](gatelodge_catalogue::training_interface::ConfidenceCalibration).

/// Fits a non-decreasing curve that maps predicted probabilities to the share of predictions that were right, with the
/// pool-adjacent-violators algorithm.
pub(super) fn fit(mut seen: Vec<(f64, bool)>) -> Vec<(f64, f64)> {
    /// Minimum number of predictions for each point on the curve.
    const MIN_POOL_SIZE: usize = 25;
    seen.sort_by(|one, other| one.0.total_cmp(&other.0));
    let mut pools: Vec<(f64, f64, f64)> = Vec::new();
    for chunk in seen.chunks(MIN_POOL_SIZE) {
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
    // Laplace smoothing: few cases prove little.
    let smooth = |right: f64, count: f64| (right + 1.0) / (count + 2.0);
    pools.into_iter().map(|(share, right, count)| (three(share / count), three(smooth(right, count)))).collect()
}

#[cfg(test)]
mod tests {
    use gatelodge_catalogue::training_interface::ConfidenceCalibration;
    use gatelodge_policy::Category;

    use super::fit;

    #[test]
    fn fitted_curve_never_decreases() {
        let seen = (0..1_000).map(|at| (f64::from(at) / 1_000.0, (at * 7_919) % 1_000 < at)).collect();
        let line = fit(seen);
        assert!(line.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1 + 0.02), "{line:?}");
        let calibration = ConfidenceCalibration { curves: [(Category::Write.as_str().to_owned(), line)].into() };
        let confidence = |share: f64| calibration.confidence(Category::Write, share);
        assert!((confidence(0.5) - 0.5).abs() < 0.12);
        assert!(confidence(0.0) < 0.2 && confidence(1.0) > 0.8);
    }
}
