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
}

/// What is held against what.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Figure {
    Calls,
    P99,
    Cpu,
}

/// What a ratio may be: at most for CPU and time, at least for calls.
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
    Case { name, talk, connections, is_open: false, who, bounds: Vec::new(), is_long: false }
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
        growth("sessions-1000", USUAL, Plan { sessions: 1_000, ..USUAL }),
        Case { bounds: Vec::new(), ..growth("limits-1", Plan { limits: 0, ..USUAL }, USUAL) },
        Case { bounds: Vec::new(), ..growth("limits-5", Plan { limits: 0, ..USUAL }, Plan { limits: 5, ..USUAL }) },
        Case { is_long: true, ..growth("rows-10000000", USUAL, Plan { rows: 10_000_000, ..USUAL }) },
    ]
}
