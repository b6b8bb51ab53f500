//! Overhead of a call through the gateway, compared with the upstream itself and with proxies that do not inspect
//! requests.
#![allow(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a broken benchmark should stop")]

#[path = "call_overhead/bench_case.rs"]
mod bench_case;
#[path = "call_overhead/bench_client.rs"]
mod bench_client;
#[path = "call_overhead/bench_target.rs"]
mod bench_target;
#[path = "call_overhead/bench_upstream.rs"]
mod bench_upstream;
#[path = "call_overhead/case_report.rs"]
mod case_report;
#[path = "call_overhead/disk_baseline.rs"]
mod disk_baseline;
#[path = "call_overhead/gateway_fixture.rs"]
mod gateway_fixture;
#[path = "call_overhead/load_generator.rs"]
mod load_generator;
#[path = "call_overhead/minimal_proxy.rs"]
mod minimal_proxy;
#[path = "call_overhead/stdio_client.rs"]
mod stdio_client;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use tokio::runtime::Runtime;

use bench_case::{BenchCase, TargetKind, all_cases};
use bench_client::BenchClient;
use bench_target::BenchTarget;
use case_report::{CaseResult, TargetResult};
use load_generator::{LoadSpec, run_slice};

const HELP: &str = "Measures the overhead of a call through the gateway, compared with the upstream itself and with proxies that do not inspect requests.

    cargo build --profile dist -p gatelodge
    cargo run --profile dist -p gatelodge-bench --bin call_overhead -- [CASE…] [OPTIONS]

CASE is the beginning of a case's name. Without one, all cases run except slow ones.

    --seconds N      duration of a slice [2]
    --rounds N       slices per target, after one that warms up [5]
    --only A,B       only these targets
    --against FILE   also measure another build of the gateway, as `before`
    --json           print JSON
    --list           list the cases
    --help           print this help

Targets take turns in slices within one run, so that other load on the machine affects all alike. The content of every reply
is checked. CPU is the CPU time of the target's processes. Figures are medians of the slices, ratios
are medians of the ratios within rounds.

Exit code: 0 all bounds are met, 1 a bound is missed, 2 usage, 3 the machine was too noisy.";

/// Command-line options.
struct BenchOptions {
    cases: Vec<BenchCase>,
    seconds: u64,
    rounds: usize,
    only: Option<Vec<String>>,
    baseline_program: Option<PathBuf>,
    is_json: bool,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let texts: Vec<&str> = words.iter().map(String::as_str).collect();
    match texts.as_slice() {
        ["--upstream", port] => runtime.block_on(bench_upstream::serve_http(parse_number(port))),
        ["--stdio-upstream"] => runtime.block_on(bench_upstream::serve_stdio()),
        ["--floor", port, upstream] => {
            runtime.block_on(minimal_proxy::serve_proxy(parse_number(port), parse_number(upstream)))
        }
        ["--help"] => println!("{HELP}"),
        ["--list"] => all_cases().iter().for_each(|case| println!("{}", case.name)),
        _ => {
            let Some(options) = parse_options(&texts) else {
                eprintln!("{HELP}");
                return ExitCode::from(2);
            };
            return run_cases(&runtime, &options);
        }
    }
    ExitCode::SUCCESS
}

fn parse_number<N: std::str::FromStr>(word: &str) -> N {
    word.parse().unwrap_or_else(|_| panic!("`{word}` is not a number"))
}

fn parse_options(words: &[&str]) -> Option<BenchOptions> {
    let mut options =
        BenchOptions { cases: Vec::new(), seconds: 2, rounds: 5, only: None, baseline_program: None, is_json: false };
    let mut names = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match *word {
            "--seconds" => options.seconds = words.next()?.parse().ok()?,
            "--rounds" => options.rounds = words.next()?.parse().ok()?,
            "--only" => options.only = Some(words.next()?.split(',').map(str::to_owned).collect()),
            "--against" => options.baseline_program = Some((*words.next()?).into()),
            "--json" => options.is_json = true,
            flag if flag.starts_with('-') => return None,
            name => names.push(name),
        }
    }
    options.cases = all_cases();
    options.cases.retain(|case| match names.as_slice() {
        [] => !case.is_slow,
        names => names.iter().any(|name| case.name.starts_with(name)),
    });
    (!options.cases.is_empty() && options.rounds > 0).then_some(options)
}

fn run_cases(runtime: &Runtime, options: &BenchOptions) -> ExitCode {
    let mut all = Vec::new();
    for case in &options.cases {
        let measured = measure_case(runtime, options, case);
        if !options.is_json {
            println!("{}", measured.table());
        }
        all.push(measured);
    }
    if options.is_json {
        println!("{:#}", serde_json::Value::from_iter(all.iter().map(CaseResult::json)));
    }
    ExitCode::from(match () {
        () if all.iter().any(CaseResult::is_missed) => 1,
        () if all.iter().any(CaseResult::is_noisy) => 3,
        () => 0,
    })
}

fn measure_case(runtime: &Runtime, options: &BenchOptions, case: &BenchCase) -> CaseResult {
    let folder = tempfile::tempdir().expect("a folder");
    let upstream = bench_target::start_upstream();
    let targets = start_targets(runtime, options, case, &upstream, folder.path());
    let mut rows: Vec<TargetResult> =
        targets.iter().map(|target| TargetResult::new(&target.name, target.memory_kib())).collect();
    let time = Duration::from_secs(options.seconds);
    let mut load = LoadSpec { request_kind: case.request_kind, connections: case.connections, time, rate: None };
    let turn = |target, load| runtime.block_on(run_slice(target, load));
    // The first round warms up, and measures how fast each target is.
    let first = targets.iter().map(|target| turn(target, load).calls_per_second());
    let least = first.fold(f64::MAX, f64::min);
    load.rate = case.is_open_loop.then_some(least / 2.0);
    let mut round = 0;
    while round < options.rounds || rows.iter().any(|row| row.calls() < case.min_calls) {
        targets.iter().zip(&mut rows).for_each(|(target, row)| row.push(turn(target, load)));
        round += 1;
    }
    CaseResult::of(case, rows)
}

/// Starts the targets of a case.
fn start_targets(
    runtime: &Runtime,
    options: &BenchOptions,
    case: &BenchCase,
    upstream: &BenchTarget,
    folder: &Path,
) -> Vec<BenchTarget> {
    let path = case.request_kind.upstream_path();
    let mut targets = Vec::new();
    for who in &case.targets {
        match who {
            TargetKind::Direct => targets.push(bench_target::direct_target(upstream, &path)),
            TargetKind::MinimalProxy => targets.push(bench_target::start_minimal_proxy(upstream, &path)),
            TargetKind::Nginx => targets.extend(bench_target::start_nginx(upstream, &path, folder)),
            TargetKind::Disk => targets.push(bench_target::disk_target(folder)),
            TargetKind::Process => targets.push(bench_target::stdio_target()),
            TargetKind::Wrap(name) => targets.push(bench_target::wrap_target(name, folder)),
            TargetKind::Gateway(name, plan) | TargetKind::SingleConnection(name, plan) => {
                let own = (*name, bench_target::gateway_program());
                let before = options.baseline_program.clone().map(|program| ("before", program));
                for (name, program) in [own].into_iter().chain(before) {
                    let mut target = bench_target::start_gateway(name, &program, plan, (upstream, &path), folder);
                    target.is_single_connection = matches!(who, TargetKind::SingleConnection(..));
                    runtime.block_on(open_sessions(&target, case, plan.sessions));
                    targets.push(target);
                }
            }
        }
    }
    let is_wanted = |target: &BenchTarget| options.only.as_ref().is_none_or(|only| only.contains(&target.name));
    targets.retain(is_wanted);
    targets
}

/// Opens sessions that stay open without a connection.
async fn open_sessions(target: &BenchTarget, case: &BenchCase, count: usize) {
    for _ in 0..count {
        drop(BenchClient::open(target, case.request_kind).await);
    }
}
