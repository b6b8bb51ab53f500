//! Time in short slices that take turns, so that a busy machine disturbs all subjects alike.

use std::time::{Duration, Instant};

/// How often each subject has its turn.
const ROUNDS_PER_WORKLOAD: usize = 200;
/// Shorter than what a scheduler gives a process at once: most slices run undisturbed.
const MIN_SLICE_TIME: Duration = Duration::from_micros(700);

/// Something to measure: it does its work so many times.
pub type Workload<'a> = Box<dyn FnMut(u64) + 'a>;

/// Nanoseconds for one piece of work, one value per slice.
pub struct SliceTimes(Vec<f64>);

impl SliceTimes {
    /// The slice that was disturbed least.
    pub fn min(&self) -> f64 {
        self.0.iter().copied().fold(f64::INFINITY, f64::min)
    }

    pub fn median(&self) -> f64 {
        median(self.0.clone())
    }

    /// How much longer this took than the other: by the least of each, and by the median of neighbouring slices.
    pub fn ratio_to(&self, other: &Self) -> (f64, f64) {
        let pairs = self.0.iter().zip(&other.0).map(|(own, other)| own / other);
        (self.min() / other.min(), median(pairs.collect()))
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Makes a subject of one piece of work; its result is made, never optimised away.
pub fn workload<'a, T>(mut work: impl FnMut() -> T + 'a) -> Workload<'a> {
    Box::new(move |times| {
        for _ in 0..times {
            std::hint::black_box(work());
        }
    })
}

/// Measures the subjects in alternating slices.
pub fn measure_interleaved(subjects: Vec<Workload<'_>>) -> Vec<SliceTimes> {
    let mut subjects: Vec<(Workload<'_>, u64)> = subjects.into_iter().map(calibrate).collect();
    let mut slices: Vec<SliceTimes> =
        subjects.iter().map(|_| SliceTimes(Vec::with_capacity(ROUNDS_PER_WORKLOAD))).collect();
    for _ in 0..ROUNDS_PER_WORKLOAD {
        for ((subject, times), slices) in subjects.iter_mut().zip(&mut slices) {
            slices.0.push(time_runs(subject, *times).as_secs_f64() * 1e9 / *times as f64);
        }
    }
    slices
}

/// Finds out how often the work fits into one slice; at least once.
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
