//! Paths into a call: a root, then segments. A dotted key is not a nested one.

use std::fmt;

use gatelodge_json::{JsonLimits, read};

/// Where a condition looks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Path {
    pub root: Root,
    pub segments: Vec<Segment>,
    text: Box<str>,
}

/// The facts outside the arguments have fixed names, so they are resolved when the policy is read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Root {
    Args,
    ToolName,
    ToolCategory,
    ToolLevel,
    ServerName,
    GrantLabel,
    GrantLabels(Box<str>),
    ClientName,
    ClientVersion,
    TimeHour,
    TimeWeekday,
    TimeDate,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Segment {
    /// `.name` or `["any key"]`.
    Name(Box<str>),
    /// `[0]`.
    Index(usize),
    /// `[*]`: every element.
    Every,
}

/// Why a text is no path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BadPath {
    pub message: String,
    pub help: &'static str,
}

const ROOTS: &str = "paths begin with `args`, `tool`, `server`, `grant`, `client` or `time`";

impl Path {
    pub fn new(text: &str) -> Result<Self, BadPath> {
        let root_end = text.find(['.', '[']).unwrap_or(text.len());
        let (root, rest) = text.split_at(root_end);
        let mut segments = segments(rest)?;
        let root = match root {
            "args" => Root::Args,
            "tool" | "server" | "grant" | "client" | "time" => {
                let root = fact(root, &segments)?;
                segments.clear();
                root
            }
            other => return Err(BadPath { message: format!("`{other}` is no root of a path"), help: ROOTS }),
        };
        Ok(Self { root, segments, text: text.into() })
    }

    pub fn has_every(&self) -> bool {
        self.segments.contains(&Segment::Every)
    }

    /// Whether it looks into the tool's facts, which resources and prompts do not have.
    pub fn is_of_tool(&self) -> bool {
        matches!(self.root, Root::ToolName | Root::ToolCategory | Root::ToolLevel)
    }

    /// Whether it looks at what the client says of itself.
    pub fn is_of_client(&self) -> bool {
        matches!(self.root, Root::ClientName | Root::ClientVersion)
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Finds the fact of a root other than `args`.
fn fact(root: &str, segments: &[Segment]) -> Result<Root, BadPath> {
    let names: Vec<&str> = segments
        .iter()
        .map(|segment| match segment {
            Segment::Name(name) => &**name,
            Segment::Index(_) | Segment::Every => "[",
        })
        .collect();
    let (known, help) = match (root, names.as_slice()) {
        ("tool", ["name"]) => return Ok(Root::ToolName),
        ("tool", ["category"]) => return Ok(Root::ToolCategory),
        ("tool", ["level"]) => return Ok(Root::ToolLevel),
        ("server", ["name"]) => return Ok(Root::ServerName),
        ("grant", ["label"]) => return Ok(Root::GrantLabel),
        ("grant", ["labels", key]) if *key != "[" || is_name(segments) => return Ok(Root::GrantLabels((*key).into())),
        ("client", ["name"]) => return Ok(Root::ClientName),
        ("client", ["version"]) => return Ok(Root::ClientVersion),
        ("time", ["hour"]) => return Ok(Root::TimeHour),
        ("time", ["weekday"]) => return Ok(Root::TimeWeekday),
        ("time", ["date"]) => return Ok(Root::TimeDate),
        ("tool", _) => ("tool", "`tool` has `name`, `category` and `level`"),
        ("server", _) => ("server", "`server` has `name`"),
        ("grant", _) => ("grant", "`grant` has `label` and `labels.<key>`"),
        ("client", _) => ("client", "`client` has `name` and `version`"),
        _ => ("time", "`time` has `hour`, `weekday` and `date`"),
    };
    Err(BadPath { message: format!("`{known}` has no such field"), help })
}

/// Whether the last segment is a key that happens to be a bracket.
fn is_name(segments: &[Segment]) -> bool {
    matches!(segments.last(), Some(Segment::Name(_)))
}

fn segments(mut rest: &str) -> Result<Vec<Segment>, BadPath> {
    let mut segments = Vec::new();
    while !rest.is_empty() {
        let (segment, behind) =
            if let Some(name) = rest.strip_prefix('.') { name_segment(name)? } else { bracket(rest)? };
        segments.push(segment);
        rest = behind;
    }
    // Nothing is added any more, and small policies stay in the cache.
    segments.shrink_to_fit();
    Ok(segments)
}

fn name_segment(text: &str) -> Result<(Segment, &str), BadPath> {
    let end = text.find(['.', '[', ']', '"']).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    if name.is_empty() {
        return Err(BadPath {
            message: "a name is missing behind a dot".into(),
            help: r#"write an empty key as `[""]`"#,
        });
    }
    Ok((Segment::Name(name.into()), rest))
}

fn bracket(text: &str) -> Result<(Segment, &str), BadPath> {
    let bad = |message: &str| BadPath {
        message: message.into(),
        help: r#"segments are `.name`, `["any key"]`, `[0]` and `[*]`"#,
    };
    let inner = text.strip_prefix('[').ok_or_else(|| bad("a segment begins with a dot or a bracket"))?;
    if let Some(rest) = inner.strip_prefix("*]") {
        return Ok((Segment::Every, rest));
    }
    if inner.starts_with('"') {
        let end = string_end(inner).ok_or_else(|| bad("a key in brackets is not closed"))?;
        let (key, rest) = inner.split_at(end);
        let document =
            read(key.as_bytes(), &JsonLimits::REQUEST).map_err(|_| bad("a key in brackets is not a JSON string"))?;
        let key = document.root().as_str().unwrap_or_default().into_owned();
        let rest = rest.strip_prefix(']').ok_or_else(|| bad("a bracket is not closed"))?;
        return Ok((Segment::Name(key.into()), rest));
    }
    let (index, rest) = inner.split_once(']').ok_or_else(|| bad("a bracket is not closed"))?;
    let is_number = !index.is_empty() && index.bytes().all(|byte| byte.is_ascii_digit());
    let is_plain = index == "0" || (!index.starts_with('0') && is_number);
    if is_plain && index.parse::<usize>().is_err() {
        let message = "the index is larger than any list".into();
        return Err(BadPath { message, help: "write a smaller one, or `[*]` for every element" });
    }
    let index = index
        .parse()
        .ok()
        .filter(|_| is_plain)
        .ok_or_else(|| bad("an index is a whole number without leading zeros"))?;
    Ok((Segment::Index(index), rest))
}

/// The offset behind the closing quote of the string that the text begins with.
fn string_end(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            b'"' if !is_escaped => return Some(at + 1),
            b'\\' => is_escaped = !is_escaped,
            _ => is_escaped = false,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_read_as_written() {
        let path = Path::new(r#"args.to[0]["a.b"][*].0"#).expect("a path");
        let name = |name: &str| Segment::Name(name.into());
        assert_eq!(path.segments, [name("to"), Segment::Index(0), name("a.b"), Segment::Every, name("0")]);
        assert_eq!(Path::new(r#"args["x\"]\\y\u0041"]"#).expect("a path").segments, [name("x\"]\\yA")]);
        assert!(Path::new("args").expect("a path").segments.is_empty());
        assert_eq!(Path::new(r#"grant.labels["a.b"]"#).expect("a path").root, Root::GrantLabels("a.b".into()));
        assert_eq!(Path::new(r#"grant.labels["["]"#).expect("a path").root, Root::GrantLabels("[".into()));
    }

    #[test]
    fn what_is_no_path_is_refused() {
        for text in [
            "",
            "arg.x",
            "Args",
            "args.",
            "args..x",
            "args.x.",
            "args[",
            "args[]",
            "args[01]",
            "args[-1]",
            "args[+1]",
            "args[1",
            "args[x]",
            "args[\"x]",
            "args['x']",
            "args]x",
            "args.x\"y",
            "args[99999999999999999999999]",
            "args[\"\\ud800\"]",
            "tool",
            "tool.nam",
            "tool.name.x",
            "grant.labels",
            "grant.labels.a.b",
            "grant.labels[0]",
            "grant.labels[*]",
            "time.minute",
            "server",
            "session",
            "args[*",
            "args[ 0]",
            "time.hour[*]",
        ] {
            assert!(Path::new(text).is_err(), "{text}");
        }
    }
}
