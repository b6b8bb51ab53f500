//! Finds out quickly that a JSON message does not contain certain words, so that most messages need no second look.

use std::sync::LazyLock;

use memchr::memmem::Finder;

/// Finds `taskId` and `input_required`. A response that contains neither creates no task and asks for no input.
pub(crate) static TASK_OR_INPUT_FINDER: LazyLock<JsonWordFinder> =
    LazyLock::new(|| JsonWordFinder::new(&["taskId", "input_required"]));
/// Finds `input_required`. A response that does not contain it asks for no input.
pub(crate) static INPUT_FINDER: LazyLock<JsonWordFinder> = LazyLock::new(|| JsonWordFinder::new(&["input_required"]));

/// Searches JSON messages for words, which may be written with escapes.
pub(crate) struct JsonWordFinder {
    words: Vec<Finder<'static>>,
    /// Start of an escaped ASCII character.
    escape: Finder<'static>,
}

impl JsonWordFinder {
    fn new(words: &[&'static str]) -> Self {
        Self { words: words.iter().map(|word| Finder::new(*word)).collect(), escape: Finder::new("\\u00") }
    }

    /// Returns whether a message may contain one of the words, with or without escapes.
    pub fn can_occur_in(&self, text: &[u8]) -> bool {
        let is_letter = |at: usize| text.get(at + 4).is_some_and(|digit| (b'2'..=b'7').contains(digit));
        self.words.iter().any(|word| word.find(text).is_some()) || self.escape.find_iter(text).any(is_letter)
    }
}
