//! Python, as far as definitions of tools need it. What is not understood is `Other`, never a guess.

use std::rc::Rc;

/// An expression.
#[derive(Debug)]
pub enum PyExpr {
    /// A string; its pieces are already put together.
    Str(Rc<str>),
    /// A whole or broken number, as JSON has it.
    Number(serde_json::Number),
    Bool(bool),
    None,
    Ellipsis,
    Name(Rc<str>),
    Attribute(Rc<PyExpr>, Rc<str>),
    Call(Rc<PyCall>),
    /// A list, a tuple or a set.
    List(Vec<Rc<PyExpr>>),
    /// Pairs; a pair without a key is `**other`.
    Dict(Vec<(Option<Rc<PyExpr>>, Rc<PyExpr>)>),
    Index(Rc<PyExpr>, Vec<Rc<PyExpr>>),
    /// `a + b`.
    Add(Rc<PyExpr>, Rc<PyExpr>),
    /// `a | b`: a union of types, or of dictionaries.
    Union(Rc<PyExpr>, Rc<PyExpr>),
    /// `a or b`.
    Or(Rc<PyExpr>, Rc<PyExpr>),
    /// `a and b`.
    And(Rc<PyExpr>, Rc<PyExpr>),
    Not(Rc<PyExpr>),
    /// `a == b` and what is like it.
    Compare(Rc<PyExpr>, PyComparison, Rc<PyExpr>),
    /// A string with holes, and strings that stand beside one another.
    JoinedStr(Vec<Rc<PyExpr>>),
    /// `then if condition else otherwise`.
    Conditional {
        then: Rc<PyExpr>,
        condition: Rc<PyExpr>,
        otherwise: Rc<PyExpr>,
    },
    /// A comprehension.
    Comprehension(Rc<PyComprehension>),
    /// `*other` in a list or in arguments.
    Spread(Rc<PyExpr>),
    /// What is not understood, with the expressions in it.
    Other(Vec<Rc<PyExpr>>),
}

/// How two values are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PyComparison {
    Equal,
    Unequal,
    In,
    NotIn,
}

/// A call.
#[derive(Debug)]
pub struct PyCall {
    pub callee: Rc<PyExpr>,
    pub positional: Vec<Rc<PyExpr>>,
    /// A keyword without a name is `**other`.
    pub keywords: Vec<(Option<Rc<str>>, Rc<PyExpr>)>,
}

/// A comprehension: what is made for each element.
#[derive(Debug)]
pub struct PyComprehension {
    /// What is made; of a dictionary, key and value.
    pub body: Vec<Rc<PyExpr>>,
    /// `for target in iterated`, outermost first.
    pub clauses: Vec<(Rc<PyExpr>, Rc<PyExpr>)>,
}

/// A statement.
#[derive(Debug)]
pub enum PyStmt {
    Def(Rc<PyFunctionDef>),
    Class(Rc<PyClassDef>),
    Assign {
        target: Rc<PyExpr>,
        annotation: Option<Rc<PyExpr>>,
        value: Option<Rc<PyExpr>>,
    },
    Import(Vec<PyImport>),
    For {
        target: Rc<PyExpr>,
        iterated: Rc<PyExpr>,
        body: Vec<PyStmt>,
    },
    /// `if`, with what runs otherwise.
    If {
        condition: Rc<PyExpr>,
        body: Vec<PyStmt>,
        otherwise: Vec<PyStmt>,
    },
    /// Statements that run: of `try`, `with`, `while`.
    Block(Vec<PyStmt>),
    /// What runs if something failed; it does not replace what was bound before.
    Fallback(Vec<PyStmt>),
    Return(Rc<PyExpr>),
    /// On with the next element.
    Continue,
    Expr(Rc<PyExpr>),
}

/// A name that an import binds.
#[derive(Debug)]
pub struct PyImport {
    /// How many folders up; 0 is absolute.
    pub up: usize,
    /// The module, dotted.
    pub module: Rc<str>,
    /// What of it; none is the module itself, `*` is all.
    pub item: Option<Rc<str>>,
    /// The name it is bound to.
    pub bound_name: Rc<str>,
}

/// A function.
#[derive(Debug)]
pub struct PyFunctionDef {
    pub name: Rc<str>,
    pub decorators: Vec<Rc<PyExpr>>,
    pub parameters: Vec<PyParameter>,
    pub docstring: Option<Rc<str>>,
    pub body: Vec<PyStmt>,
    /// Whether its text speaks of tools; the others need not be looked into.
    pub mentions_tools: bool,
    /// Whether its text may register some; only then its calls are followed.
    pub can_register_tools: bool,
}

/// A parameter of a function.
#[derive(Debug)]
pub struct PyParameter {
    pub name: Rc<str>,
    pub annotation: Option<Rc<PyExpr>>,
    pub default: Option<Rc<PyExpr>>,
    pub kind: PyParameterKind,
}

/// Whether a parameter takes what is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PyParameterKind {
    /// It takes one.
    Single,
    /// `*rest`.
    VarPositional,
    /// `**rest`.
    VarKeyword,
}

/// A class.
#[derive(Debug)]
pub struct PyClassDef {
    pub name: Rc<str>,
    pub bases: Vec<Rc<PyExpr>>,
    pub docstring: Option<Rc<str>>,
    pub body: Vec<PyStmt>,
}
