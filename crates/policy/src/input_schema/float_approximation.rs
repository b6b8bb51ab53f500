//! Numbers for the validator, which computes with floats: each is replaced by one that compares as its text does.

use std::cmp::Ordering;

use gatelodge_json::{Decimal, JsonKind, JsonValue};
use serde_json::Number;

/// The largest float that is not whole.
const MAX_FRACTIONAL_FLOAT: f64 = 4_503_599_627_370_495.5;

/// The numbers of a schema, as they are written and as the validator has them.
#[derive(Debug, Default)]
pub(super) struct SchemaNumbers {
    /// In ascending order.
    numbers: Vec<(Box<str>, Number)>,
    /// Whether it asks anywhere if a number is whole.
    checks_integer: bool,
    /// Whether it asks anywhere what a number is a multiple of.
    checks_multiple_of: bool,
}

/// The number that the validator gets for a number of the schema; none if it would compare otherwise than its text.
pub(super) fn schema_number(text: &str) -> Option<Number> {
    let (number, decimal) = (nearest_number(text)?, Decimal::new(text)?);
    let float = number.as_f64()?;
    let is_whole_alike = (float.fract() == 0.0) == decimal.is_integer();
    let is_zero_alike = (float == 0.0) == (decimal == Decimal::ZERO);
    (!number.is_f64() || (is_whole_alike && is_zero_alike)).then_some(number)
}

/// The number that the validator gets for a text: whole if it can be, else the nearest float.
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

    /// A number that stands to all bounds as the text does, and is whole if it is where that is asked.
    /// None if there is no such float.
    pub fn faithful_number(&self, text: &str) -> Option<Number> {
        let number = nearest_number(text)?;
        let Some(float) = number.as_f64().filter(|_| number.is_f64()) else { return Some(number) };
        let decimal = Decimal::new(text)?;
        let neighbours = [float, float.next_up(), float.next_down()];
        // Larger floats are all whole; where no bound is larger either, this one stands for them.
        let broken = MAX_FRACTIONAL_FLOAT.copysign(float);
        let stand_in = (!self.checks_multiple_of).then_some(broken);
        let mut candidates = neighbours.into_iter().chain(stand_in);
        Number::from_f64(candidates.find(|candidate| self.is_faithful(*candidate, decimal))?)
    }

    fn is_faithful(&self, candidate: f64, decimal: Decimal<'_>) -> bool {
        let asks = self.checks_integer || self.checks_multiple_of;
        let is_whole_alike = !asks || (candidate.fract() == 0.0) == decimal.is_integer();
        let compares_alike = |(text, bound): &(Box<str>, Number)| {
            let wanted = Decimal::new(text).map(|bound| decimal.cmp(&bound));
            wanted.is_some() && wanted == compare_exactly(candidate, bound)
        };
        // Who stands right to the nearest on either side stands right to all.
        let above = self.numbers.partition_point(|(text, _)| Decimal::new(text) < Some(decimal));
        let nearest = self.numbers.get(above.saturating_sub(1)..).unwrap_or_default().iter().take(2);
        is_whole_alike && nearest.into_iter().all(compares_alike)
    }
}

/// Compares a float with a bound without rounding either.
fn compare_exactly(float: f64, bound: &Number) -> Option<Ordering> {
    let Some(whole) = bound.as_i128() else { return float.partial_cmp(&bound.as_f64()?) };
    // Whole numbers below 2^53 are floats too; above, every float is whole.
    if whole.abs() < 1 << 53 {
        return float.partial_cmp(&(whole as f64));
    }
    Some((float.trunc() as i128).cmp(&whole))
}
