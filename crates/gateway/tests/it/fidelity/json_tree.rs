//! JSON as written except for white space: order of members and spelling of numbers, strings and keys are kept. A separate
//! parser, so that the tests do not depend on the project's own JSON code.

use std::iter::Peekable;
use std::str::Chars;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JsonTree {
    Scalar(String),
    Array(Vec<JsonTree>),
    Object(Vec<(String, JsonTree)>),
}

impl JsonTree {
    pub fn read(text: &str) -> Self {
        let mut rest = text.chars().peekable();
        let tree = value(&mut rest);
        skip_white_space(&mut rest);
        assert_eq!(rest.next(), None, "trailing characters: {text}");
        tree
    }

    pub fn scalar(text: &str) -> Self {
        Self::Scalar(text.to_owned())
    }

    /// Returns the members of an object.
    pub fn members(&mut self) -> &mut Vec<(String, Self)> {
        match self {
            Self::Object(members) => members,
            other => panic!("not an object: {other:?}"),
        }
    }

    pub fn get(&mut self, name: &str) -> Option<&mut Self> {
        let Self::Object(members) = self else { return None };
        members.iter_mut().find(|(key, _)| key.trim_matches('"') == name).map(|(_, value)| value)
    }

    pub fn take(&mut self, name: &str) -> Option<Self> {
        let Self::Object(members) = self else { return None };
        let index = members.iter().position(|(key, _)| key.trim_matches('"') == name)?;
        Some(members.remove(index).1)
    }

    /// Replaces the value of an existing member.
    pub fn replace(&mut self, name: &str, text: &str) {
        *self.get(name).unwrap_or_else(|| panic!("no {name}")) = Self::scalar(text);
    }
}

fn skip_white_space(rest: &mut Peekable<Chars<'_>>) {
    while rest.next_if(|character| character.is_ascii_whitespace()).is_some() {}
}

fn value(rest: &mut Peekable<Chars<'_>>) -> JsonTree {
    skip_white_space(rest);
    match rest.peek() {
        Some('{') => {
            let entries = entries(rest, '}', |rest| {
                let JsonTree::Scalar(key) = value(rest) else { panic!("no key") };
                skip_white_space(rest);
                assert_eq!(rest.next(), Some(':'));
                (key, value(rest))
            });
            JsonTree::Object(entries)
        }
        Some('[') => JsonTree::Array(entries(rest, ']', value)),
        Some('"') => JsonTree::Scalar(string(rest)),
        _ => {
            let mut scalar = String::new();
            while let Some(character) =
                rest.next_if(|character| !",]}".contains(*character) && !character.is_ascii_whitespace())
            {
                scalar.push(character);
            }
            assert!(!scalar.is_empty(), "no value");
            JsonTree::Scalar(scalar)
        }
    }
}

fn entries<T>(rest: &mut Peekable<Chars<'_>>, end: char, read_one: impl Fn(&mut Peekable<Chars<'_>>) -> T) -> Vec<T> {
    let (_, mut entries) = (rest.next(), Vec::new());
    loop {
        skip_white_space(rest);
        match rest.peek() {
            Some(character) if *character == end => break,
            Some(',') if !entries.is_empty() => drop(rest.next()),
            Some(_) => {}
            None => panic!("no end"),
        }
        entries.push(read_one(rest));
    }
    rest.next();
    entries
}

fn string(rest: &mut Peekable<Chars<'_>>) -> String {
    let mut text: String = rest.next().into_iter().collect();
    loop {
        let character = rest.next().expect("the end of a string");
        text.push(character);
        match character {
            '"' => return text,
            '\\' => text.push(rest.next().expect("an escaped character")),
            _ => {}
        }
    }
}
