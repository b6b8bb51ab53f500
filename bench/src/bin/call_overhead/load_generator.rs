//! Generates load: in a closed loop, each connection sends the next request after its reply; in an open loop, at a
//! fixed rate.

use std::time::{Duration, Instant};

use super::bench_client::{BenchClient, RequestKind};
use super::bench_target::BenchTarget;
use super::{disk_baseline, stdio_client};

/// Results of one target in one slice.
#[derive(Default)]
pub struct LoadSlice {
    pub calls: usize,
    pub seconds: f64,
    /// CPU time of the target in microseconds.
    pub cpu_micros: u64,
    /// Resident memory in KiB.
    pub memory_kib: u64,
    latencies: Vec<u32>,
}

impl LoadSlice {
    pub fn of(mut latencies: Vec<u32>, time: Duration) -> Self {
        latencies.sort_unstable();
        Self { calls: latencies.len(), seconds: time.as_secs_f64(), cpu_micros: 0, memory_kib: 0, latencies }
    }

    /// Returns a percentile of the latencies in microseconds.
    pub fn percentile(&self, share: f64) -> f64 {
        let at = (self.latencies.len() as f64 * share) as usize;
        self.latencies.get(at.min(self.latencies.len().saturating_sub(1))).copied().map_or(0.0, f64::from)
    }

    pub fn calls_per_second(&self) -> f64 {
        self.calls as f64 / self.seconds
    }

    pub fn cpu_per_call(&self) -> f64 {
        self.cpu_micros as f64 / self.calls.max(1) as f64
    }
}

/// Load of a slice.
#[derive(Clone, Copy)]
pub struct LoadSpec {
    pub request_kind: RequestKind,
    pub connections: usize,
    pub time: Duration,
    /// Calls per second of all connections together. `None` for a closed loop.
    pub rate: Option<f64>,
}

/// Runs one slice.
pub async fn run_slice(target: &BenchTarget, mut load: LoadSpec) -> LoadSlice {
    if target.is_single_connection {
        load.connections = 1;
    }
    if let Some(file) = &target.disk_file {
        return LoadSlice::of(disk_baseline::sync_pages(file, load.time), load.time);
    }
    if let Some(command) = &target.command {
        return stdio_client::run_stdio_slice(command, load).await;
    }
    let mut callers = Vec::with_capacity(load.connections);
    for _ in 0..load.connections {
        callers.push(BenchClient::open(target, load.request_kind).await);
    }
    let before = target.cpu_microseconds();
    let since = Instant::now();
    let times = match load.rate {
        None => run_closed_loop(callers, since + load.time).await,
        Some(rate) => run_open_loop(callers, since, load.time, rate).await,
    };
    let mut slice = LoadSlice::of(times, since.elapsed());
    slice.cpu_micros = target.cpu_microseconds() - before;
    slice.memory_kib = target.memory_kib();
    slice
}

async fn run_closed_loop(callers: Vec<BenchClient>, end: Instant) -> Vec<u32> {
    let ask_on = |mut caller: BenchClient| async move {
        let mut times = Vec::with_capacity(1 << 14);
        let mut since = Instant::now();
        while since < end {
            times.push(microseconds(caller.call().await - since));
            since = Instant::now();
        }
        times
    };
    collect_latencies(callers.into_iter().map(|caller| tokio::spawn(ask_on(caller))).collect()).await
}

/// Sends requests at scheduled times. A delay caused by an earlier reply counts as latency.
async fn run_open_loop(callers: Vec<BenchClient>, start: Instant, time: Duration, rate: f64) -> Vec<u32> {
    let between = Duration::from_secs_f64(callers.len() as f64 / rate);
    let count = callers.len() as f64;
    let ask_on = |mut caller: BenchClient, mut due: Instant| async move {
        let mut times = Vec::new();
        while due < start + time {
            tokio::time::sleep_until(due.into()).await;
            let sent = Instant::now().max(due);
            let late = sent - due;
            let took = caller.call().await - sent;
            // Timers are up to a millisecond late, which is not the target's fault; a delay of a whole interval is.
            times.push(microseconds(if late > between { late + took } else { took }));
            due += between;
        }
        times
    };
    let tasks = callers.into_iter().enumerate();
    let tasks = tasks.map(|(at, caller)| tokio::spawn(ask_on(caller, start + between.mul_f64(at as f64 / count))));
    collect_latencies(tasks.collect()).await
}

async fn collect_latencies(tasks: Vec<tokio::task::JoinHandle<Vec<u32>>>) -> Vec<u32> {
    let mut times = Vec::new();
    for task in tasks {
        times.extend(task.await.expect("a caller"));
    }
    times
}

pub fn microseconds(time: Duration) -> u32 {
    u32::try_from(time.as_micros()).unwrap_or(u32::MAX)
}
