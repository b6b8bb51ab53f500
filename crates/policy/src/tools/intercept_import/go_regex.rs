//! Translates patterns written for Go's `regexp` so that Rust's `regex` matches the same strings.
//!
//! In Go, `\d`, `\w`, `\s` and `\b` are ASCII only, and a few characters that are special in Rust are literal.

use std::iter::Peekable;
use std::str::Chars;

/// Translates a pattern.
///
/// # Errors
/// Returns the construct that has no equivalent.
pub(super) fn translate_go_regex(pattern: &str) -> Result<String, &'static str> {
    let mut writer = GoRegexTranslator { rest: pattern.chars().peekable(), out: String::new() };
    while let Some(character) = writer.rest.next() {
        match character {
            '\\' => writer.translate_escape()?,
            '[' => writer.translate_class()?,
            '{' => writer.translate_brace(),
            '(' => writer.translate_group()?,
            other => writer.out.push(other),
        }
    }
    Ok(writer.out)
}

struct GoRegexTranslator<'p> {
    rest: Peekable<Chars<'p>>,
    out: String,
}

/// Returns the members of a Perl class, in the notation used inside brackets.
fn perl_class(letter: char) -> Option<&'static str> {
    match letter {
        'd' | 'D' => Some("0-9"),
        'w' | 'W' => Some("0-9A-Za-z_"),
        's' | 'S' => Some(r"\t\n\f\r "),
        _ => None,
    }
}

impl GoRegexTranslator<'_> {
    /// Translates an escape outside brackets.
    fn translate_escape(&mut self) -> Result<(), &'static str> {
        match self.rest.peek() {
            Some('b') => self.write_word_boundary("b"),
            Some('B') => self.write_word_boundary("B"),
            Some('Q') => self.translate_literal(),
            Some(letter) if perl_class(*letter).is_some() => {
                let negation = if letter.is_ascii_uppercase() { "^" } else { "" };
                let members = perl_class(*letter).unwrap_or_default();
                self.out.push_str(&format!("[{negation}{members}]"));
                self.rest.next();
            }
            _ => return self.translate_shared_escape(),
        }
        Ok(())
    }

    fn write_word_boundary(&mut self, letter: &str) {
        self.rest.next();
        self.out.push_str(&format!(r"(?-u:\{letter})"));
    }

    /// Translates `\Q…\E`: everything in between is literal.
    fn translate_literal(&mut self) {
        self.rest.next();
        while let Some(character) = self.rest.next() {
            if character == '\\' && self.rest.next_if_eq(&'E').is_some() {
                return;
            }
            self.out.push_str(&regex::escape(character.encode_utf8(&mut [0; 4])));
        }
    }

    /// Translates an escape that is the same inside and outside brackets.
    fn translate_shared_escape(&mut self) -> Result<(), &'static str> {
        match self.rest.next() {
            Some('0'..='9') => return Err("an octal escape"),
            Some('C') => return Err(r"`\C`"),
            Some('u' | 'U') => return Err(r"`\u`, which Intercept does not support,"),
            // In Rust, the escaped forms are word boundaries.
            Some(plain @ ('<' | '>')) => self.out.push(plain),
            Some(letter @ ('p' | 'P')) => {
                self.out.extend(['\\', letter]);
                let is_long = self.rest.peek() == Some(&'{');
                for character in self.rest.by_ref() {
                    self.out.push(character);
                    if !is_long || character == '}' {
                        break;
                    }
                }
            }
            Some(other) => self.out.extend(['\\', other]),
            None => self.out.push('\\'),
        }
        Ok(())
    }

    /// Translates the start of a group. Go accepts only the flags `i`, `m`, `s` and `U`.
    fn translate_group(&mut self) -> Result<(), &'static str> {
        self.out.push('(');
        if self.rest.next_if_eq(&'?').is_none() {
            return Ok(());
        }
        self.out.push('?');
        // A group name follows, or a construct that Rust rejects as well.
        if matches!(self.rest.peek(), Some('P' | '<')) {
            return Ok(());
        }
        while let Some(flag) = self.rest.next_if(|character| !matches!(character, ':' | ')')) {
            if !matches!(flag, 'i' | 'm' | 's' | 'U' | '-') {
                return Err("a flag other than `i`, `m`, `s` and `U`, which Intercept does not support,");
            }
            self.out.push(flag);
        }
        Ok(())
    }

    /// Translates a brace, which is literal unless it starts a repetition.
    fn translate_brace(&mut self) {
        // No valid repetition is longer.
        let ahead: String = self.rest.clone().take(16).collect();
        let (inner, is_closed) = ahead.split_once('}').map_or(("", false), |(inner, _)| (inner, true));
        let (least, most) = inner.split_once(',').unwrap_or((inner, ""));
        let is_number = |text: &str| text.chars().all(|character| character.is_ascii_digit());
        let repeats = is_closed && !least.is_empty() && is_number(least) && is_number(most);
        self.out.push_str(if repeats { "{" } else { r"\{" });
    }

    fn translate_class(&mut self) -> Result<(), &'static str> {
        self.out.push('[');
        if self.rest.next_if_eq(&'^').is_some() {
            self.out.push('^');
        }
        let mut is_first = true;
        while let Some(character) = self.rest.next() {
            match character {
                ']' if !is_first => {
                    self.out.push(']');
                    return Ok(());
                }
                '[' if self.translate_named_class() => {}
                '\\' if self.translate_perl_class_in_brackets() => {}
                // At either end, a dash is literal in both syntaxes.
                '-' if self.rest.peek() == Some(&']') => self.out.push('-'),
                '-' if is_first && self.rest.peek() != Some(&'-') => self.out.push('-'),
                other => self.translate_range(other)?,
            }
            is_first = false;
        }
        Ok(())
    }

    /// Translates `[:alpha:]`. Any other bracket inside brackets is literal.
    fn translate_named_class(&mut self) -> bool {
        let text: String = self.rest.clone().take(16).collect();
        let Some((name, _)) = text.strip_prefix(':').and_then(|name| name.split_once(":]")) else { return false };
        self.out.push_str(&format!("[:{name}:]"));
        let length = name.chars().count() + 3;
        self.rest.by_ref().take(length).for_each(drop);
        true
    }

    fn translate_perl_class_in_brackets(&mut self) -> bool {
        let Some((letter, members)) = self.rest.peek().and_then(|letter| Some((*letter, perl_class(*letter)?))) else {
            return false;
        };
        self.rest.next();
        match letter.is_ascii_lowercase() {
            true => self.out.push_str(members),
            false => self.out.push_str(&format!("[^{members}]")),
        }
        true
    }

    /// Translates a class member or a range.
    fn translate_range(&mut self, first: char) -> Result<(), &'static str> {
        // A Unicode class cannot start a range.
        let is_class = first == '\\' && matches!(self.rest.peek(), Some('p' | 'P'));
        self.write_class_member(first)?;
        let mut ahead = self.rest.clone();
        let is_range = !is_class && ahead.next() == Some('-') && ahead.next().is_some_and(|last| last != ']');
        if is_range {
            self.rest.next();
            self.out.push('-');
            let last = self.rest.next().unwrap_or(']');
            self.write_class_member(last)?;
        }
        Ok(())
    }

    fn write_class_member(&mut self, character: char) -> Result<(), &'static str> {
        match character {
            '\\' => return self.translate_shared_escape(),
            // Unescaped, these could be set operations or start a nested class.
            '-' | '[' | ']' | '&' | '~' => self.out.extend(['\\', character]),
            other => self.out.push(other),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use regex::Regex;

    use super::*;

    #[test]
    fn classes_stay_ascii() {
        for (pattern, found, not_found) in [
            (r"^\d+$", "12", "١٢"),
            (r"^\w+$", "a_1", "é"),
            (r"^a\sb$", "a b", "a\u{a0}b"),
            (r"^\D$", "١", "1"),
            (r"^\W$", "é", "a"),
            (r"^\S$", "\u{a0}", " "),
            (r"^[\w.-]+$", "a.b-c", "é"),
            (r"^[\w-.]+$", "a.b-c", "/"),
            (r"^[\d\-x]+$", "1-x", "٣"),
            (r"^[^\d]$", "٣", "3"),
            (r"^[\Dx]$", "٣", "3"),
            (r"\bcat\b", "écaté cat", "cats"),
            (r"a\Bb", "ab", "a b"),
        ] {
            let regex = Regex::new(&translate_go_regex(pattern).expect("a pattern")).expect(pattern);
            assert!(regex.is_match(found), "{pattern} {found}");
            assert!(!regex.is_match(not_found), "{pattern} {not_found}");
        }
    }

    #[test]
    fn literal_characters_stay_literal() {
        for (pattern, found, not_found) in [
            (r"^\<a\>$", "<a>", "a"),
            (r"^a{,2}$", "a{,2}", "aa"),
            (r"^a{$", "a{", "a"),
            (r"^a{2}$", "aa", "a{2}"),
            (r"^a{1,}$", "aaa", ""),
            (r"^[a[]$", "[", "b"),
            (r"^[]a]$", "]", "b"),
            (r"^[a&&b]+$", "a&b", "c"),
            (r"^[+--]$", ",", "a"),
            (r"^[+\--/]$", ".", "a"),
            (r"^[-a]$", "-", "b"),
            (r"^[--a]$", ".", "b"),
            (r"^[a\pL-z]$", "-", "+"),
            (r"^[a~~b]+$", "a~b", "c"),
            (r"^[[:alpha:]-]+$", "a-b", "é"),
            (r"^\Qa.b\E+$", "a.bb", "axb"),
            (r"^\p{Greek}\pL$", "αb", "ab"),
        ] {
            let regex = Regex::new(&translate_go_regex(pattern).expect("a pattern")).expect(pattern);
            assert!(regex.is_match(found), "{pattern} {found}");
            assert!(!regex.is_match(not_found), "{pattern} {not_found}");
        }
    }

    #[test]
    fn a_common_pattern_is_unchanged() {
        for pattern in [r"^feature/", r"^[a-z0-9._%+-]+@example\.com$", r"(?i)^(main|master)$", r"^a{2,3}\.\x{41}$"] {
            assert_eq!(translate_go_regex(pattern).as_deref(), Ok(pattern));
        }
    }

    #[test]
    fn unsupported_escapes_are_errors() {
        assert!(
            translate_go_regex(r"\123").is_err()
                && translate_go_regex(r"[\0]").is_err()
                && translate_go_regex(r"\C").is_err()
        );
    }

    #[test]
    fn flags_and_escapes_unknown_to_go_are_not_imported() {
        for pattern in ["(?x)a b", "(?ix:a b)", "(?-u)a", "(?R)a$", "(?i-x)a", r"\u0041", r"[\U00000041]"] {
            assert!(translate_go_regex(pattern).is_err(), "{pattern}");
        }
        for pattern in ["(?i)a", "(?s-m:a)", "(?U)a+", "(?:a)", "(?P<n>a)", "(?<n>a)", "(a)", r"\(?x", "[(?x]"] {
            assert!(translate_go_regex(pattern).is_ok(), "{pattern}");
        }
    }

    #[test]
    fn many_quotes_and_braces_take_linear_time() {
        assert_eq!(translate_go_regex(&r"\Qa.\E".repeat(50_000)).map(|pattern| pattern.len()), Ok(3 * 50_000));
        assert_eq!(translate_go_regex(&"{".repeat(50_000)).map(|pattern| pattern.len()), Ok(2 * 50_000));
    }
}
