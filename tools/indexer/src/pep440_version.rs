//! Versions of Python packages and how they are ordered (PEP 440).

use std::cmp::Ordering;

/// A parsed version, without the parts that do not affect the order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pep440Version {
    epoch: u64,
    release: Vec<u64>,
    /// The kind of pre-release (`a`, `b` or `rc`) and its number.
    pre_release: Option<(u8, u64)>,
    post: Option<u64>,
    dev: Option<u64>,
}

impl Pep440Version {
    /// Parses a version. Returns `None` if it is not valid.
    pub fn of(text: &str) -> Option<Self> {
        let text = text.trim().to_ascii_lowercase();
        let text = text.strip_prefix('v').unwrap_or(&text);
        let text = text.split('+').next()?;
        let (epoch, mut rest) = match text.split_once('!') {
            Some((epoch, rest)) => (epoch.parse().ok()?, rest),
            None => (0, text),
        };
        let mut release = vec![take_number(&mut rest)?];
        while let Some(mut next) = rest.strip_prefix('.') {
            let Some(part) = take_number(&mut next) else { break };
            release.push(part);
            rest = next;
        }
        while release.len() > 1 && release.last() == Some(&0) {
            release.pop();
        }
        let words = [("alpha", 0), ("beta", 1), ("preview", 2), ("pre", 2), ("rc", 2), ("a", 0), ("b", 1), ("c", 2)];
        let before = words.iter().find_map(|(word, rank)| Some((*rank, take_labeled_number(&mut rest, word)?)));
        let post = take_labeled_number(&mut rest, "post")
            .or_else(|| take_labeled_number(&mut rest, "rev"))
            .or_else(|| take_labeled_number(&mut rest, "r"));
        let post = post.or_else(|| {
            let mut after = rest.strip_prefix('-')?;
            let post = take_number(&mut after)?;
            rest = after;
            Some(post)
        });
        let dev = take_labeled_number(&mut rest, "dev");
        rest.is_empty().then_some(Self { epoch, release, pre_release: before, post, dev })
    }

    /// Returns whether the version is a pre-release or a development release.
    pub fn is_pre_release(&self) -> bool {
        self.pre_release.is_some() || self.dev.is_some()
    }

    fn sort_key(&self) -> Pep440SortKey<'_> {
        let before = match (self.pre_release, self.post, self.dev) {
            (Some((word, number)), ..) => (1, word, number),
            (None, None, Some(_)) => (0, 0, 0),
            _ => (2, 0, 0),
        };
        (self.epoch, &self.release, before, self.post, (self.dev.is_none(), self.dev.unwrap_or_default()))
    }
}

/// Sort key: epoch, release, pre-release, post-release, development release.
type Pep440SortKey<'v> = (u64, &'v [u64], (u8, u8, u64), Option<u64>, (bool, u64));

impl Ord for Pep440Version {
    fn cmp(&self, other: &Self) -> Ordering {
        self.sort_key().cmp(&other.sort_key())
    }
}

impl PartialOrd for Pep440Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

fn take_number(rest: &mut &str) -> Option<u64> {
    let end = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
    let value = rest.get(..end)?.parse().ok()?;
    *rest = rest.get(end..)?;
    Some(value)
}

/// Consumes a label with its number, with or without separators: `rc1`, `.post2`, `-dev`.
fn take_labeled_number(rest: &mut &str, word: &str) -> Option<u64> {
    let parted = rest.strip_prefix(['.', '-', '_']).unwrap_or(rest);
    let after = parted.strip_prefix(word)?;
    let mut digits = after.strip_prefix(['.', '-', '_']).unwrap_or(after);
    match take_number(&mut digits) {
        Some(value) => {
            *rest = digits;
            Some(value)
        }
        None if after.starts_with(|letter: char| letter.is_ascii_alphabetic()) => None,
        None => {
            *rest = after;
            Some(0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_as_pep_440_says() {
        let order = [
            "0.9",
            "1.0.dev1",
            "1.0a1.dev2",
            "1.0a1",
            "1.0b2",
            "1.0rc1",
            "1.0",
            "1.0.post1.dev1",
            "1.0.post1",
            "1.0.1",
            "1.10",
            "2",
            "1!0.1",
        ];
        let read: Vec<Pep440Version> = order.iter().map(|text| Pep440Version::of(text).expect(text)).collect();
        for pair in read.windows(2) {
            assert!(pair[0] < pair[1], "{pair:?}");
        }
        assert_eq!(Pep440Version::of("1.0"), Pep440Version::of("v1.0.0"));
        assert_eq!(Pep440Version::of("1.0-1"), Pep440Version::of("1.0.post1"));
        assert_eq!(Pep440Version::of("1.0_alpha.1"), Pep440Version::of("1.0a1"));
        assert_eq!(Pep440Version::of("nightly"), None);
        assert_eq!(Pep440Version::of("1.0banana"), None);
        assert!(Pep440Version::of("1.0rc1").expect("read").is_pre_release());
        assert!(!Pep440Version::of("1.0.post1").expect("read").is_pre_release());
    }
}
