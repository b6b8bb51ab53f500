//! The model: each feature gives points to three outcomes, and the points become shares.

use std::collections::HashMap;

use crate::features::{Feature, Flag, Key, Phrase, Slot};
use crate::lexicon::{Group, Lexicon};

/// Points for Read, for a change, for Destructive.
pub(crate) type Points = [f64; 3];

/// The weights of all features.
#[derive(Debug, Clone, Default)]
pub(crate) struct Model {
    pub bias: Points,
    pub weights: HashMap<Key, Points>,
}

/// How likely each outcome is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Shares {
    pub read: f64,
    pub change: f64,
    pub destroy: f64,
}

impl Model {
    /// The points of a feature.
    pub fn points(&self, key: Key) -> Points {
        self.weights.get(&key).copied().unwrap_or_default()
    }

    /// The points of all features together.
    pub fn sum<'f>(&self, features: impl IntoIterator<Item = &'f Feature<'f>>) -> Points {
        let mut sum = self.bias;
        for feature in features {
            add(&mut sum, self.points(feature.key));
        }
        sum
    }
}

/// Adds points.
pub(crate) fn add(sum: &mut Points, points: Points) {
    for (sum, point) in sum.iter_mut().zip(points) {
        *sum += point;
    }
}

impl Shares {
    /// Points as shares: the exponentials, over their sum.
    pub fn of(points: Points) -> Self {
        let most = points.iter().copied().fold(f64::MIN, f64::max);
        let [read, change, destroy] = points.map(|point| (point - most).exp());
        let sum = read + change + destroy;
        Self { read: read / sum, change: change / sum, destroy: destroy / sum }
    }
}

/// Points that keep two promises: a word that takes away never makes a tool milder, and what warns never speaks for Read.
pub(crate) fn kept(key: Key, points: Points, lexicon: &Lexicon) -> Points {
    let [read, change, destroy] = points;
    if takes_away(key, lexicon) {
        rising(points)
    } else if warns(key) {
        let read = read.min(0.0);
        [read, change.max(read), destroy.max(read)]
    } else {
        points
    }
}

/// Whether a fact warns: all signals do, and all phrases but those of only looking.
fn warns(key: Key) -> bool {
    match key {
        Key::Flag(Flag::Signal(_)) => true,
        Key::Flag(Flag::Phrase(phrase)) => !matches!(phrase, Phrase::ReadOnly | Phrase::Denies),
        Key::Flag(Flag::NoParameters | Flag::NoVerb) | Key::Group(..) | Key::Word(..) => false,
    }
}

/// Points that rise from Read over a change to Destructive.
fn rising(points: Points) -> Points {
    let [read, change, destroy] = points;
    let read = read.min(0.0);
    let change = change.max(read);
    [read, change, destroy.max(change).max(0.0)]
}

/// Whether a feature speaks of taking away.
pub(crate) fn takes_away(key: Key, lexicon: &Lexicon) -> bool {
    match key {
        Key::Group(_, group) => group.takes_away(),
        Key::Word(slot, id) => {
            slot != Slot::Parameter && lexicon.word(id).and_then(|word| word.group).is_some_and(Group::takes_away)
        }
        Key::Flag(flag) => matches!(flag, Flag::Phrase(phrase) if phrase.takes_away()),
    }
}
