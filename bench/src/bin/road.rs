//! What the road of a call costs, beside the upstream itself and beside proxies that look at nothing.
#![allow(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a broken benchmark should stop")]

#[path = "road/caller.rs"]
mod caller;
#[path = "road/case.rs"]
mod case;
#[path = "road/disk.rs"]
mod disk;
#[path = "road/floor.rs"]
mod floor;
#[path = "road/lines.rs"]
mod lines;
#[path = "road/load.rs"]
mod load;
#[path = "road/plan.rs"]
mod plan;
#[path = "road/report.rs"]
mod report;
#[path = "road/target.rs"]
mod target;
#[path = "road/upstream.rs"]
mod upstream;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use tokio::runtime::Runtime;

use caller::Caller;
use case::{Case, Who, cases};
use load::{Load, storm};
use report::{Measured, Row};
use target::Target;

const HELP: &str = "What the road of a call costs, beside the upstream itself and beside proxies that look at nothing.

    cargo build --release -p gatelodge
    cargo run --release -p gatelodge-bench --bin road -- [CASE…] [OPTIONS]

CASE is the beginning of a case's name; without one, all run that do not take long.

    --seconds N      how long a slice is [2]
    --rounds N       how many slices each target has; one more warms up [5]
    --only A,B       only these targets
    --against FILE   another build of the gateway takes turns, as `before`
    --json           figures as JSON
    --list           names of the cases
    --help           this

Targets take turns in slices within one run, so that what else the machine does hits all alike. Every answer's content
is checked. CPU is what the target's processes used, as the kernel counts it. Figures are medians of the slices, ratios
are medians of the ratios within rounds.

Exit code: 0 all bounds are kept, 1 one is not, 2 misuse, 3 the machine was too noisy to tell.";

/// What was asked on the command line.
struct Options {
    cases: Vec<Case>,
    seconds: u64,
    rounds: usize,
    only: Option<Vec<String>>,
    against: Option<PathBuf>,
    is_json: bool,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let texts: Vec<&str> = words.iter().map(String::as_str).collect();
    match texts.as_slice() {
        ["--upstream", port] => runtime.block_on(upstream::serve(number(port))),
        ["--stdio-upstream"] => runtime.block_on(upstream::serve_lines()),
        ["--floor", port, upstream] => runtime.block_on(floor::serve(number(port), number(upstream))),
        ["--help"] => println!("{HELP}"),
        ["--list"] => cases().iter().for_each(|case| println!("{}", case.name)),
        _ => {
            let Some(options) = parsed(&texts) else {
                eprintln!("{HELP}");
                return ExitCode::from(2);
            };
            return run(&runtime, &options);
        }
    }
    ExitCode::SUCCESS
}

fn number<N: std::str::FromStr>(word: &str) -> N {
    word.parse().unwrap_or_else(|_| panic!("`{word}` is no number"))
}

fn parsed(words: &[&str]) -> Option<Options> {
    let mut options = Options { cases: Vec::new(), seconds: 2, rounds: 5, only: None, against: None, is_json: false };
    let mut names = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match *word {
            "--seconds" => options.seconds = words.next()?.parse().ok()?,
            "--rounds" => options.rounds = words.next()?.parse().ok()?,
            "--only" => options.only = Some(words.next()?.split(',').map(str::to_owned).collect()),
            "--against" => options.against = Some((*words.next()?).into()),
            "--json" => options.is_json = true,
            flag if flag.starts_with('-') => return None,
            name => names.push(name),
        }
    }
    options.cases = cases();
    options.cases.retain(|case| match names.as_slice() {
        [] => !case.is_long,
        names => names.iter().any(|name| case.name.starts_with(name)),
    });
    (!options.cases.is_empty() && options.rounds > 0).then_some(options)
}

fn run(runtime: &Runtime, options: &Options) -> ExitCode {
    let mut all = Vec::new();
    for case in &options.cases {
        let measured = measure(runtime, options, case);
        if !options.is_json {
            println!("{}", measured.table());
        }
        all.push(measured);
    }
    if options.is_json {
        println!("{:#}", serde_json::Value::from_iter(all.iter().map(Measured::json)));
    }
    ExitCode::from(match () {
        () if all.iter().any(Measured::is_missed) => 1,
        () if all.iter().any(Measured::is_noisy) => 3,
        () => 0,
    })
}

fn measure(runtime: &Runtime, options: &Options, case: &Case) -> Measured {
    let folder = tempfile::tempdir().expect("a folder");
    let upstream = target::upstream();
    let targets = start(runtime, options, case, &upstream, folder.path());
    let mut rows: Vec<Row> = targets.iter().map(|target| Row::new(&target.name, target.memory_kib())).collect();
    let time = Duration::from_secs(options.seconds);
    let mut load = Load { talk: case.talk, connections: case.connections, time, rate: None };
    let turn = |target, load| runtime.block_on(storm(target, load));
    // The first round warms up, and tells what all can do.
    let first = targets.iter().map(|target| turn(target, load).calls_per_second());
    let least = first.fold(f64::MAX, f64::min);
    load.rate = case.is_open.then_some(least / 2.0);
    let mut round = 0;
    while round < options.rounds || rows.iter().any(|row| row.calls() < case.calls) {
        targets.iter().zip(&mut rows).for_each(|(target, row)| row.push(turn(target, load)));
        round += 1;
    }
    Measured::of(case, rows)
}

/// Starts who takes turns.
fn start(runtime: &Runtime, options: &Options, case: &Case, upstream: &Target, folder: &Path) -> Vec<Target> {
    let path = case.talk.upstream_path();
    let mut targets = Vec::new();
    for who in &case.who {
        match who {
            Who::Direct => targets.push(target::direct(upstream, &path)),
            Who::Floor => targets.push(target::floor(upstream, &path)),
            Who::Nginx => targets.extend(target::nginx(upstream, &path, folder)),
            Who::Disk => targets.push(target::disk(folder)),
            Who::Process => targets.push(target::process()),
            Who::Wrap(name) => targets.push(target::wrap(name, folder)),
            Who::Gateway(name, plan) | Who::Alone(name, plan) => {
                let own = (*name, target::own_program());
                let before = options.against.clone().map(|program| ("before", program));
                for (name, program) in [own].into_iter().chain(before) {
                    let mut target = target::gateway(name, &program, plan, (upstream, &path), folder);
                    target.is_alone = matches!(who, Who::Alone(..));
                    runtime.block_on(open_sessions(&target, case, plan.sessions));
                    targets.push(target);
                }
            }
        }
    }
    let is_wanted = |target: &Target| options.only.as_ref().is_none_or(|only| only.contains(&target.name));
    targets.retain(is_wanted);
    targets
}

/// Opens sessions that stay open without a connection.
async fn open_sessions(target: &Target, case: &Case, count: usize) {
    for _ in 0..count {
        drop(Caller::open(target, case.talk).await);
    }
}
