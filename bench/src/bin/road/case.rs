//! What is measured: which targets take turns, at what, and what their figures are held against.

use super::caller::Talk;
use super::plan::{Plan, USUAL};

/// One table of the report.
pub struct Case {
    pub name: &'static str,
    pub talk: Talk,
    pub connections: usize,
    /// By the clock, at half of what the slowest target does.
    pub is_open: bool,
    pub who: Vec<Who>,
    pub bounds: Vec<Bound>,
    /// Slices go on until a target has so many calls.
    pub calls: usize,
    /// Whether it runs only when it is named: it takes long, or much of the disk.
    pub is_long: bool,
}

/// Who takes turns.
#[derive(Clone, Copy)]
pub enum Who {
    Direct,
    Floor,
    Nginx,
    Gateway(&'static str, Plan),
    /// The same, asked by one connection, however many the others have.
    Alone(&'static str, Plan),
    /// The disk, asked to keep one page again and again.
    Disk,
    /// The upstream as a process of each caller's own.
    Process,
    /// The same behind `gatelodge wrap`.
    Wrap(&'static str),
}

/// What is held against what.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Figure {
    Calls,
    P50,
    /// What p50 is beyond that of another target.
    Wait {
        beyond: &'static str,
    },
    P99,
    Cpu,
    /// KiB before the first slice, beyond those of the other.
    Idle,
    /// Memory after the last slice, to that after the first.
    Growth,
}

/// What a ratio may be: at least for calls, at most for all else.
#[derive(Clone, Copy)]
pub struct Bound {
    pub figure: Figure,
    pub of: &'static str,
    pub to: &'static str,
    pub bound: f64,
}

const GATEWAY: &str = "gatelodge";
const FLOOR: &str = "floor";

fn usual(name: &'static str, talk: Talk, connections: usize) -> Case {
    let who = vec![Who::Direct, Who::Floor, Who::Nginx, Who::Gateway(GATEWAY, USUAL)];
    Case { name, talk, connections, is_open: false, who, bounds: Vec::new(), calls: 0, is_long: false }
}

fn bound(figure: Figure, bound: f64) -> Bound {
    Bound { figure, of: GATEWAY, to: FLOOR, bound }
}

/// A case with the three bounds of a small call, times so much.
fn small(name: &'static str, talk: Talk, connections: usize, slack: f64) -> Case {
    let bounds =
        vec![bound(Figure::Cpu, 2.0 * slack), bound(Figure::Calls, 0.5 / slack), bound(Figure::P99, 2.5 * slack)];
    Case { bounds, ..usual(name, talk, connections) }
}

/// A gateway with much of something beside one with little of it.
fn growth(name: &'static str, little: Plan, much: Plan) -> Case {
    let who = vec![Who::Direct, Who::Gateway("little", little), Who::Gateway("much", much)];
    let bounds = vec![Bound { figure: Figure::Cpu, of: "much", to: "little", bound: 1.1 }];
    Case { who, bounds, ..usual(name, Talk::Small, 16) }
}

/// The same for sessions that are open and idle, which may take so much memory.
fn sessions(name: &'static str, count: usize, megabytes: f64) -> Case {
    let mut case = growth(name, USUAL, Plan { sessions: count, ..USUAL });
    case.bounds.push(Bound { figure: Figure::Idle, of: "much", to: "little", bound: kib(megabytes) });
    case
}

/// A list that the policy lets through whole, so that all have the same bytes to send.
fn listing(name: &'static str, tools: usize) -> Case {
    let gateway = Who::Gateway(GATEWAY, Plan { rules: tools, ..USUAL });
    Case { who: vec![Who::Direct, Who::Floor, Who::Nginx, gateway], ..usual(name, Talk::List(tools), 16) }
}

/// What is idle, and what is left of a million calls.
fn million() -> Case {
    let bounds = vec![
        Bound { figure: Figure::Idle, of: GATEWAY, to: "", bound: kib(20.0) },
        Bound { figure: Figure::Growth, of: GATEWAY, to: GATEWAY, bound: 1.05 },
    ];
    let who = vec![Who::Gateway(GATEWAY, USUAL)];
    Case { who, bounds, calls: 1_000_000, ..usual("calls-1000000", Talk::Small, 16) }
}

fn kib(megabytes: f64) -> f64 {
    megabytes * 1e6 / 1024.0
}

/// A gateway that answers nobody before the disk has the row.
fn power() -> Case {
    let plan = Plan { is_power: true, ..USUAL };
    let bounds = vec![
        Bound { figure: Figure::P50, of: "one", to: "disk", bound: 1.2 },
        Bound { figure: Figure::Wait { beyond: "unsynced" }, of: "one", to: "disk", bound: 1.2 },
        Bound { figure: Figure::Calls, of: "many", to: "one", bound: 10.0 },
    ];
    let alone = [Who::Alone("unsynced", USUAL), Who::Alone("one", plan)];
    let who = [Who::Direct, Who::Disk].into_iter().chain(alone).chain([Who::Gateway("many", plan)]).collect();
    Case { who, bounds, ..usual("power-64", Talk::Small, 64) }
}

/// All of them.
pub fn cases() -> Vec<Case> {
    let with = |figure, at_most, case: Case| Case { bounds: vec![bound(figure, at_most)], ..case };
    vec![
        small("small-1", Talk::Small, 1, 1.25),
        small("small-16", Talk::Small, 16, 1.0),
        small("small-64", Talk::Small, 64, 1.25),
        usual("small-256", Talk::Small, 256),
        Case { is_open: true, ..usual("open-16", Talk::Small, 16) },
        usual("stateless-16", Talk::Stateless, 16),
        usual("events-16", Talk::Events, 16),
        with(Figure::Cpu, 1.5, usual("large-16", Talk::Large, 16)),
        usual("list-20", Talk::List(20), 16),
        with(Figure::Cpu, 2.0, listing("list-500", 500)),
        Case {
            who: vec![
                Who::Direct,
                Who::Gateway(GATEWAY, USUAL),
                Who::Gateway("20 servers", Plan { servers: 20, ..USUAL }),
            ],
            ..usual("together-20", Talk::Together, 16)
        },
        growth("grants-100", USUAL, Plan { grants: 100, ..USUAL }),
        growth("grants-10000", USUAL, Plan { grants: 10_000, ..USUAL }),
        growth("rules-1000", Plan { rules: 10, ..USUAL }, Plan { rules: 1_000, ..USUAL }),
        sessions("sessions-1000", 1_000, 10.0),
        Case { is_long: true, ..sessions("sessions-10000", 10_000, 100.0) },
        power(),
        Case { who: vec![Who::Process, Who::Wrap(GATEWAY)], ..usual("wrap-1", Talk::Lines, 1) },
        Case { bounds: Vec::new(), ..growth("limits-1", Plan { limits: 0, ..USUAL }, USUAL) },
        Case { bounds: Vec::new(), ..growth("limits-5", Plan { limits: 0, ..USUAL }, Plan { limits: 5, ..USUAL }) },
        Case { is_long: true, ..growth("rows-10000000", USUAL, Plan { rows: 10_000_000, ..USUAL }) },
        Case { is_long: true, ..million() },
    ]
}
