//! Reads the value that a condition compares with, and reports values that its operator cannot use.

use std::ops::Range;

use super::scalar_set::{DecimalText, ScalarSet};
use super::{Operator, RegexBudget};
use crate::syntax::diagnostic::{Diagnostic, DiagnosticCode, DiagnosticSink};
use crate::syntax::field_reader::report_wrong_type;
use crate::syntax::syntax_tree::{SyntaxNode, SyntaxNodeValue};

/// Description of scalars in messages.
const SCALAR_DESCRIPTION: &str = "a string, a number or a boolean";

/// The value of a condition while its operator is compiled.
pub(crate) struct ExpectedValueReader<'a> {
    pub operator: Operator,
    pub value: &'a SyntaxNode,
    pub diagnostics: &'a mut dyn DiagnosticSink,
    pub regex_budget: &'a mut RegexBudget,
}

impl<'a> ExpectedValueReader<'a> {
    /// Reports a problem with the value.
    pub fn report(&mut self, code: DiagnosticCode, message: impl Into<String>, help: impl Into<String>) {
        self.report_at(self.value.span.clone(), code, message, help);
    }

    /// Reports a problem with a part of the value.
    pub fn report_at(
        &mut self,
        span: Range<usize>,
        code: DiagnosticCode,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        self.diagnostics.report(Diagnostic::error(code, span, message).with_help(help));
    }

    /// Reports that the value has the wrong type. Returns `None` for the caller to pass on.
    pub fn report_wrong_value<T>(&mut self, wanted: &str) -> Option<T> {
        report_wrong_type(self.value, &format!("the value of `{}`", self.operator), wanted, self.diagnostics);
        None
    }

    pub fn read_bool(&mut self) -> Option<bool> {
        match self.value.value {
            SyntaxNodeValue::Bool(value) => Some(value),
            _ => self.report_wrong_value("true or false"),
        }
    }

    pub fn read_text(&mut self) -> Option<&'a str> {
        match &self.value.value {
            SyntaxNodeValue::Text(text) => Some(text),
            _ => self.report_wrong_value("a string"),
        }
    }

    pub fn read_number(&mut self) -> Option<DecimalText> {
        match &self.value.value {
            SyntaxNodeValue::Number(text) => DecimalText::new(text),
            _ => self.report_wrong_value("a number"),
        }
    }

    /// Reads a scalar as a set with one member.
    pub fn read_scalar(&mut self) -> Option<ScalarSet> {
        let mut scalars = ScalarSet::default();
        match add_scalar(&mut scalars, self.value) {
            Some(()) => Some(scalars),
            None => self.report_wrong_value(SCALAR_DESCRIPTION),
        }
    }

    /// Reads a list of scalars.
    pub fn read_scalars(&mut self) -> Option<ScalarSet> {
        let mut scalars = ScalarSet::default();
        for item in self.read_members()? {
            if add_scalar(&mut scalars, item).is_none() {
                let what = format!("a member of `{}`", self.operator);
                report_wrong_type(item, &what, SCALAR_DESCRIPTION, self.diagnostics);
            }
        }
        Some(scalars.sorted())
    }

    /// Reads a list that is not empty.
    pub fn read_members(&mut self) -> Option<&'a [SyntaxNode]> {
        match &self.value.value {
            SyntaxNodeValue::List(items) if items.is_empty() => {
                let message = format!("the list of `{}` is empty, so it could never hold", self.operator);
                self.report(DiagnosticCode::EmptyList, message, "name at least one member");
                None
            }
            SyntaxNodeValue::List(items) => Some(items),
            _ => self.report_wrong_value("a list"),
        }
    }
}

fn add_scalar(scalars: &mut ScalarSet, node: &SyntaxNode) -> Option<()> {
    match &node.value {
        SyntaxNodeValue::Text(text) => scalars.add_text(text),
        // A number out of range has already been reported.
        SyntaxNodeValue::Number(text) => {
            DecimalText::new(text).into_iter().for_each(|number| scalars.add_number(number))
        }
        SyntaxNodeValue::Bool(value) => scalars.add_bool(*value),
        SyntaxNodeValue::Null | SyntaxNodeValue::List(_) | SyntaxNodeValue::Map(_) => return None,
    }
    Some(())
}
