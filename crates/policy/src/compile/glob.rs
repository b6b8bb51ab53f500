//! Globs: `*` matches any text including `/`; everything else matches byte for byte.

/// A pattern with at least one `*`.
#[derive(Debug, Clone)]
pub(crate) struct Glob {
    /// Literal text at the start.
    prefix: Box<str>,
    /// Literal parts between the start and the end, in order.
    middle: Vec<Box<str>>,
    /// Literal text at the end.
    suffix: Box<str>,
}

impl Glob {
    /// Parses a glob. `None` if it contains no `*`.
    pub fn new(text: &str) -> Option<Self> {
        let (prefix, rest) = text.split_once('*')?;
        let (middle, suffix) = rest.rsplit_once('*').unwrap_or(("", rest));
        let middle = middle.split('*').filter(|part| !part.is_empty()).map(Into::into).collect();
        Some(Self { prefix: prefix.into(), middle, suffix: suffix.into() })
    }

    pub fn matches(&self, name: &str) -> bool {
        let Some(rest) = name.strip_prefix(&*self.prefix) else { return false };
        let Some(mut rest) = rest.strip_suffix(&*self.suffix) else { return false };
        for part in &self.middle {
            // The earliest match leaves the most text for the remaining parts.
            let Some((_, after)) = rest.split_once(&**part) else { return false };
            rest = after;
        }
        true
    }

    /// Number of literal code points. A higher count makes a glob more specific.
    pub fn literal_count(&self) -> usize {
        let parts = self.middle.iter().chain([&self.prefix, &self.suffix]);
        parts.map(|part| part.chars().count()).sum()
    }

    /// Returns whether some name matches both globs. Since `*` matches any text, only the literal text at the start and
    /// at the end of the globs can rule this out.
    pub fn can_overlap(&self, other: &Self) -> bool {
        let (a, b) = (&*self.prefix, &*other.prefix);
        let (c, d) = (&*self.suffix, &*other.suffix);
        (a.starts_with(b) || b.starts_with(a)) && (c.ends_with(d) || d.ends_with(c))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(glob: &str, name: &str) -> bool {
        Glob::new(glob).is_some_and(|glob| glob.matches(name))
    }

    #[test]
    fn a_star_matches_any_text() {
        for (glob, name) in
            [("*", ""), ("*", "a/b"), ("a*", "a"), ("a*c", "abc"), ("a**c", "ac"), ("*b*", "abc"), ("a*b*c", "a_b_b_c")]
        {
            assert!(matches(glob, name), "{glob} {name}");
        }
        for (glob, name) in [("a*", "A"), ("a*a", "a"), ("ab*ba", "aba"), ("*b*", "ac"), ("a*b*b*c", "abc"), ("a*", "")]
        {
            assert!(!matches(glob, name), "{glob} {name}");
        }
    }

    #[test]
    fn globs_overlap_if_their_ends_agree() {
        let meet = |a: &str, b: &str| Glob::new(a).zip(Glob::new(b)).is_some_and(|(a, b)| a.can_overlap(&b));
        assert!(meet("a*", "*b") && meet("ab*", "a*") && meet("*xx*", "*yy*") && meet("a*c", "ab*bc"));
        assert!(!meet("a*", "b*") && !meet("*a", "*b") && !meet("a*x", "a*y"));
    }

    #[test]
    fn literals_are_counted_in_code_points() {
        assert_eq!(Glob::new("é*😀*b").map(|glob| glob.literal_count()), Some(3));
    }
}
