//! The syntax of Python, reduced to what tool definitions need. Unsupported syntax becomes `Other`, and its meaning is
//! never guessed.

use std::rc::Rc;

/// An expression.
#[derive(Debug)]
pub enum PyExpr {
    /// A string whose parts have been joined.
    Str(Rc<str>),
    /// An integer or a float that JSON can represent.
    Number(serde_json::Number),
    Bool(bool),
    None,
    Ellipsis,
    Name(Rc<str>),
    Attribute(Rc<PyExpr>, Rc<str>),
    Call(Rc<PyCall>),
    /// A list, a tuple or a set.
    List(Vec<Rc<PyExpr>>),
    /// Key-value pairs. A pair without a key is `**other`.
    Dict(Vec<(Option<Rc<PyExpr>>, Rc<PyExpr>)>),
    Index(Rc<PyExpr>, Vec<Rc<PyExpr>>),
    /// Addition: `a + b`.
    Add(Rc<PyExpr>, Rc<PyExpr>),
    /// `a | b`: a union of types, or of dictionaries.
    Union(Rc<PyExpr>, Rc<PyExpr>),
    /// Logical or: `a or b`.
    Or(Rc<PyExpr>, Rc<PyExpr>),
    /// Logical and: `a and b`.
    And(Rc<PyExpr>, Rc<PyExpr>),
    Not(Rc<PyExpr>),
    /// A comparison such as `a == b`.
    Compare(Rc<PyExpr>, PyComparison, Rc<PyExpr>),
    /// An f-string, or adjacent strings.
    JoinedStr(Vec<Rc<PyExpr>>),
    /// A conditional expression: `then if condition else otherwise`.
    Conditional {
        then: Rc<PyExpr>,
        condition: Rc<PyExpr>,
        otherwise: Rc<PyExpr>,
    },
    /// A comprehension.
    Comprehension(Rc<PyComprehension>),
    /// An unpacked value: `*other` in a list or in arguments.
    Spread(Rc<PyExpr>),
    /// Unsupported syntax, with the expressions that it contains.
    Other(Vec<Rc<PyExpr>>),
}

/// Comparison operators.
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
    /// Keyword arguments. One without a name is `**other`.
    pub keywords: Vec<(Option<Rc<str>>, Rc<PyExpr>)>,
}

/// A comprehension.
#[derive(Debug)]
pub struct PyComprehension {
    /// The expression that is produced. A dictionary comprehension has two: key and value.
    pub body: Vec<Rc<PyExpr>>,
    /// The clauses `for target in iterated`, outermost first.
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
    /// An `if` statement with its alternative.
    If {
        condition: Rc<PyExpr>,
        body: Vec<PyStmt>,
        otherwise: Vec<PyStmt>,
    },
    /// The statements in a `try`, `with` or `while` block.
    Block(Vec<PyStmt>),
    /// The statements in an `except` clause. Their bindings do not replace earlier ones.
    Fallback(Vec<PyStmt>),
    Return(Rc<PyExpr>),
    /// A `continue` statement.
    Continue,
    Expr(Rc<PyExpr>),
}

/// A name that an import binds.
#[derive(Debug)]
pub struct PyImport {
    /// Number of leading dots, or 0 for an absolute import.
    pub up: usize,
    /// The dotted module name.
    pub module: Rc<str>,
    /// The imported item. `None` is the module itself, `*` is everything.
    pub item: Option<Rc<str>>,
    /// The name that the import is bound to.
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
    /// Whether the function's source mentions tools. Functions that do not mention tools are not walked.
    pub mentions_tools: bool,
    /// Whether the function's source may register tools. Calls to the function are followed only if it may.
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

/// The kind of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PyParameterKind {
    /// An ordinary parameter.
    Single,
    /// A parameter that collects positional arguments: `*rest`.
    VarPositional,
    /// A parameter that collects keyword arguments: `**rest`.
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
