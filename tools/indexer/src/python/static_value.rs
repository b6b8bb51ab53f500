//! Values of expressions, as far as they are known without running the code.

use std::rc::Rc;

use serde_json::{Map, Number, Value as Json};

use super::scope::PyScopeId;
use super::syntax::{PyClassDef, PyFunctionDef};

/// A statically known, partly known or unknown value.
#[derive(Debug, Clone)]
pub enum PyValue {
    /// An unknown value, with its name if it has one.
    Unknown(Option<Rc<str>>),
    None,
    Bool(bool),
    Number(Number),
    Str(Rc<str>),
    List(Rc<Vec<PyValue>>),
    Dict(Rc<Vec<(PyValue, PyValue)>>),
    Function(Rc<PyFunction>),
    Class(PyClassValue),
    /// An instance of one of the package's classes.
    Instance(Rc<PyInstance>),
    /// One of the package's modules, given by the index of its file.
    Module(usize),
    /// A dotted name from another package.
    External(Rc<str>),
    /// The result of calling a function or class from another package.
    ExternalObject(Rc<PyExternalObject>),
    /// A decorator that registers a function: `mcp.tool(name=…)`.
    ToolDecorator(Rc<PyToolDecorator>),
    /// An attribute that cannot be resolved, and the value that it belongs to.
    Member(Rc<PyValue>, Rc<str>),
}

/// One of the package's functions, and the scope in which it was defined.
#[derive(Debug)]
pub struct PyFunction {
    pub def: Rc<PyFunctionDef>,
    pub scope: PyScopeId,
    /// The object that the function is a method of.
    pub receiver: Option<PyValue>,
}

/// One of the package's classes, and its scope.
#[derive(Debug, Clone)]
pub struct PyClassValue {
    pub class: Rc<PyClassDef>,
    pub scope: PyScopeId,
}

/// The arguments of a call.
#[derive(Debug, Clone, Default)]
pub struct PyArguments {
    pub positional: Vec<PyValue>,
    pub keywords: Vec<(Rc<str>, PyValue)>,
    /// Whether an unknown `*` or `**` argument may hold further arguments.
    pub has_unknown: bool,
    /// Positions and names of uncertain arguments, which count as unknown in conditions.
    pub uncertain: Vec<(Option<usize>, Option<Rc<str>>)>,
}

/// An instance of one of the package's classes.
#[derive(Debug)]
pub struct PyInstance {
    pub class: PyClassValue,
    /// The constructor's arguments, or `None` for an arbitrary instance.
    pub arguments: Option<PyArguments>,
    /// Identifies the call that created the instance.
    pub id: Option<usize>,
}

/// The result of calling a function or class from another package.
#[derive(Debug)]
pub struct PyExternalObject {
    /// The dotted name that was called.
    pub path: Rc<str>,
    pub arguments: PyArguments,
    /// Identifies the call that returned the object.
    pub id: usize,
}

/// A decorator that registers a function as a tool.
#[derive(Debug)]
pub struct PyToolDecorator {
    /// The function that registers tools: `mcp.tool` or an equivalent.
    pub callee: PyValue,
    pub arguments: PyArguments,
}

impl PyArguments {
    fn has_scope(&self) -> bool {
        self.positional.iter().chain(self.keywords.iter().map(|(_, value)| value)).any(PyValue::has_scope)
    }

    /// Returns whether the argument with this name or position is uncertain, so that it counts as unknown in
    /// conditions.
    pub fn is_uncertain(&self, name: &str, place: usize) -> bool {
        self.uncertain.iter().any(|(at, named)| *at == Some(place) || named.as_deref() == Some(name))
    }

    /// Returns the argument with this name or position.
    pub fn get(&self, name: &str, place: Option<usize>) -> Option<&PyValue> {
        let named = self.keywords.iter().find(|(keyword, _)| &**keyword == name).map(|(_, value)| value);
        named.or_else(|| place.and_then(|place| self.positional.get(place)))
    }
}

impl PyValue {
    pub fn unknown() -> Self {
        Self::Unknown(None)
    }

    pub fn text(text: &str) -> Self {
        Self::Str(text.into())
    }

    pub fn is_known(&self) -> bool {
        !matches!(self, Self::Unknown(_) | Self::Member(..))
    }

    /// Returns whether the value is a constant, or a list or dictionary that is not empty. An empty one may be filled
    /// elsewhere.
    pub fn is_certain(&self) -> bool {
        match self {
            Self::None | Self::Bool(_) | Self::Number(_) | Self::Str(_) => true,
            Self::List(list) => !list.is_empty(),
            Self::Dict(pairs) => !pairs.is_empty(),
            _ => false,
        }
    }

    pub fn as_str(&self) -> Option<&Rc<str>> {
        if let Self::Str(text) = self { Some(text) } else { None }
    }

    /// Returns whether the value refers to scopes. Such scopes must not be closed while the value is in use.
    pub fn has_scope(&self) -> bool {
        match self {
            Self::Function(_) | Self::Class(_) | Self::Instance(_) => true,
            Self::Member(owner, _) => owner.has_scope(),
            Self::List(list) => list.iter().any(Self::has_scope),
            Self::Dict(pairs) => pairs.iter().any(|(key, value)| key.has_scope() || value.has_scope()),
            Self::ExternalObject(made) => made.arguments.has_scope(),
            Self::ToolDecorator(registrar) => registrar.callee.has_scope() || registrar.arguments.has_scope(),
            _ => false,
        }
    }

    /// Returns the value for a key in a dictionary.
    pub fn get(&self, key: &str) -> Option<&Self> {
        let Self::Dict(pairs) = self else { return None };
        pairs.iter().rev().find(|(name, _)| name.as_str().is_some_and(|name| &**name == key)).map(|(_, value)| value)
    }

    /// Returns whether the value is truthy, or `None` if that is unknown.
    pub fn truthiness(&self) -> Option<bool> {
        match self {
            Self::None => Some(false),
            Self::Bool(value) => Some(*value),
            Self::Str(text) => Some(!text.is_empty()),
            Self::Number(number) => Some(number.as_f64() != Some(0.0)),
            Self::List(list) => Some(!list.is_empty()),
            Self::Dict(pairs) => Some(!pairs.is_empty()),
            Self::Unknown(_) | Self::Member(..) => None,
            _ => Some(true),
        }
    }

    /// Converts the value to JSON, leaving out unknown parts.
    pub fn to_json(&self) -> Option<Json> {
        Some(match self {
            Self::None => Json::Null,
            Self::Bool(value) => Json::Bool(*value),
            Self::Number(number) => Json::Number(number.clone()),
            Self::Str(text) => Json::String(text.to_string()),
            Self::List(list) => Json::Array(list.iter().filter_map(Self::to_json).collect()),
            Self::Dict(pairs) => {
                let pairs = pairs.iter().filter_map(|(key, value)| Some((key.as_str()?.to_string(), value.to_json()?)));
                Json::Object(pairs.collect::<Map<_, _>>())
            }
            _ => return None,
        })
    }

    /// Converts a value from JSON.
    pub fn from_json(json: &Json) -> Self {
        match json {
            Json::Null => Self::None,
            Json::Bool(value) => Self::Bool(*value),
            Json::Number(number) => Self::Number(number.clone()),
            Json::String(text) => Self::text(text),
            Json::Array(list) => Self::List(Rc::new(list.iter().map(Self::from_json).collect())),
            Json::Object(map) => {
                let pairs = map.iter().map(|(key, value)| (Self::text(key), Self::from_json(value)));
                Self::Dict(Rc::new(pairs.collect()))
            }
        }
    }
}
