//! Time in short slices that take turns, so that a busy machine disturbs all subjects alike.

use std::time::{Duration, Instant};

/// How often each subject has its turn.
const ROUNDS: usize = 200;
/// Shorter than what a scheduler gives a process at once: most slices run undisturbed.
const SLICE: Duration = Duration::from_micros(700);

/// Something to measure: it does its work so many times.
pub type Subject<'a> = Box<dyn FnMut(u64) + 'a>;

/// Nanoseconds for one piece of work, one value per slice.
pub struct Slices(Vec<f64>);

impl Slices {
    /// The slice that was disturbed least.
    pub fn least(&self) -> f64 {
        self.0.iter().copied().fold(f64::INFINITY, f64::min)
    }

    pub fn median(&self) -> f64 {
        median(self.0.clone())
    }

    /// How much longer this took than the other: by the least of each, and by the median of neighbouring slices.
    pub fn ratio_to(&self, other: &Self) -> (f64, f64) {
        let pairs = self.0.iter().zip(&other.0).map(|(own, other)| own / other);
        (self.least() / other.least(), median(pairs.collect()))
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Makes a subject of one piece of work; its result is made, never optimised away.
pub fn subject<'a, T>(mut work: impl FnMut() -> T + 'a) -> Subject<'a> {
    Box::new(move |times| {
        for _ in 0..times {
            std::hint::black_box(work());
        }
    })
}

/// Measures the subjects in alternating slices.
pub fn side_by_side(subjects: Vec<Subject<'_>>) -> Vec<Slices> {
    let mut subjects: Vec<(Subject<'_>, u64)> = subjects.into_iter().map(calibrated).collect();
    let mut slices: Vec<Slices> = subjects.iter().map(|_| Slices(Vec::with_capacity(ROUNDS))).collect();
    for _ in 0..ROUNDS {
        for ((subject, times), slices) in subjects.iter_mut().zip(&mut slices) {
            slices.0.push(time(subject, *times).as_secs_f64() * 1e9 / *times as f64);
        }
    }
    slices
}

/// Finds out how often the work fits into one slice; at least once.
fn calibrated(mut subject: Subject<'_>) -> (Subject<'_>, u64) {
    let mut times = 1;
    while time(&mut subject, times) < SLICE && times < 1 << 24 {
        times *= 2;
    }
    (subject, times.div_ceil(2))
}

fn time(subject: &mut Subject<'_>, times: u64) -> Duration {
    let start = Instant::now();
    subject(times);
    start.elapsed()
}
