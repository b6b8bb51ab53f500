//! Benchmark cases: their targets, load and bounds.

use super::bench_client::RequestKind;
use super::gateway_fixture::{DEFAULT_FIXTURE, GatewayFixture};

/// One table of the report.
pub struct BenchCase {
    pub name: &'static str,
    pub request_kind: RequestKind,
    pub connections: usize,
    /// Whether requests are sent at a fixed rate, half of what the slowest target can do.
    pub is_open_loop: bool,
    pub targets: Vec<TargetKind>,
    pub bounds: Vec<RatioBound>,
    /// Slices are repeated until each target has this many calls.
    pub min_calls: usize,
    /// Whether it runs only if it is named, because it takes long or needs much disk space.
    pub is_slow: bool,
}

/// A target of a case.
#[derive(Clone, Copy)]
pub enum TargetKind {
    Direct,
    MinimalProxy,
    Nginx,
    Gateway(&'static str, GatewayFixture),
    /// A gateway with one connection, however many the other targets have.
    SingleConnection(&'static str, GatewayFixture),
    /// Repeated syncs of one page to the disk.
    Disk,
    /// The upstream as a child process of each client.
    Process,
    /// Like [`Self::Process`], behind `gatelodge wrap`.
    Wrap(&'static str),
}

/// A metric that bounds refer to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Metric {
    Calls,
    P50,
    /// Difference of p50 from that of another target.
    P50Beyond {
        baseline: &'static str,
    },
    P99,
    Cpu,
    /// KiB before the first slice, minus those of the baseline.
    IdleMemory,
    /// Memory after the last slice relative to that after the first.
    MemoryGrowth,
}

/// Bound of a ratio: a minimum for calls, a maximum for all others.
#[derive(Clone, Copy)]
pub struct RatioBound {
    pub metric: Metric,
    pub target: &'static str,
    pub baseline: &'static str,
    pub limit: f64,
}

const GATEWAY: &str = "gatelodge";
const FLOOR: &str = "floor";

fn default_case(name: &'static str, talk: RequestKind, connections: usize) -> BenchCase {
    let who = vec![
        TargetKind::Direct,
        TargetKind::MinimalProxy,
        TargetKind::Nginx,
        TargetKind::Gateway(GATEWAY, DEFAULT_FIXTURE),
    ];
    BenchCase {
        name,
        request_kind: talk,
        connections,
        is_open_loop: false,
        targets: who,
        bounds: Vec::new(),
        min_calls: 0,
        is_slow: false,
    }
}

fn gateway_bound(figure: Metric, bound: f64) -> RatioBound {
    RatioBound { metric: figure, target: GATEWAY, baseline: FLOOR, limit: bound }
}

/// A case with the three bounds of a small call, multiplied by `slack`.
fn small_call_case(name: &'static str, talk: RequestKind, connections: usize, slack: f64) -> BenchCase {
    let bounds = vec![
        gateway_bound(Metric::Cpu, 2.0 * slack),
        gateway_bound(Metric::Calls, 0.5 / slack),
        gateway_bound(Metric::P99, 2.5 * slack),
    ];
    BenchCase { bounds, ..default_case(name, talk, connections) }
}

/// Compares two gateways that differ only in the size of something.
fn scaling_case(name: &'static str, small: GatewayFixture, large: GatewayFixture) -> BenchCase {
    let who = vec![TargetKind::Direct, TargetKind::Gateway("small", small), TargetKind::Gateway("large", large)];
    let bounds = vec![RatioBound { metric: Metric::Cpu, target: "large", baseline: "small", limit: 1.1 }];
    BenchCase { targets: who, bounds, ..default_case(name, RequestKind::Small, 16) }
}

/// A scaling case with idle sessions and a bound for their memory.
fn idle_sessions_case(name: &'static str, count: usize, megabytes: f64) -> BenchCase {
    let mut case = scaling_case(name, DEFAULT_FIXTURE, GatewayFixture { sessions: count, ..DEFAULT_FIXTURE });
    case.bounds.push(RatioBound {
        metric: Metric::IdleMemory,
        target: "large",
        baseline: "small",
        limit: to_kib(megabytes),
    });
    case
}

/// A list that the policy does not filter, so that all targets send the same bytes.
fn list_case(name: &'static str, tools: usize) -> BenchCase {
    let gateway = TargetKind::Gateway(GATEWAY, GatewayFixture { rules: tools, ..DEFAULT_FIXTURE });
    BenchCase {
        targets: vec![TargetKind::Direct, TargetKind::MinimalProxy, TargetKind::Nginx, gateway],
        ..default_case(name, RequestKind::List(tools), 16)
    }
}

/// Idle memory, and memory after a million calls.
fn million_calls_case() -> BenchCase {
    let bounds = vec![
        RatioBound { metric: Metric::IdleMemory, target: GATEWAY, baseline: "", limit: to_kib(20.0) },
        RatioBound { metric: Metric::MemoryGrowth, target: GATEWAY, baseline: GATEWAY, limit: 1.05 },
    ];
    let who = vec![TargetKind::Gateway(GATEWAY, DEFAULT_FIXTURE)];
    BenchCase { targets: who, bounds, min_calls: 1_000_000, ..default_case("calls-1000000", RequestKind::Small, 16) }
}

fn to_kib(megabytes: f64) -> f64 {
    megabytes * 1e6 / 1024.0
}

/// A gateway that replies only after the row is synced to the disk.
fn power_durability_case() -> BenchCase {
    let plan = GatewayFixture { is_power_durable: true, ..DEFAULT_FIXTURE };
    let bounds = vec![
        RatioBound { metric: Metric::P50, target: "power-1", baseline: "disk", limit: 1.2 },
        RatioBound {
            metric: Metric::P50Beyond { baseline: "unsynced" },
            target: "power-1",
            baseline: "disk",
            limit: 1.2,
        },
        RatioBound { metric: Metric::Calls, target: "power-64", baseline: "power-1", limit: 10.0 },
    ];
    let alone =
        [TargetKind::SingleConnection("unsynced", DEFAULT_FIXTURE), TargetKind::SingleConnection("power-1", plan)];
    let who = [TargetKind::Direct, TargetKind::Disk]
        .into_iter()
        .chain(alone)
        .chain([TargetKind::Gateway("power-64", plan)])
        .collect();
    BenchCase { targets: who, bounds, ..default_case("power-64", RequestKind::Small, 64) }
}

/// All cases.
pub fn all_cases() -> Vec<BenchCase> {
    let with = |figure, at_most, case: BenchCase| BenchCase { bounds: vec![gateway_bound(figure, at_most)], ..case };
    vec![
        small_call_case("small-1", RequestKind::Small, 1, 1.25),
        small_call_case("small-16", RequestKind::Small, 16, 1.0),
        small_call_case("small-64", RequestKind::Small, 64, 1.25),
        default_case("small-256", RequestKind::Small, 256),
        BenchCase { is_open_loop: true, ..default_case("open-16", RequestKind::Small, 16) },
        default_case("stateless-16", RequestKind::Stateless, 16),
        default_case("events-16", RequestKind::EventStream, 16),
        with(Metric::Cpu, 1.5, default_case("large-16", RequestKind::Large, 16)),
        default_case("list-20", RequestKind::List(20), 16),
        with(Metric::Cpu, 2.0, list_case("list-500", 500)),
        BenchCase {
            targets: vec![
                TargetKind::Direct,
                TargetKind::Gateway(GATEWAY, DEFAULT_FIXTURE),
                TargetKind::Gateway("20 servers", GatewayFixture { servers: 20, ..DEFAULT_FIXTURE }),
            ],
            ..default_case("aggregate-20", RequestKind::Aggregate, 16)
        },
        scaling_case("grants-100", DEFAULT_FIXTURE, GatewayFixture { grants: 100, ..DEFAULT_FIXTURE }),
        scaling_case("grants-10000", DEFAULT_FIXTURE, GatewayFixture { grants: 10_000, ..DEFAULT_FIXTURE }),
        scaling_case(
            "rules-1000",
            GatewayFixture { rules: 10, ..DEFAULT_FIXTURE },
            GatewayFixture { rules: 1_000, ..DEFAULT_FIXTURE },
        ),
        idle_sessions_case("sessions-1000", 1_000, 10.0),
        BenchCase { is_slow: true, ..idle_sessions_case("sessions-10000", 10_000, 100.0) },
        power_durability_case(),
        BenchCase {
            targets: vec![TargetKind::Process, TargetKind::Wrap(GATEWAY)],
            ..default_case("wrap-1", RequestKind::Stdio, 1)
        },
        BenchCase {
            bounds: Vec::new(),
            ..scaling_case("limits-1", GatewayFixture { limits: 0, ..DEFAULT_FIXTURE }, DEFAULT_FIXTURE)
        },
        BenchCase {
            bounds: Vec::new(),
            ..scaling_case(
                "limits-5",
                GatewayFixture { limits: 0, ..DEFAULT_FIXTURE },
                GatewayFixture { limits: 5, ..DEFAULT_FIXTURE },
            )
        },
        BenchCase {
            is_slow: true,
            ..scaling_case("rows-10000000", DEFAULT_FIXTURE, GatewayFixture { rows: 10_000_000, ..DEFAULT_FIXTURE })
        },
        BenchCase { is_slow: true, ..million_calls_case() },
    ]
}
