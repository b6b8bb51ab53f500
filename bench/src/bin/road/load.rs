//! Two ways to ask: each connection when it has its answer, or by the clock, whatever became of the answers.

use std::time::{Duration, Instant};

use super::caller::{Caller, Talk};
use super::target::Target;
use super::{disk, lines};

/// What one target did in one slice.
#[derive(Default)]
pub struct Slice {
    pub calls: usize,
    pub seconds: f64,
    /// Microseconds of CPU that the target used.
    pub cpu: u64,
    /// KiB that it has.
    pub memory: u64,
    times: Vec<u32>,
}

impl Slice {
    pub fn of(mut times: Vec<u32>, time: Duration) -> Self {
        times.sort_unstable();
        Self { calls: times.len(), seconds: time.as_secs_f64(), cpu: 0, memory: 0, times }
    }

    /// Microseconds below which so many answers came.
    pub fn percentile(&self, share: f64) -> f64 {
        let at = (self.times.len() as f64 * share) as usize;
        self.times.get(at.min(self.times.len().saturating_sub(1))).copied().map_or(0.0, f64::from)
    }

    pub fn calls_per_second(&self) -> f64 {
        self.calls as f64 / self.seconds
    }

    pub fn cpu_per_call(&self) -> f64 {
        self.cpu as f64 / self.calls.max(1) as f64
    }
}

/// How a slice is filled.
#[derive(Clone, Copy)]
pub struct Load {
    pub talk: Talk,
    pub connections: usize,
    pub time: Duration,
    /// Calls per second of all connections together; none for a closed loop.
    pub rate: Option<f64>,
}

/// Fills one slice.
pub async fn storm(target: &Target, mut load: Load) -> Slice {
    if target.is_alone {
        load.connections = 1;
    }
    if let Some(file) = &target.disk {
        return Slice::of(disk::kept(file, load.time), load.time);
    }
    if let Some(command) = &target.command {
        return lines::storm(command, load).await;
    }
    let mut callers = Vec::with_capacity(load.connections);
    for _ in 0..load.connections {
        callers.push(Caller::open(target, load.talk).await);
    }
    let before = target.cpu_microseconds();
    let since = Instant::now();
    let times = match load.rate {
        None => closed(callers, since + load.time).await,
        Some(rate) => open(callers, since, load.time, rate).await,
    };
    let mut slice = Slice::of(times, since.elapsed());
    slice.cpu = target.cpu_microseconds() - before;
    slice.memory = target.memory_kib();
    slice
}

async fn closed(callers: Vec<Caller>, end: Instant) -> Vec<u32> {
    let ask_on = |mut caller: Caller| async move {
        let mut times = Vec::with_capacity(1 << 14);
        let mut since = Instant::now();
        while since < end {
            times.push(microseconds(caller.ask().await - since));
            since = Instant::now();
        }
        times
    };
    gathered(callers.into_iter().map(|caller| tokio::spawn(ask_on(caller))).collect()).await
}

/// Each connection has its times to ask. Where it is late because an answer was, that counts as waiting.
async fn open(callers: Vec<Caller>, start: Instant, time: Duration, rate: f64) -> Vec<u32> {
    let between = Duration::from_secs_f64(callers.len() as f64 / rate);
    let count = callers.len() as f64;
    let ask_on = |mut caller: Caller, mut due: Instant| async move {
        let mut times = Vec::new();
        while due < start + time {
            tokio::time::sleep_until(due.into()).await;
            let sent = Instant::now().max(due);
            let late = sent - due;
            let took = caller.ask().await - sent;
            // Timers are late by up to a millisecond, which is our own fault; behind by a whole turn is the target's.
            times.push(microseconds(if late > between { late + took } else { took }));
            due += between;
        }
        times
    };
    let tasks = callers.into_iter().enumerate();
    let tasks = tasks.map(|(at, caller)| tokio::spawn(ask_on(caller, start + between.mul_f64(at as f64 / count))));
    gathered(tasks.collect()).await
}

async fn gathered(tasks: Vec<tokio::task::JoinHandle<Vec<u32>>>) -> Vec<u32> {
    let mut times = Vec::new();
    for task in tasks {
        times.extend(task.await.expect("a caller"));
    }
    times
}

pub fn microseconds(time: Duration) -> u32 {
    u32::try_from(time.as_micros()).unwrap_or(u32::MAX)
}
