//! A text as it is written but for white space: members in their order, and each number, string and key as it is
//! spelled. Of no reader of ours.

use std::iter::Peekable;
use std::str::Chars;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tree {
    Word(String),
    List(Vec<Tree>),
    Object(Vec<(String, Tree)>),
}

impl Tree {
    pub fn read(text: &str) -> Self {
        let mut rest = text.chars().peekable();
        let tree = value(&mut rest);
        skip(&mut rest);
        assert_eq!(rest.next(), None, "something behind it: {text}");
        tree
    }

    pub fn word(text: &str) -> Self {
        Self::Word(text.to_owned())
    }

    /// The members of an object.
    pub fn members(&mut self) -> &mut Vec<(String, Self)> {
        match self {
            Self::Object(members) => members,
            other => panic!("no object: {other:?}"),
        }
    }

    pub fn get(&mut self, name: &str) -> Option<&mut Self> {
        let Self::Object(members) = self else { return None };
        members.iter_mut().find(|(own, _)| own.trim_matches('"') == name).map(|(_, value)| value)
    }

    pub fn take(&mut self, name: &str) -> Option<Self> {
        let Self::Object(members) = self else { return None };
        let at = members.iter().position(|(own, _)| own.trim_matches('"') == name)?;
        Some(members.remove(at).1)
    }

    /// Puts something in the place of a member that is there.
    pub fn put(&mut self, name: &str, text: &str) {
        *self.get(name).unwrap_or_else(|| panic!("no {name}")) = Self::word(text);
    }
}

fn skip(rest: &mut Peekable<Chars<'_>>) {
    while rest.next_if(|sign| sign.is_ascii_whitespace()).is_some() {}
}

fn value(rest: &mut Peekable<Chars<'_>>) -> Tree {
    skip(rest);
    match rest.peek() {
        Some('{') => {
            let entries = entries(rest, '}', |rest| {
                let Tree::Word(key) = value(rest) else { panic!("no key") };
                skip(rest);
                assert_eq!(rest.next(), Some(':'));
                (key, value(rest))
            });
            Tree::Object(entries)
        }
        Some('[') => Tree::List(entries(rest, ']', value)),
        Some('"') => Tree::Word(string(rest)),
        _ => {
            let mut word = String::new();
            while let Some(sign) = rest.next_if(|sign| !",]}".contains(*sign) && !sign.is_ascii_whitespace()) {
                word.push(sign);
            }
            assert!(!word.is_empty(), "no value");
            Tree::Word(word)
        }
    }
}

fn entries<T>(rest: &mut Peekable<Chars<'_>>, end: char, one: impl Fn(&mut Peekable<Chars<'_>>) -> T) -> Vec<T> {
    let (_, mut entries) = (rest.next(), Vec::new());
    loop {
        skip(rest);
        match rest.peek() {
            Some(sign) if *sign == end => break,
            Some(',') if !entries.is_empty() => drop(rest.next()),
            Some(_) => {}
            None => panic!("no end"),
        }
        entries.push(one(rest));
    }
    rest.next();
    entries
}

fn string(rest: &mut Peekable<Chars<'_>>) -> String {
    let mut text: String = rest.next().into_iter().collect();
    loop {
        let sign = rest.next().expect("the end of a string");
        text.push(sign);
        match sign {
            '"' => return text,
            '\\' => text.push(rest.next().expect("an escaped sign")),
            _ => {}
        }
    }
}
