//! Bytes of the fuzzer read as choices.

/// A tape of choices. At its end every choice is the first.
#[derive(Debug, Clone)]
pub struct Tape<'t> {
    bytes: &'t [u8],
}

impl<'t> Tape<'t> {
    /// Begins at the first byte.
    pub fn new(bytes: &'t [u8]) -> Self {
        Self { bytes }
    }

    /// Takes the next byte.
    pub fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.bytes.split_first() else { return 0 };
        self.bytes = rest;
        first
    }

    /// Takes a number below `bound`, which is not zero.
    pub fn below(&mut self, bound: usize) -> usize {
        let wide = usize::from(self.byte()) << 8 | usize::from(if bound > 256 { self.byte() } else { 0 });
        let value = if bound > 256 { wide } else { wide >> 8 };
        value % bound
    }

    /// Whether a chance of one in `chances` comes true; never at the end of the tape.
    pub fn one_in(&mut self, chances: usize) -> bool {
        self.below(chances) == chances - 1
    }

    /// Takes one of a list that is not empty.
    pub fn pick<'c, T: ?Sized>(&mut self, choices: &[&'c T]) -> &'c T {
        choices.get(self.below(choices.len())).expect("a choice within the list")
    }
}
