//! What an expression comes to, as far as that can be said without running it.

use std::rc::Rc;

use super::syntax::{JsClassId, JsFileId, JsFunctionId, JsLoopId, JsNodeId};

/// A list is not followed further than this: lists of lists double with every step. One more is kept, to tell that there
/// are more.
const MAX_LIST_ELEMENTS: usize = 5_000;

/// Who gives a name its value from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum JsFrameOwner {
    Function(JsFunctionId),
    Loop(JsLoopId),
    /// `this`.
    Class(JsClassId),
}

/// The values that parameters, loop variables and `this` have.
pub(super) type JsEnv = Option<Rc<JsFrame>>;

#[derive(Debug)]
pub(super) struct JsFrame {
    pub owner: JsFrameOwner,
    pub values: Vec<JsValue>,
    pub parent: JsEnv,
}

impl JsFrame {
    pub fn extend(owner: JsFrameOwner, values: Vec<JsValue>, parent: &JsEnv) -> JsEnv {
        Some(Rc::new(Self { owner, values, parent: parent.clone() }))
    }
}

/// The values that an owner gives here.
pub(super) fn find_frame(env: &JsEnv, owner: JsFrameOwner) -> Option<Rc<JsFrame>> {
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
pub(super) enum JsValue {
    /// Not looked at yet.
    Lazy(JsNodeId, JsEnv),
    Text(Rc<str>),
    Number(f64),
    Bool(bool),
    Nullish,
    List(Rc<Vec<JsValue>>),
    Object(Rc<Vec<(Rc<str>, JsValue)>>),
    Function(JsFunctionId, JsEnv),
    Class(JsClassId, JsEnv),
    Instance(JsClassId, Rc<Vec<JsValue>>),
    Module(JsFileId),
    /// `process.env`.
    Environment,
    /// `process.argv`.
    CommandLine,
    /// Not to be known; the expression, where one can still look at its words.
    Opaque(Option<(JsNodeId, JsEnv)>),
}

impl JsValue {
    pub fn is_empty_or_unknown(&self) -> bool {
        match self {
            Self::Nullish | Self::Opaque(_) => true,
            Self::List(items) => items.is_empty(),
            _ => false,
        }
    }

    pub fn list(mut items: Vec<JsValue>) -> Self {
        items.truncate(MAX_LIST_ELEMENTS + 1);
        Self::List(Rc::new(items))
    }

    /// Whether it is a list that has more elements than are followed.
    pub fn is_over_limit(&self) -> bool {
        matches!(self, Self::List(items) if items.len() > MAX_LIST_ELEMENTS)
    }

    pub fn pair(key: &Rc<str>, value: &JsValue) -> Self {
        Self::list(vec![Self::Text(Rc::clone(key)), value.clone()])
    }
}

/// Why there is no value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum JsEvaluationError {
    /// It depends on who calls: the owner, and which of its values.
    Unbound(JsFrameOwner, usize),
    /// The package is larger than we look.
    OutOfSteps,
}

pub(super) type JsValueResult = Result<JsValue, JsEvaluationError>;
