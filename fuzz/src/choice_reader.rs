//! Interprets the fuzzer's bytes as choices.

/// A sequence of choices. After its end every choice is the first.
#[derive(Debug, Clone)]
pub struct ChoiceReader<'t> {
    bytes: &'t [u8],
}

impl<'t> ChoiceReader<'t> {
    /// Starts at the first byte.
    pub fn new(bytes: &'t [u8]) -> Self {
        Self { bytes }
    }

    /// Takes the next byte.
    pub fn next_byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.bytes.split_first() else { return 0 };
        self.bytes = rest;
        first
    }

    /// Takes a number below `bound`, which must not be zero.
    pub fn number_below(&mut self, bound: usize) -> usize {
        let wide = usize::from(self.next_byte()) << 8 | usize::from(if bound > 256 { self.next_byte() } else { 0 });
        let value = if bound > 256 { wide } else { wide >> 8 };
        value % bound
    }

    /// Returns true with a chance of one in `chances`; never after the end.
    pub fn is_one_in(&mut self, chances: usize) -> bool {
        self.number_below(chances) == chances - 1
    }

    /// Picks an element of a list, which must not be empty.
    pub fn pick<'c, T: ?Sized>(&mut self, choices: &[&'c T]) -> &'c T {
        choices.get(self.number_below(choices.len())).expect("a choice within the list")
    }
}
