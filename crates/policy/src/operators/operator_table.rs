//! The enums that the table of operators expands to.

/// Defines `Operator` and `CompiledOperator` with one variant per line. A line names the variant and the type that
/// implements [`ConditionOperator`](super::ConditionOperator).
macro_rules! operator_table {
    ($($variant:ident = $file:ident::$operator:ident,)+) => {
        /// The operators of conditions.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Operator {
            $(#[doc = concat!("Defined in `operators/", stringify!($file), ".rs`.")] $variant,)+
        }

        impl Operator {
            /// The words of all operators, in the order in which the documentation lists them.
            pub const WORDS: &'static [&'static str] = &[$($file::$operator::WORD,)+];

            /// Returns the word of the operator.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $file::$operator::WORD,)+ }
            }

            /// Returns the operator with this word.
            pub fn from_word(word: &str) -> Option<Self> {
                match word { $($file::$operator::WORD => Some(Self::$variant),)+ _ => None }
            }

            /// Returns the help text for editors.
            pub(crate) fn help(self) -> &'static str {
                match self { $(Self::$variant => $file::$operator::HELP,)+ }
            }

            /// Returns the JSON Schema of the operator's value.
            pub(crate) fn value_schema(self) -> Value {
                match self { $(Self::$variant => $file::$operator::value_schema(),)+ }
            }
        }

        impl std::fmt::Display for Operator {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        /// An operator with its compiled value.
        #[derive(Debug)]
        pub(crate) enum CompiledOperator { $($variant($file::$operator),)+ }

        impl CompiledOperator {
            /// Compiles the value that `reader` is at. `None` if it has reported why the operator cannot use it.
            pub fn compile(operator: Operator, reader: &mut ExpectedValueReader<'_>) -> Option<Self> {
                match operator { $(Operator::$variant => $file::$operator::compile(reader).map(Self::$variant),)+ }
            }

            /// Returns the operator without its value.
            pub fn operator(&self) -> Operator {
                match self { $(Self::$variant(_) => Operator::$variant,)+ }
            }

            /// Applies the operator to the value at a path. `None` means that there is no value.
            pub fn evaluate(&self, found: Option<&CallValue<'_>>) -> ConditionResult {
                match found {
                    Some(found) => self.holds(found).map_or(ConditionResult::Mismatch, ConditionResult::of),
                    None => match self { $(Self::$variant(operator) => operator.absent_result(),)+ },
                }
            }

            /// Returns whether the operator holds for a value, or `None` if it cannot compare the value.
            pub fn holds(&self, found: &CallValue<'_>) -> Option<bool> {
                match self { $(Self::$variant(operator) => operator.holds(found),)+ }
            }

            /// Returns the kinds of values for which the operator can hold.
            pub fn accepted_kinds(&self) -> JsonKindSet {
                match self { $(Self::$variant(operator) => operator.accepted_kinds(),)+ }
            }

            /// Returns what lints know about values for which the operator holds.
            pub fn restriction(&self) -> ValueRestriction<'_> {
                match self { $(Self::$variant(operator) => operator.restriction(),)+ }
            }
        }
    };
}
pub(super) use operator_table;
