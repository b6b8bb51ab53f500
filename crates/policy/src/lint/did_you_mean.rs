//! Finds the known name that a misspelled name was probably meant to be.

/// Suggests names for misspelled ones, within a budget of comparisons.
pub(super) struct NameSuggester {
    /// Remaining number of character comparisons.
    remaining_comparisons: usize,
}

impl Default for NameSuggester {
    fn default() -> Self {
        // About one second; enough for hundreds of misspelled names among ten thousand.
        Self { remaining_comparisons: 30_000_000 }
    }
}

/// Names longer than this are not treated as misspellings.
const MAX_NAME_BYTES: usize = 64;

impl NameSuggester {
    /// Returns the name with the smallest edit distance from `word`, if that distance is small.
    pub fn find_nearest<'n>(&mut self, word: &str, names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
        if word.len() > MAX_NAME_BYTES {
            return None;
        }
        let mut best: Option<(usize, &str)> = None;
        for name in names {
            let most = 1 + name.len().min(word.len()) / 3;
            let most = best.map_or(most, |(distance, _)| most.min(distance.saturating_sub(1)));
            if name.len().abs_diff(word.len()) > most {
                continue;
            }
            self.remaining_comparisons = self.remaining_comparisons.checked_sub((name.len() + 1) * (word.len() + 1))?;
            let distance = strsim::osa_distance(word, name);
            if distance <= most {
                best = Some((distance, name));
            }
        }
        best.map(|(_, name)| name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_suggested_and_a_distant_one_is_not() {
        let nearest =
            |word: &str| NameSuggester::default().find_nearest(word, ["amount", "mount", "currency"].into_iter());
        assert_eq!(nearest("amont"), Some("amount"));
        assert_eq!(nearest("moutn"), Some("mount"));
        assert_eq!(nearest("id"), None);
    }

    #[test]
    fn the_number_of_comparisons_is_limited() {
        let mut suggester = NameSuggester { remaining_comparisons: 100 };
        assert_eq!(suggester.find_nearest("amont", ["amount"].into_iter()), Some("amount"));
        assert_eq!(suggester.find_nearest("amont", ["x", "amounts", "amount"].into_iter()), None);
    }
}
