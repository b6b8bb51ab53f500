//! What the road of a call costs: directly, through a plain proxy, and through the gateway with everything on.
//!
//!     cargo build --release -p gatelodge
//!     cargo run --release -p gatelodge-bench --bin road [-- --seconds 2 --rounds 5 --connections 16]
//!
//! Targets take turns in slices within one run, so that what else the machine does hits all alike. Every answer's
//! content is checked. CPU is what the target's processes used, as the kernel counts it. Needs nginx.
#![allow(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a broken benchmark should stop")]

#[path = "road/load.rs"]
mod load;
#[path = "road/target.rs"]
mod target;
#[path = "road/upstream.rs"]
mod upstream;

use std::time::Duration;

use load::{Slice, open_sessions, storm};
use target::Target;

/// What was asked on the command line.
struct Options {
    seconds: u64,
    rounds: usize,
    connections: usize,
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [flag, port] = words.as_slice()
        && flag == "--upstream"
    {
        return upstream::serve(port.parse().expect("a port")).await;
    }
    let number = |name: &str, default: usize| {
        let at = words.iter().position(|word| word == name);
        at.map_or(default, |at| words[at + 1].parse().expect("a number"))
    };
    let options = Options {
        seconds: number("--seconds", 2) as u64,
        rounds: number("--rounds", 5),
        connections: number("--connections", 16),
    };
    let folder = tempfile::tempdir().expect("a folder");
    let upstream = target::upstream();
    let mut targets = vec![target::direct(&upstream), target::nginx(&upstream, folder.path())];
    targets.push(target::gatelodge(&upstream, folder.path()));
    let idle = targets[2].memory_kib();

    let mut slices: Vec<Vec<Slice>> = targets.iter().map(|_| Vec::new()).collect();
    for round in 0..=options.rounds {
        for (target, slices) in targets.iter().zip(&mut slices) {
            let before = target.cpu_microseconds();
            let mut slice = storm(target, options.connections, Duration::from_secs(options.seconds)).await;
            slice.cpu = target.cpu_microseconds() - before;
            // The first round warms up.
            if round > 0 {
                slices.push(slice);
            }
        }
    }
    report(&targets, &slices);
    let sessions = open_sessions(&targets[2], 1_000).await;
    println!("\nmemory of the gateway: {idle} KiB idle, {} KiB with {sessions} open sessions", targets[2].memory_kib());
}

fn report(targets: &[Target], slices: &[Vec<Slice>]) {
    println!(
        "{:<10} {:>9} {:>8} {:>8} {:>8} {:>8} {:>12}",
        "", "calls/s", "p50 us", "p90 us", "p99 us", "p99.9", "CPU us/call"
    );
    for (target, slices) in targets.iter().zip(slices) {
        let middle = |of: &dyn Fn(&Slice) -> f64| {
            let mut values: Vec<f64> = slices.iter().map(of).collect();
            values.sort_by(f64::total_cmp);
            values[values.len() / 2]
        };
        println!(
            "{:<10} {:>9.0} {:>8.0} {:>8.0} {:>8.0} {:>8.0} {:>12.1}",
            target.name,
            middle(&|slice| slice.calls as f64 / slice.seconds),
            middle(&|slice| slice.percentile(0.5)),
            middle(&|slice| slice.percentile(0.9)),
            middle(&|slice| slice.percentile(0.99)),
            middle(&|slice| slice.percentile(0.999)),
            middle(&|slice| slice.cpu as f64 / slice.calls as f64),
        );
    }
}
