//! Converts decimal numbers for the validator, which computes with floats. Comparing a converted number with a number
//! in the schema gives the same result as comparing the decimals.

use std::cmp::Ordering;

use gatelodge_json::{Decimal, JsonKind, JsonValue};
use serde_json::Number;

/// The largest float that is not an integer.
const MAX_FRACTIONAL_FLOAT: f64 = 4_503_599_627_370_495.5;

/// The numbers in a schema, each as it is written and as the validator represents it.
#[derive(Debug, Default)]
pub(super) struct SchemaNumbers {
    /// The numbers, sorted in ascending order.
    numbers: Vec<(Box<str>, Number)>,
    /// Whether the schema contains `"integer"`.
    checks_integer: bool,
    /// Whether the schema contains `multipleOf`.
    checks_multiple_of: bool,
}

/// Converts a number in the schema for the validator. `None` if rounding to a float would turn a fraction into an
/// integer, or a number other than zero into zero.
pub(super) fn schema_number(text: &str) -> Option<Number> {
    let (number, decimal) = (nearest_number(text)?, Decimal::new(text)?);
    let float = number.as_f64()?;
    let is_whole_alike = (float.fract() == 0.0) == decimal.is_integer();
    let is_zero_alike = (float == 0.0) == (decimal == Decimal::ZERO);
    (!number.is_f64() || (is_whole_alike && is_zero_alike)).then_some(number)
}

/// Parses a number: as an integer if it is one and fits into 64 bits, and otherwise as the nearest float.
pub(super) fn nearest_number(text: &str) -> Option<Number> {
    let decimal = Decimal::new(text)?;
    if let Ok(whole) = text.parse::<i64>() {
        return Some(whole.into());
    }
    if let Ok(whole) = text.parse::<u64>() {
        return Some(whole.into());
    }
    if decimal.is_integer()
        && let Some(billionths) = decimal.billionths()
    {
        return i64::try_from(billionths / 1_000_000_000).ok().map(Into::into);
    }
    Number::from_f64(text.parse().ok()?)
}

impl SchemaNumbers {
    pub fn of(schema: JsonValue<'_>) -> Self {
        let mut bounds = Self::default();
        bounds.collect(schema);
        bounds.numbers.sort_by(|(a, _), (b, _)| Decimal::new(a).cmp(&Decimal::new(b)));
        bounds
    }

    fn collect(&mut self, value: JsonValue<'_>) {
        match value.kind() {
            JsonKind::Number => {
                self.numbers.extend(nearest_number(value.raw()).map(|number| (value.raw().into(), number)))
            }
            JsonKind::Array => value.elements().for_each(|item| self.collect(item)),
            JsonKind::Object => value.members().for_each(|(key, item)| {
                self.checks_multiple_of |= key.is_str("multipleOf");
                self.collect(item);
            }),
            JsonKind::String => self.checks_integer |= value.is_str("integer"),
            JsonKind::Null | JsonKind::Bool => {}
        }
    }

    /// Converts a number in the arguments so that comparisons with all numbers in the schema give the same results as
    /// for the original decimal. If the schema checks for integers, the result is an integer if and only if the
    /// original is. `None` if no suitable float is found.
    pub fn faithful_number(&self, text: &str) -> Option<Number> {
        let number = nearest_number(text)?;
        let Some(float) = number.as_f64().filter(|_| number.is_f64()) else { return Some(number) };
        let decimal = Decimal::new(text)?;
        let neighbors = [float, float.next_up(), float.next_down()];
        // All larger floats are integers. If no schema number is larger either, this one can represent a fraction.
        let broken = MAX_FRACTIONAL_FLOAT.copysign(float);
        let stand_in = (!self.checks_multiple_of).then_some(broken);
        let mut candidates = neighbors.into_iter().chain(stand_in);
        Number::from_f64(candidates.find(|candidate| self.is_faithful(*candidate, decimal))?)
    }

    fn is_faithful(&self, candidate: f64, decimal: Decimal<'_>) -> bool {
        let asks = self.checks_integer || self.checks_multiple_of;
        let is_whole_alike = !asks || (candidate.fract() == 0.0) == decimal.is_integer();
        let compares_alike = |(text, bound): &(Box<str>, Number)| {
            let wanted = Decimal::new(text).map(|bound| decimal.cmp(&bound));
            wanted.is_some() && wanted == compare_exactly(candidate, bound)
        };
        // It is enough to compare with the nearest schema number on each side, because they are sorted.
        let above = self.numbers.partition_point(|(text, _)| Decimal::new(text) < Some(decimal));
        let nearest = self.numbers.get(above.saturating_sub(1)..).unwrap_or_default().iter().take(2);
        is_whole_alike && nearest.into_iter().all(compares_alike)
    }
}

/// Compares a float with a schema number without rounding either of them.
fn compare_exactly(float: f64, bound: &Number) -> Option<Ordering> {
    let Some(whole) = bound.as_i128() else { return float.partial_cmp(&bound.as_f64()?) };
    // Integers below 2^53 are exact as floats; above, every float is an integer.
    if whole.abs() < 1 << 53 {
        return float.partial_cmp(&(whole as f64));
    }
    Some((float.trunc() as i128).cmp(&whole))
}
