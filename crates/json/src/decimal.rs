//! Exact decimal numbers: checks their grammar, and compares them digit by digit instead of as floats.

use std::cmp::Ordering;

use gatelodge_mutants::mutant;

use crate::error::JsonErrorKind;

/// Maximum number of digits in a number, not counting its exponent.
pub const MAX_NUMBER_DIGITS: usize = 1_000;
/// Numbers whose magnitude exceeds 10 to this power are refused.
const MAX_EXPONENT: i64 = 308;

/// A scanned number: its length and facts about its notation.
pub(crate) struct NumberToken {
    /// Number of bytes that belong to the number, even if it is malformed.
    pub length: usize,
    digit_count: usize,
    has_exponent: bool,
    is_well_formed: bool,
}

/// Finds the end of the number at the start of `text` and checks it against the JSON grammar.
#[inline]
pub(crate) fn number_parts(text: &[u8]) -> NumberToken {
    let count = |from: usize| {
        let rest = text.get(from..).unwrap_or_default();
        rest.iter().take_while(|byte| byte.is_ascii_digit()).count()
    };
    let byte = |at: usize| text.get(at).copied();
    let sign = usize::from(byte(0) == Some(b'-'));
    let integer = count(sign);
    let mut well_formed = integer == 1 || (integer > 1 && byte(sign) != Some(b'0'));
    let mut length = sign + integer;
    let mut fraction = 0;
    if byte(length) == Some(b'.') {
        fraction = count(length + 1);
        well_formed &= fraction > 0;
        length += 1 + fraction;
    }
    let has_exponent = matches!(byte(length), Some(b'e' | b'E'));
    if has_exponent {
        let sign = usize::from(matches!(byte(length + 1), Some(b'+' | b'-')));
        let exponent = count(length + 1 + sign);
        well_formed &= exponent > 0;
        length += 1 + sign + exponent;
    }
    // `01`, `1.2.3` and `1x` are one malformed number, not a number followed by something else.
    while matches!(byte(length), Some(b'.' | b'+' | b'-' | b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z')) {
        well_formed = false;
        length += 1;
    }
    NumberToken { length, digit_count: integer + fraction, has_exponent, is_well_formed: well_formed }
}

impl NumberToken {
    /// Returns what is wrong with the number at the start of `text`, if anything.
    #[inline]
    pub fn error(&self, text: &[u8]) -> Option<JsonErrorKind> {
        if !self.is_well_formed {
            return Some(JsonErrorKind::InvalidNumber);
        }
        if !self.has_exponent && self.digit_count <= 300 {
            return None;
        }
        if self.digit_count > MAX_NUMBER_DIGITS {
            return Some(JsonErrorKind::NumberTooLong);
        }
        let text = text.get(..self.length).unwrap_or_default();
        match Decimal::from_bytes(text) {
            None => Some(JsonErrorKind::NumberTooLong),
            Some(number) if number.is_too_large() => Some(JsonErrorKind::NumberTooLarge),
            Some(_) => None,
        }
    }
}

/// A number that keeps its written form but is compared by value: `1`, `1.0` and `1e0` are equal, and `-0` equals `0`.
///
/// ```
/// use gatelodge_json::Decimal;
///
/// let number = |text| Decimal::new(text).expect("a number");
/// assert_eq!(number("1.0"), number("1e0"));
/// // As `f64`, both would be 9007199254740992.
/// assert!(number("9007199254740992") < number("9007199254740993"));
/// assert!(Decimal::new("1e999").is_none());
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Decimal<'a> {
    negative: bool,
    integer: &'a [u8],
    fraction: &'a [u8],
    exponent: i64,
}

impl<'a> Decimal<'a> {
    /// Zero.
    pub const ZERO: Self = Self { negative: false, integer: b"0", fraction: b"", exponent: 0 };

    /// Parses a JSON number. Returns `None` if it is malformed or exceeds the parser's limits.
    pub fn new(text: &'a str) -> Option<Self> {
        let bytes = text.as_bytes();
        let shape = number_parts(bytes);
        let is_whole_text = shape.length == bytes.len();
        if !is_whole_text || shape.error(bytes).is_some() {
            return None;
        }
        Self::from_bytes(bytes)
    }

    /// Splits a well-formed number into its parts. Returns `None` if the exponent does not fit into an `i64`.
    pub(crate) fn from_bytes(text: &'a [u8]) -> Option<Self> {
        let negative = text.first() == Some(&b'-');
        let text = text.strip_prefix(b"-").unwrap_or(text);
        let (mantissa, exponent) = match memchr::memchr2(b'e', b'E', text) {
            Some(at) => (text.get(..at)?, parse_exponent(text.get(at + 1..)?)?),
            None => (text, 0),
        };
        let (integer, fraction) = match memchr::memchr(b'.', mantissa) {
            Some(at) => (mantissa.get(..at)?, mantissa.get(at + 1..)?),
            None => (mantissa, &[][..]),
        };
        Some(Self { negative, integer, fraction, exponent })
    }

    /// Returns the significant digits, starting with the first non-zero digit.
    fn digits(&self) -> impl Iterator<Item = u8> + use<'a> {
        let all = self.integer.iter().chain(self.fraction);
        all.copied().skip_while(|digit| *digit == b'0')
    }

    /// Returns the power of ten of the first significant digit, or `None` for zero.
    fn leading_exponent(&self) -> Option<i64> {
        let all = self.integer.iter().chain(self.fraction);
        let zeros = all.take_while(|digit| **digit == b'0').count();
        if zeros == self.integer.len() + self.fraction.len() {
            return None;
        }
        let first = self.integer.len() as i64 - 1 - zeros as i64;
        Some(first.saturating_add(self.exponent))
    }

    fn is_too_large(&self) -> bool {
        match self.leading_exponent() {
            None => false,
            Some(power) if power != MAX_EXPONENT => power > MAX_EXPONENT,
            Some(_) => {
                let mut digits = self.digits();
                digits.next() != Some(b'1') || digits.any(|digit| digit != b'0')
            }
        }
    }

    /// Returns whether the value is below zero. `-0` does not count.
    pub fn is_negative(&self) -> bool {
        self.negative && self.leading_exponent().is_some()
    }

    /// Returns whether the value is an integer, regardless of notation: `5.0` and `10e-1` are integers.
    pub fn is_integer(&self) -> bool {
        self.trailing_exponent().is_none_or(|power| power >= 0)
    }

    /// Returns the power of ten of the last non-zero digit, or `None` for zero.
    fn trailing_exponent(&self) -> Option<i64> {
        let all = self.integer.iter().chain(self.fraction);
        let zeros = all.rev().take_while(|digit| **digit == b'0').count() as i64;
        self.leading_exponent()?;
        Some((zeros - self.fraction.len() as i64).saturating_add(self.exponent))
    }

    /// Returns the value in billionths if it is not negative and has at most 18 digits before the decimal point and 9
    /// after it.
    pub fn billionths(&self) -> Option<i128> {
        let Some(power) = self.leading_exponent() else { return Some(0) };
        let last = self.trailing_exponent()?;
        if self.negative || power > 17 || last < -9 {
            return None;
        }
        let count = usize::try_from(power - last + 1).ok()?;
        let digits = self.digits().chain(std::iter::repeat(b'0')).take(count);
        let value = digits.fold(0_i128, |value, digit| value * 10 + i128::from(digit - b'0'));
        Some(value * 10_i128.pow(u32::try_from(last + 9).ok()?))
    }

    /// Returns whether the number is written without a fraction or an exponent.
    fn is_integer_notation(&self) -> bool {
        self.fraction.is_empty() && self.exponent == 0
    }

    fn compare_magnitude(&self, other: &Self) -> Ordering {
        if self.is_integer_notation() && other.is_integer_notation() {
            // JSON forbids leading zeros, so the longer number is the larger one.
            return self.integer.len().cmp(&other.integer.len()).then_with(|| self.integer.cmp(other.integer));
        }
        match (self.leading_exponent(), other.leading_exponent()) {
            (None, None) => Ordering::Equal,
            (None, Some(_)) => Ordering::Less,
            (Some(_), None) => Ordering::Greater,
            (Some(ours), Some(theirs)) if ours != theirs => ours.cmp(&theirs),
            (Some(_), Some(_)) => {
                let length = |number: &Self| number.integer.len() + number.fraction.len();
                let most = if mutant!("decimals-compared-as-floats") { 15 } else { usize::MAX };
                let longest = length(self).max(length(other)).min(most);
                let padded = |number: &Self| number.digits().chain(std::iter::repeat(b'0')).take(longest);
                padded(self).cmp(padded(other))
            }
        }
    }
}

/// Parses the exponent after the `e`. Returns `None` if it does not fit into an `i64`.
fn parse_exponent(text: &[u8]) -> Option<i64> {
    let text = str::from_utf8(text).ok()?;
    text.strip_prefix('+').unwrap_or(text).parse().ok()
}

impl Ord for Decimal<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self.is_negative(), other.is_negative()) {
            (false, true) => Ordering::Greater,
            (true, false) => Ordering::Less,
            (false, false) => self.compare_magnitude(other),
            (true, true) => other.compare_magnitude(self),
        }
    }
}

impl PartialOrd for Decimal<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Decimal<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Decimal<'_> {}

#[cfg(test)]
mod tests {
    use super::*;

    fn decimal(text: &str) -> Decimal<'_> {
        Decimal::new(text).unwrap_or_else(|| panic!("{text} is a number"))
    }

    #[test]
    fn notations_of_the_same_value_are_equal() {
        for (a, b) in [("1", "1.0"), ("1", "1e0"), ("-0", "0"), ("100", "1E2"), ("0e99", "-0.00"), ("12e-1", "1.20")] {
            assert_eq!(decimal(a), decimal(b), "{a} {b}");
        }
    }

    #[test]
    fn numbers_that_are_equal_as_floats_are_ordered() {
        let ascending = [
            "-1e308",
            "-9007199254740993",
            "-9007199254740992",
            "-1e-400",
            "0",
            "1e-400",
            "0.1",
            "0.10000000000000000001",
            "99.9",
            "100",
            "100.00000000000000000001",
            "9007199254740992",
            "9007199254740993",
            "1e307",
            "1e308",
        ];
        for pair in ascending.windows(2) {
            assert!(decimal(pair[0]) < decimal(pair[1]), "{pair:?}");
        }
    }

    #[test]
    fn numbers_outside_the_limits_are_refused() {
        let long = "1".repeat(1001);
        for text in [
            "1e309",
            "1.1e308",
            "-1e400",
            "1e99999999999999999999",
            &long,
            "01",
            "+1",
            ".5",
            "1.",
            "1e",
            "0x1",
            "",
            "-",
        ] {
            assert!(Decimal::new(text).is_none(), "{text}");
        }
        assert!(Decimal::new(&format!("0.{}", "1".repeat(999))).is_some());
        assert!(Decimal::new("1000e305").is_some());
        assert!(Decimal::new("0e400").is_some());
    }

    #[test]
    fn billionths_are_exact_or_none() {
        assert_eq!(decimal("0.99").billionths(), Some(990_000_000));
        assert_eq!(decimal("1e17").billionths(), Some(10_i128.pow(26)));
        assert_eq!(decimal("1e18").billionths(), None);
        assert_eq!(decimal("1.0000000001").billionths(), None);
        assert_eq!(decimal("1.0000000010").billionths(), Some(1_000_000_001));
        assert_eq!(decimal("-0").billionths(), Some(0));
        assert_eq!(decimal("-1").billionths(), None);
        assert_eq!(decimal("999999999999999999.999999999").billionths(), Some(10_i128.pow(27) - 1));
    }

    #[test]
    fn is_integer_depends_on_the_value_and_not_the_notation() {
        assert!(decimal("5.0").is_integer() && decimal("1e3").is_integer() && decimal("10e-1").is_integer());
        assert!(!decimal("5.5").is_integer() && !decimal("1e-1").is_integer());
    }
}
