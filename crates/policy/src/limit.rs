//! Limits as they are written, and the charges a call takes under them.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use gatelodge_json::Decimal;

use crate::call_path::CallPath;

/// Digits behind the point that amounts keep.
const BILLIONTHS_PER_UNIT: i128 = 1_000_000_000;

/// A quantity without rounding: up to 18 digits before and 9 after the point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Amount {
    billionths: i128,
}

impl Amount {
    /// One call.
    pub const ONE: Self = Self { billionths: BILLIONTHS_PER_UNIT };

    /// Takes a number over; none if it is negative or has too many digits.
    pub fn new(number: Decimal<'_>) -> Option<Self> {
        number.billionths().map(|billionths| Self { billionths })
    }

    /// Takes a quantity back from billionths; none if it is negative.
    pub fn of_billionths(billionths: i128) -> Option<Self> {
        (billionths >= 0).then_some(Self { billionths })
    }

    /// The quantity in billionths, for stores that count in whole numbers.
    pub fn billionths(self) -> i128 {
        self.billionths
    }

    /// Whether there is nothing behind the point.
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

/// How long a counter counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LimitWindow {
    /// So many seconds; 60 is the minute, 3,600 the hour, 86,400 the day.
    Seconds(u32),
    /// From Monday to Monday; not the same as 604,800 seconds.
    Week,
    /// From the first of a month to the first of the next.
    Month,
}

impl LimitWindow {
    /// The longest window in seconds: 366 days.
    pub const MAX_SECONDS: u32 = 366 * 86_400;
    /// The words for windows.
    pub const WORDS: [&'static str; 5] = ["minute", "hour", "day", "week", "month"];

    /// Reads a word, or a whole number with `s`, `m`, `h`, `d` or, in seconds, nothing behind it.
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

    /// The length of a window that has always the same.
    pub fn seconds(self) -> Option<u32> {
        match self {
            Self::Seconds(seconds) => Some(seconds),
            Self::Week | Self::Month => None,
        }
    }

    /// The word for a window that has one.
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
            (None, Self::Seconds(seconds)) => write!(f, "{seconds} s"),
            (None, Self::Week | Self::Month) => Ok(()),
        }
    }
}

/// A closed set of words, in documents and in answers.
macro_rules! string_enum {
    ($(#[$doc:meta])+ $name:ident { $($(#[$variant_doc:meta])+ $variant:ident = $word:literal,)+ }) => {
        $(#[$doc])+
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$variant_doc])+ $variant,)+ }

        impl $name {
            /// Their words, in the order of the documentation.
            pub const WORDS: &'static [&'static str] = &[$($word,)+];

            /// The word as it is written.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ }
            }

            /// Finds one by its word.
            pub fn from_word(word: &str) -> Option<Self> {
                match word { $($word => Some(Self::$variant),)+ _ => None }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}
pub(crate) use string_enum;

string_enum! {
    /// Whose counter it is.
    Scope {
        /// One for each grant.
        Grant = "grant",
        /// One for each session of a client; for a client without sessions, its grant's.
        Session = "session",
        /// One for all grants of a server.
        Server = "server",
        /// One for all servers.
        Organisation = "organisation",
    }
}

string_enum! {
    /// When a window begins.
    Align {
        /// At the UTC minute, hour, midnight, Monday or first; for N seconds, at multiples of N since 1970.
        Calendar = "calendar",
        /// At each moment: no interval of the window's length holds more than `max`.
        Rolling = "rolling",
    }
}

/// One limit of a rule block.
#[derive(Debug)]
pub struct Limit {
    pub(crate) pointer: Arc<str>,
    /// Where its counter is named.
    pub(crate) span: Range<usize>,
    pub(crate) counter: CounterRef,
    pub(crate) window: LimitWindow,
    pub(crate) align: Align,
    pub(crate) scope: Scope,
    pub(crate) max: Amount,
    pub(crate) amount: Option<CallPath>,
    pub(crate) on_deny: Option<Arc<str>>,
}

/// Which counter a limit charges.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CounterRef {
    Named(Arc<str>),
    /// The counter of a `rate_limit`: the prefix, the called tool's name, and `_rate`.
    PerTool {
        prefix: &'static str,
    },
}

/// What stands behind a tool's name in the counter of its `rate_limit`.
pub(crate) const RATE_COUNTER_SUFFIX: &str = "_rate";
/// What stands before it in `all_tools`.
pub(crate) const ALL_TOOLS_COUNTER_PREFIX: &str = "all:";

impl CounterRef {
    pub fn name(&self, tool: &str) -> Arc<str> {
        match self {
            Self::Named(name) => Arc::clone(name),
            Self::PerTool { prefix } => format!("{prefix}{tool}{RATE_COUNTER_SUFFIX}").into(),
        }
    }

    /// Whether both are the same counter in a call to the tool.
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

/// What a call takes from one counter, if there is room.
#[derive(Debug, Clone)]
pub struct Charge {
    pub(crate) limit: Arc<Limit>,
    pub(crate) counter: Arc<str>,
    pub(crate) scope: Scope,
    pub(crate) amount: Amount,
}

impl Charge {
    /// The rule, as a JSON Pointer into the policy.
    pub fn rule(&self) -> &Arc<str> {
        &self.limit.pointer
    }

    /// The counter's name.
    pub fn counter(&self) -> &Arc<str> {
        &self.counter
    }

    /// Whose counter it is, for this call.
    pub fn scope(&self) -> Scope {
        self.scope
    }

    /// How long it counts.
    pub fn window(&self) -> LimitWindow {
        self.limit.window
    }

    /// When the window begins.
    pub fn align(&self) -> Align {
        self.limit.align
    }

    /// What the counter may reach.
    pub fn max(&self) -> Amount {
        self.limit.max
    }

    /// What this call adds.
    pub fn amount(&self) -> Amount {
        self.amount
    }

    /// What the policy says to a call that finds no room.
    pub fn on_deny(&self) -> Option<&Arc<str>> {
        self.limit.on_deny.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_have_one_form_for_each_length() {
        assert_eq!(LimitWindow::new("60"), LimitWindow::new("minute"));
        assert_eq!(LimitWindow::new("1m"), LimitWindow::new("minute"));
        assert_eq!(LimitWindow::new("24h"), LimitWindow::new("day"));
        assert_eq!(LimitWindow::new("15m"), Some(LimitWindow::Seconds(900)));
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
