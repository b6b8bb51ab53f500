//! Values of expressions, as far as they are known without running the code.

use std::rc::Rc;

use super::syntax::{JsClassId, JsFileId, JsFunctionId, JsLoopId, JsNodeId};

/// Maximum length of a list. A limit is needed because nested lists may double in size with every step. One extra
/// element is kept to show that the limit was exceeded.
const MAX_LIST_ELEMENTS: usize = 5_000;

/// The construct that a frame belongs to: a function, a loop or a class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum JsFrameOwner {
    Function(JsFunctionId),
    Loop(JsLoopId),
    /// The class whose instance is `this`.
    Class(JsClassId),
}

/// The values of parameters, loop variables and `this` in a calling context.
pub(super) type JsFrameChain = Option<Rc<JsFrame>>;

#[derive(Debug)]
pub(super) struct JsFrame {
    pub owner: JsFrameOwner,
    pub values: Vec<JsValue>,
    pub parent: JsFrameChain,
}

impl JsFrame {
    pub fn extend(owner: JsFrameOwner, values: Vec<JsValue>, parent: &JsFrameChain) -> JsFrameChain {
        Some(Rc::new(Self { owner, values, parent: parent.clone() }))
    }
}

/// Returns the innermost frame of a function, loop or class.
pub(super) fn find_frame(env: &JsFrameChain, owner: JsFrameOwner) -> Option<Rc<JsFrame>> {
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
    /// An expression that has not been evaluated yet.
    Lazy(JsNodeId, JsFrameChain),
    Text(Rc<str>),
    Number(f64),
    Bool(bool),
    Nullish,
    List(Rc<Vec<JsValue>>),
    Object(Rc<Vec<(Rc<str>, JsValue)>>),
    Function(JsFunctionId, JsFrameChain),
    Class(JsClassId, JsFrameChain),
    Instance(JsClassId, Rc<Vec<JsValue>>),
    Module(JsFileId),
    /// The object `process.env`.
    Environment,
    /// The list `process.argv`.
    CommandLine,
    /// An unknown value. The expression is kept if its syntax may still be useful.
    Opaque(Option<(JsNodeId, JsFrameChain)>),
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

    /// Returns whether the value is a list that exceeds the length limit.
    pub fn is_over_limit(&self) -> bool {
        matches!(self, Self::List(items) if items.len() > MAX_LIST_ELEMENTS)
    }

    pub fn pair(key: &Rc<str>, value: &JsValue) -> Self {
        Self::list(vec![Self::Text(Rc::clone(key)), value.clone()])
    }
}

/// Why an expression has no value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum JsEvaluationError {
    /// The expression depends on a value that the calling context does not provide. The fields are the owner of the
    /// missing frame and the index of the value in that frame.
    Unbound(JsFrameOwner, usize),
    /// The step limit was reached.
    OutOfSteps,
}

pub(super) type JsValueResult = Result<JsValue, JsEvaluationError>;
