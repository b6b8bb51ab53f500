//! A policy's limits, and the charges that a call incurs under them.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use gatelodge_json::Decimal;

use crate::call::call_path::CallPath;
use crate::string_enum::string_enum;

/// Billionths in one unit: amounts have nine decimal places.
const BILLIONTHS_PER_UNIT: i128 = 1_000_000_000;

/// An exact decimal quantity: up to 18 digits in front of the decimal point and 9 after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Amount {
    billionths: i128,
}

impl Amount {
    /// One: the amount of a call, unless the limit reads the amount from an argument.
    pub const ONE: Self = Self { billionths: BILLIONTHS_PER_UNIT };

    /// Converts a number to a quantity. `None` if it is negative or has too many digits.
    pub fn new(number: Decimal<'_>) -> Option<Self> {
        number.billionths().map(|billionths| Self { billionths })
    }

    /// Converts billionths to a quantity. `None` if the number is negative.
    pub fn of_billionths(billionths: i128) -> Option<Self> {
        (billionths >= 0).then_some(Self { billionths })
    }

    /// Returns the quantity in billionths, for stores that count in integers.
    pub fn billionths(self) -> i128 {
        self.billionths
    }

    /// Returns whether the quantity is an integer.
    pub fn is_whole(self) -> bool {
        self.billionths % BILLIONTHS_PER_UNIT == 0
    }

    pub(crate) fn is_zero(self) -> bool {
        self.billionths == 0
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, rest) = (self.billionths / BILLIONTHS_PER_UNIT, self.billionths % BILLIONTHS_PER_UNIT);
        if rest == 0 {
            return write!(f, "{whole}");
        }
        let fraction = format!("{rest:09}");
        write!(f, "{whole}.{}", fraction.trim_end_matches('0'))
    }
}

/// The period over which a counter adds up amounts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LimitWindow {
    /// A fixed number of seconds. 60 is a minute, 3,600 an hour, 86,400 a day.
    Seconds(u32),
    /// A week that starts on Monday. A window of 604,800 seconds is just as long, but is not tied to a weekday.
    Week,
    /// A calendar month.
    Month,
}

impl LimitWindow {
    /// Maximum length in seconds: 366 days.
    pub const MAX_SECONDS: u32 = 366 * 86_400;
    /// Window names that policies can use.
    pub const WORDS: [&'static str; 5] = ["minute", "hour", "day", "week", "month"];

    /// Parses a name, or an integer followed by `s`, `m`, `h`, `d` or nothing, which means seconds.
    pub(crate) fn new(text: &str) -> Option<Self> {
        match text {
            "minute" => return Some(Self::Seconds(60)),
            "hour" => return Some(Self::Seconds(3_600)),
            "day" => return Some(Self::Seconds(86_400)),
            "week" => return Some(Self::Week),
            "month" => return Some(Self::Month),
            _ => {}
        }
        let (number, unit) = match text.char_indices().last()? {
            (at, 's') => (text.get(..at)?, 1),
            (at, 'm') => (text.get(..at)?, 60),
            (at, 'h') => (text.get(..at)?, 3_600),
            (at, 'd') => (text.get(..at)?, 86_400),
            _ => (text, 1),
        };
        let is_plain = !number.starts_with('0') && number.bytes().all(|byte| byte.is_ascii_digit());
        let number: u32 = number.parse().ok().filter(|_| is_plain)?;
        Self::of_seconds(number.checked_mul(unit)?)
    }

    pub(crate) fn of_seconds(seconds: u32) -> Option<Self> {
        (1..=Self::MAX_SECONDS).contains(&seconds).then_some(Self::Seconds(seconds))
    }

    /// Returns the length in seconds. `None` for weeks and months.
    pub fn seconds(self) -> Option<u32> {
        match self {
            Self::Seconds(seconds) => Some(seconds),
            Self::Week | Self::Month => None,
        }
    }

    /// Returns the name of a window, if it has one.
    pub fn word(self) -> Option<&'static str> {
        match self {
            Self::Seconds(60) => Some("minute"),
            Self::Seconds(3_600) => Some("hour"),
            Self::Seconds(86_400) => Some("day"),
            Self::Seconds(_) => None,
            Self::Week => Some("week"),
            Self::Month => Some("month"),
        }
    }
}

impl fmt::Display for LimitWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.word(), self) {
            (Some(word), _) => f.write_str(word),
            (None, Self::Seconds(seconds)) => {
                // The largest unit without a rest, so that the window is exact: `90 min`, not `1 h 30 min`.
                let units = [(86_400, "d"), (3_600, "h"), (60, "min")];
                let (size, unit) = units.into_iter().find(|(size, _)| seconds % size == 0).unwrap_or((1, "s"));
                write!(f, "{} {unit}", seconds / size)
            }
            (None, Self::Week | Self::Month) => Ok(()),
        }
    }
}

string_enum! {
    /// Which calls share a counter.
    LimitScope {
        /// Each grant has its own counter.
        Grant = "grant",
        /// Each client session has its own counter. Clients without sessions use their grant's counter.
        Session = "session",
        /// All grants for a server share the counter.
        Server = "server",
        /// All servers share the counter.
        Organisation = "organisation",
    }
}

string_enum! {
    /// When a window starts.
    WindowAlignment {
        /// At the start of the UTC minute, hour, day, week (Monday) or month; windows of N seconds start at multiples
        /// of N since the Unix epoch.
        Calendar = "calendar",
        /// Sliding window: the amounts in any interval of the window's length add up to at most `max`.
        Rolling = "rolling",
    }
}

/// One limit of a rule block.
#[derive(Debug)]
pub struct Limit {
    pub(crate) pointer: Arc<str>,
    /// Location of the counter's name in the document.
    pub(crate) span: Range<usize>,
    pub(crate) counter: CounterRef,
    pub(crate) window: LimitWindow,
    pub(crate) align: WindowAlignment,
    pub(crate) scope: LimitScope,
    pub(crate) max: Amount,
    pub(crate) amount: Option<CallPath>,
    pub(crate) on_deny: Option<Arc<str>>,
}

/// The counter that a limit charges.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CounterRef {
    Named(Arc<str>),
    /// The counter of a `rate_limit`. Its name consists of a prefix, the name of the called tool, and `_rate`.
    PerTool {
        prefix: &'static str,
    },
}

/// Suffix of the name of a `rate_limit` counter.
pub(crate) const RATE_COUNTER_SUFFIX: &str = "_rate";
/// Prefix of the name of a `rate_limit` counter in `all_tools`.
pub(crate) const ALL_TOOLS_COUNTER_PREFIX: &str = "all:";

impl CounterRef {
    pub fn name(&self, tool: &str) -> Arc<str> {
        match self {
            Self::Named(name) => Arc::clone(name),
            Self::PerTool { prefix } => format!("{prefix}{tool}{RATE_COUNTER_SUFFIX}").into(),
        }
    }

    /// Returns whether both refer to the same counter when `tool` is called.
    pub fn is_same(&self, other: &Self, tool: &str) -> bool {
        match (self, other) {
            (Self::Named(a), Self::Named(b)) => a == b,
            (Self::PerTool { prefix: a }, Self::PerTool { prefix: b }) => a == b,
            (Self::Named(name), Self::PerTool { prefix }) | (Self::PerTool { prefix }, Self::Named(name)) => {
                let inner = name.strip_prefix(prefix).and_then(|rest| rest.strip_suffix(RATE_COUNTER_SUFFIX));
                inner == Some(tool)
            }
        }
    }
}

/// The amount that a call adds to one counter.
#[derive(Debug, Clone)]
pub struct Charge {
    pub(crate) limit: Arc<Limit>,
    pub(crate) counter: Arc<str>,
    pub(crate) scope: LimitScope,
    pub(crate) amount: Amount,
}

impl Charge {
    /// JSON Pointer of the limit.
    pub fn rule(&self) -> &Arc<str> {
        &self.limit.pointer
    }

    /// Name of the counter.
    pub fn counter(&self) -> &Arc<str> {
        &self.counter
    }

    /// Scope of the counter for this call.
    pub fn scope(&self) -> LimitScope {
        self.scope
    }

    /// Length of the window.
    pub fn window(&self) -> LimitWindow {
        self.limit.window
    }

    /// How the start of the window is determined.
    pub fn align(&self) -> WindowAlignment {
        self.limit.align
    }

    /// Maximum value of the counter.
    pub fn max(&self) -> Amount {
        self.limit.max
    }

    /// Amount that this call adds.
    pub fn amount(&self) -> Amount {
        self.amount
    }

    /// The policy's message for a call that exceeds the limit.
    pub fn on_deny(&self) -> Option<&Arc<str>> {
        self.limit.on_deny.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantity_of_billionths_is_never_negative() {
        assert_eq!(Amount::of_billionths(BILLIONTHS_PER_UNIT), Some(Amount::ONE));
        assert_eq!(Amount::of_billionths(0).map(|none| (none.is_zero(), none.billionths())), Some((true, 0)));
        assert_eq!(Amount::of_billionths(-1), None);
    }

    #[test]
    fn windows_have_one_form_for_each_length() {
        assert_eq!(LimitWindow::new("60"), LimitWindow::new("minute"));
        assert_eq!(LimitWindow::new("1m"), LimitWindow::new("minute"));
        assert_eq!(LimitWindow::new("24h"), LimitWindow::new("day"));
        assert_eq!(LimitWindow::new("15m"), Some(LimitWindow::Seconds(900)));
        for (seconds, text) in [(60, "minute"), (45, "45 s"), (5_400, "90 min"), (7_200, "2 h"), (604_800, "7 d")] {
            assert_eq!(LimitWindow::Seconds(seconds).to_string(), text);
        }
        assert_ne!(LimitWindow::new("604800"), LimitWindow::new("week"));
        assert_eq!(LimitWindow::new("366d"), Some(LimitWindow::Seconds(LimitWindow::MAX_SECONDS)));
        for text in [
            "",
            "0",
            "0m",
            "015m",
            "m",
            "1 m",
            "-1",
            "+1",
            "1.5h",
            "367d",
            "1w",
            "Minute",
            "99999999999d",
            "1mont",
            "٣",
        ] {
            assert_eq!(LimitWindow::new(text), None, "{text}");
        }
    }

    #[test]
    fn amounts_are_written_without_rounding() {
        let written = |text: &str| Decimal::new(text).and_then(Amount::new).map(|amount| amount.to_string());
        assert_eq!(written("1e3").as_deref(), Some("1000"));
        assert_eq!(written("0.990").as_deref(), Some("0.99"));
        assert_eq!(written("-0").as_deref(), Some("0"));
        assert_eq!(written("-1"), None);
    }
}
