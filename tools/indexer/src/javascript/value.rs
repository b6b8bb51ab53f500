//! What an expression comes to, as far as that can be said without running it.

use std::rc::Rc;

use super::syntax::{JsClassId, JsFileId, JsFunctionId, JsLoopId, JsNodeId};

/// A list is not followed further than this: lists of lists double with every step. One more is kept, to tell that there
/// are more.
const MOST_ELEMENTS: usize = 5_000;

/// Who gives a name its value from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Owner {
    Function(JsFunctionId),
    Loop(JsLoopId),
    /// `this`.
    Class(JsClassId),
}

/// The values that parameters, loop variables and `this` have.
pub(super) type Env = Option<Rc<Frame>>;

#[derive(Debug)]
pub(super) struct Frame {
    pub owner: Owner,
    pub values: Vec<Value>,
    pub parent: Env,
}

impl Frame {
    pub fn env(owner: Owner, values: Vec<Value>, parent: &Env) -> Env {
        Some(Rc::new(Self { owner, values, parent: parent.clone() }))
    }
}

/// The values that an owner gives here.
pub(super) fn find_frame(env: &Env, owner: Owner) -> Option<Rc<Frame>> {
    let mut at = env.as_ref();
    while let Some(frame) = at {
        if frame.owner == owner {
            return Some(Rc::clone(frame));
        }
        at = frame.parent.as_ref();
    }
    None
}

#[derive(Debug, Clone)]
pub(super) enum Value {
    /// Not looked at yet.
    Lazy(JsNodeId, Env),
    Text(Rc<str>),
    Number(f64),
    Truth(bool),
    Nothing,
    List(Rc<Vec<Value>>),
    Object(Rc<Vec<(Rc<str>, Value)>>),
    Function(JsFunctionId, Env),
    Class(JsClassId, Env),
    Instance(JsClassId, Rc<Vec<Value>>),
    Module(JsFileId),
    /// `process.env`.
    Environment,
    /// `process.argv`.
    CommandLine,
    /// Not to be known; the expression, where one can still look at its words.
    Opaque(Option<(JsNodeId, Env)>),
}

impl Value {
    pub fn is_weak(&self) -> bool {
        match self {
            Self::Nothing | Self::Opaque(_) => true,
            Self::List(items) => items.is_empty(),
            _ => false,
        }
    }

    pub fn list(mut items: Vec<Value>) -> Self {
        items.truncate(MOST_ELEMENTS + 1);
        Self::List(Rc::new(items))
    }

    /// Whether it is a list that has more elements than are followed.
    pub fn is_too_long(&self) -> bool {
        matches!(self, Self::List(items) if items.len() > MOST_ELEMENTS)
    }

    pub fn pair(key: &Rc<str>, value: &Value) -> Self {
        Self::list(vec![Self::Text(Rc::clone(key)), value.clone()])
    }
}

/// Why there is no value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// It depends on who calls: the owner, and which of its values.
    Open(Owner, usize),
    /// The package is larger than we look.
    Spent,
}

pub(super) type Found = Result<Value, Stop>;
