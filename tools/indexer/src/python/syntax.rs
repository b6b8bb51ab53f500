//! Python, as far as definitions of tools need it. What is not understood is `Other`, never a guess.

use std::rc::Rc;

/// An expression.
#[derive(Debug)]
pub enum Expr {
    /// A string; its pieces are already put together.
    Str(Rc<str>),
    /// A whole or broken number, as JSON has it.
    Number(serde_json::Number),
    Bool(bool),
    None,
    Ellipsis,
    Name(Rc<str>),
    Attribute(Rc<Expr>, Rc<str>),
    Call(Rc<Call>),
    /// A list, a tuple or a set.
    List(Vec<Rc<Expr>>),
    /// Pairs; a pair without a key is `**other`.
    Dict(Vec<(Option<Rc<Expr>>, Rc<Expr>)>),
    Index(Rc<Expr>, Vec<Rc<Expr>>),
    /// `a + b`.
    Add(Rc<Expr>, Rc<Expr>),
    /// `a | b`: a union of types, or of dictionaries.
    Union(Rc<Expr>, Rc<Expr>),
    /// `a or b`.
    Or(Rc<Expr>, Rc<Expr>),
    /// `a and b`.
    And(Rc<Expr>, Rc<Expr>),
    Not(Rc<Expr>),
    /// `a == b` and what is like it.
    Compare(Rc<Expr>, Comparison, Rc<Expr>),
    /// A string with holes, and strings that stand beside one another.
    Joined(Vec<Rc<Expr>>),
    /// `then if condition else otherwise`.
    Choice {
        then: Rc<Expr>,
        condition: Rc<Expr>,
        otherwise: Rc<Expr>,
    },
    /// A comprehension.
    Each(Rc<Comprehension>),
    /// `*other` in a list or in arguments.
    Spread(Rc<Expr>),
    /// What is not understood, with the expressions in it.
    Other(Vec<Rc<Expr>>),
}

/// How two values are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    Equal,
    Unequal,
    In,
    NotIn,
}

/// A call.
#[derive(Debug)]
pub struct Call {
    pub callee: Rc<Expr>,
    pub positional: Vec<Rc<Expr>>,
    /// A keyword without a name is `**other`.
    pub keywords: Vec<(Option<Rc<str>>, Rc<Expr>)>,
}

/// A comprehension: what is made for each element.
#[derive(Debug)]
pub struct Comprehension {
    /// What is made; of a dictionary, key and value.
    pub body: Vec<Rc<Expr>>,
    /// `for target in iterated`, outermost first.
    pub clauses: Vec<(Rc<Expr>, Rc<Expr>)>,
}

/// A statement.
#[derive(Debug)]
pub enum Stmt {
    Def(Rc<Def>),
    Class(Rc<Class>),
    Assign {
        target: Rc<Expr>,
        annotation: Option<Rc<Expr>>,
        value: Option<Rc<Expr>>,
    },
    Import(Vec<Import>),
    For {
        target: Rc<Expr>,
        iterated: Rc<Expr>,
        body: Vec<Stmt>,
    },
    /// `if`, with what runs otherwise.
    If {
        condition: Rc<Expr>,
        body: Vec<Stmt>,
        otherwise: Vec<Stmt>,
    },
    /// Statements that run: of `try`, `with`, `while`.
    Block(Vec<Stmt>),
    /// What runs if something failed; it does not replace what was bound before.
    Fallback(Vec<Stmt>),
    Return(Rc<Expr>),
    /// On with the next element.
    Continue,
    Expr(Rc<Expr>),
}

/// A name that an import binds.
#[derive(Debug)]
pub struct Import {
    /// How many folders up; 0 is absolute.
    pub up: usize,
    /// The module, dotted.
    pub module: Rc<str>,
    /// What of it; none is the module itself, `*` is all.
    pub item: Option<Rc<str>>,
    /// The name it is bound to.
    pub bound: Rc<str>,
}

/// A function.
#[derive(Debug)]
pub struct Def {
    pub name: Rc<str>,
    pub decorators: Vec<Rc<Expr>>,
    pub parameters: Vec<Parameter>,
    pub docstring: Option<Rc<str>>,
    pub body: Vec<Stmt>,
    /// Whether its text speaks of tools; the others need not be looked into.
    pub speaks_of_tools: bool,
    /// Whether its text may register some; only then its calls are followed.
    pub may_register: bool,
}

/// A parameter of a function.
#[derive(Debug)]
pub struct Parameter {
    pub name: Rc<str>,
    pub annotation: Option<Rc<Expr>>,
    pub default: Option<Rc<Expr>>,
    pub rest: Rest,
}

/// Whether a parameter takes what is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rest {
    /// It takes one.
    No,
    /// `*rest`.
    Positional,
    /// `**rest`.
    Keywords,
}

/// A class.
#[derive(Debug)]
pub struct Class {
    pub name: Rc<str>,
    pub bases: Vec<Rc<Expr>>,
    pub docstring: Option<Rc<str>>,
    pub body: Vec<Stmt>,
}
