//! Measures workloads in short alternating slices, so that other load on the machine affects all alike.

use std::time::{Duration, Instant};

/// Slices per workload.
const ROUNDS_PER_WORKLOAD: usize = 200;
/// Shorter than a scheduler's time slice, so that most slices run undisturbed.
const MIN_SLICE_TIME: Duration = Duration::from_micros(700);

/// Work to measure, repeated the given number of times.
pub type Workload<'a> = Box<dyn FnMut(u64) + 'a>;

/// Nanoseconds per repetition, one value per slice.
pub struct SliceTimes(Vec<f64>);

impl SliceTimes {
    /// Returns the time of the least disturbed slice.
    pub fn min(&self) -> f64 {
        self.0.iter().copied().fold(f64::INFINITY, f64::min)
    }

    pub fn median(&self) -> f64 {
        median(self.0.clone())
    }

    /// Returns the ratio to another workload: of the minimums, and the median of the ratios of neighboring slices.
    pub fn ratio_to(&self, other: &Self) -> (f64, f64) {
        let pairs = self.0.iter().zip(&other.0).map(|(own, other)| own / other);
        (self.min() / other.min(), median(pairs.collect()))
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Creates a workload. Its result is not optimized away.
pub fn workload<'a, T>(mut work: impl FnMut() -> T + 'a) -> Workload<'a> {
    Box::new(move |times| {
        for _ in 0..times {
            std::hint::black_box(work());
        }
    })
}

/// Measures workloads in alternating slices.
pub fn measure_interleaved(workloads: Vec<Workload<'_>>) -> Vec<SliceTimes> {
    let mut workloads: Vec<(Workload<'_>, u64)> = workloads.into_iter().map(calibrate).collect();
    let mut slices: Vec<SliceTimes> =
        workloads.iter().map(|_| SliceTimes(Vec::with_capacity(ROUNDS_PER_WORKLOAD))).collect();
    for _ in 0..ROUNDS_PER_WORKLOAD {
        for ((subject, times), slices) in workloads.iter_mut().zip(&mut slices) {
            slices.0.push(time_runs(subject, *times).as_secs_f64() * 1e9 / *times as f64);
        }
    }
    slices
}

/// Determines how many repetitions fill one slice, at least one.
fn calibrate(mut subject: Workload<'_>) -> (Workload<'_>, u64) {
    let mut times = 1;
    while time_runs(&mut subject, times) < MIN_SLICE_TIME && times < 1 << 24 {
        times *= 2;
    }
    (subject, times.div_ceil(2))
}

fn time_runs(subject: &mut Workload<'_>, times: u64) -> Duration {
    let start = Instant::now();
    subject(times);
    start.elapsed()
}
