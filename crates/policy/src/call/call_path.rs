//! Paths into a call: a root followed by segments. `["a.b"]` is one key with a dot in it, not two nested keys.

use std::fmt;

use gatelodge_json::{JsonLimits, read};

/// Path to the value that a condition compares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CallPath {
    pub root: CallPathRoot,
    pub segments: Vec<CallPathSegment>,
    text: Box<str>,
}

/// Root of a path. Each root other than `args` has a fixed set of fields, so paths below it are resolved when the
/// policy is parsed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum CallPathRoot {
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
pub(crate) enum CallPathSegment {
    /// A key, written as `.name` or `["any key"]`.
    Name(Box<str>),
    /// An index into a list, such as `[0]`.
    Index(usize),
    /// Every element of a list, written as `[*]`.
    Wildcard,
}

/// Error returned when a string is not a valid path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CallPathError {
    pub message: String,
    pub help: &'static str,
}

const PATH_ROOTS_HELP: &str = "paths begin with `args`, `tool`, `server`, `grant`, `client` or `time`";

impl CallPath {
    pub fn new(text: &str) -> Result<Self, CallPathError> {
        let root_end = text.find(['.', '[']).unwrap_or(text.len());
        let (root, rest) = text.split_at(root_end);
        let mut segments = parse_segments(rest)?;
        let root = match root {
            "args" => CallPathRoot::Args,
            "tool" | "server" | "grant" | "client" | "time" => {
                let root = parse_fact_root(root, &segments)?;
                segments.clear();
                root
            }
            other => {
                return Err(CallPathError {
                    message: format!("`{other}` is not a root of a path"),
                    help: PATH_ROOTS_HELP,
                });
            }
        };
        Ok(Self { root, segments, text: text.into() })
    }

    pub fn has_wildcard(&self) -> bool {
        self.segments.contains(&CallPathSegment::Wildcard)
    }

    /// Returns whether the path refers to a fact about a tool. Resources and prompts have none.
    pub fn is_tool_fact(&self) -> bool {
        matches!(self.root, CallPathRoot::ToolName | CallPathRoot::ToolCategory | CallPathRoot::ToolLevel)
    }

    /// Returns whether the path refers to something that the client reports about itself.
    pub fn is_client_claim(&self) -> bool {
        matches!(self.root, CallPathRoot::ClientName | CallPathRoot::ClientVersion)
    }
}

impl fmt::Display for CallPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Resolves a path whose root is not `args`.
fn parse_fact_root(root: &str, segments: &[CallPathSegment]) -> Result<CallPathRoot, CallPathError> {
    let names: Vec<&str> = segments
        .iter()
        .map(|segment| match segment {
            CallPathSegment::Name(name) => &**name,
            CallPathSegment::Index(_) | CallPathSegment::Wildcard => "[",
        })
        .collect();
    let (known, help) = match (root, names.as_slice()) {
        ("tool", ["name"]) => return Ok(CallPathRoot::ToolName),
        ("tool", ["category"]) => return Ok(CallPathRoot::ToolCategory),
        ("tool", ["level"]) => return Ok(CallPathRoot::ToolLevel),
        ("server", ["name"]) => return Ok(CallPathRoot::ServerName),
        ("grant", ["label"]) => return Ok(CallPathRoot::GrantLabel),
        ("grant", ["labels", key]) if *key != "[" || ends_in_name(segments) => {
            return Ok(CallPathRoot::GrantLabels((*key).into()));
        }
        ("client", ["name"]) => return Ok(CallPathRoot::ClientName),
        ("client", ["version"]) => return Ok(CallPathRoot::ClientVersion),
        ("time", ["hour"]) => return Ok(CallPathRoot::TimeHour),
        ("time", ["weekday"]) => return Ok(CallPathRoot::TimeWeekday),
        ("time", ["date"]) => return Ok(CallPathRoot::TimeDate),
        ("tool", _) => ("tool", "`tool` has `name`, `category` and `level`"),
        ("server", _) => ("server", "`server` has `name`"),
        ("grant", _) => ("grant", "`grant` has `label` and `labels.<key>`"),
        ("client", _) => ("client", "`client` has `name` and `version`"),
        _ => ("time", "`time` has `hour`, `weekday` and `date`"),
    };
    Err(CallPathError { message: format!("`{known}` has no such field"), help })
}

/// Returns whether the last segment is a name. The caller represents indexes and wildcards as `[`, so it needs this to
/// recognize a key that is literally `[`.
fn ends_in_name(segments: &[CallPathSegment]) -> bool {
    matches!(segments.last(), Some(CallPathSegment::Name(_)))
}

fn parse_segments(mut rest: &str) -> Result<Vec<CallPathSegment>, CallPathError> {
    let mut segments = Vec::new();
    while !rest.is_empty() {
        let (segment, after) = if let Some(name) = rest.strip_prefix('.') {
            parse_name_segment(name)?
        } else {
            parse_bracket_segment(rest)?
        };
        segments.push(segment);
        rest = after;
    }
    // Frees spare capacity: the list is final, and small policies then fit the CPU cache.
    segments.shrink_to_fit();
    Ok(segments)
}

fn parse_name_segment(text: &str) -> Result<(CallPathSegment, &str), CallPathError> {
    let end = text.find(['.', '[', ']', '"']).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    if name.is_empty() {
        return Err(CallPathError {
            message: "a name is missing after a dot".into(),
            help: r#"write an empty key as `[""]`"#,
        });
    }
    Ok((CallPathSegment::Name(name.into()), rest))
}

fn parse_bracket_segment(text: &str) -> Result<(CallPathSegment, &str), CallPathError> {
    let bad = |message: &str| CallPathError {
        message: message.into(),
        help: r#"segments are `.name`, `["any key"]`, `[0]` and `[*]`"#,
    };
    let inner = text.strip_prefix('[').ok_or_else(|| bad("a segment begins with a dot or a bracket"))?;
    if let Some(rest) = inner.strip_prefix("*]") {
        return Ok((CallPathSegment::Wildcard, rest));
    }
    if inner.starts_with('"') {
        let end = string_end(inner).ok_or_else(|| bad("a key in brackets is not closed"))?;
        let (key, rest) = inner.split_at(end);
        let document =
            read(key.as_bytes(), &JsonLimits::REQUEST).map_err(|_| bad("a key in brackets is not a JSON string"))?;
        let key = document.root().as_str().unwrap_or_default().into_owned();
        let rest = rest.strip_prefix(']').ok_or_else(|| bad("a bracket is not closed"))?;
        return Ok((CallPathSegment::Name(key.into()), rest));
    }
    let (index, rest) = inner.split_once(']').ok_or_else(|| bad("a bracket is not closed"))?;
    let is_number = !index.is_empty() && index.bytes().all(|byte| byte.is_ascii_digit());
    let is_plain = index == "0" || (!index.starts_with('0') && is_number);
    if is_plain && index.parse::<usize>().is_err() {
        let message = "the index is larger than any list".into();
        return Err(CallPathError { message, help: "write a smaller one, or `[*]` for every element" });
    }
    let index = index
        .parse()
        .ok()
        .filter(|_| is_plain)
        .ok_or_else(|| bad("an index is a whole number without leading zeros"))?;
    Ok((CallPathSegment::Index(index), rest))
}

/// Returns the offset just after the closing quote of the string at the start of `text`.
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
    fn an_unknown_field_is_refused_with_the_fields_that_exist() {
        for (root, field) in [
            ("tool", "category"),
            ("server", "name"),
            ("grant", "labels.<key>"),
            ("client", "version"),
            ("time", "weekday"),
        ] {
            let error = CallPath::new(&format!("{root}.other")).expect_err("unknown");
            assert_eq!(error.message, format!("`{root}` has no such field"));
            assert!(
                error.help.contains(&format!("`{root}` has")) && error.help.contains(&format!("`{field}`")),
                "{}",
                error.help
            );
        }
    }

    #[test]
    fn path_segments_are_parsed() {
        let path = CallPath::new(r#"args.to[0]["a.b"][*].0"#).expect("a path");
        let name = |name: &str| CallPathSegment::Name(name.into());
        assert_eq!(
            path.segments,
            [name("to"), CallPathSegment::Index(0), name("a.b"), CallPathSegment::Wildcard, name("0")]
        );
        assert_eq!(CallPath::new(r#"args["x\"]\\y\u0041"]"#).expect("a path").segments, [name("x\"]\\yA")]);
        assert!(CallPath::new("args").expect("a path").segments.is_empty());
        assert_eq!(
            CallPath::new(r#"grant.labels["a.b"]"#).expect("a path").root,
            CallPathRoot::GrantLabels("a.b".into())
        );
        assert_eq!(CallPath::new(r#"grant.labels["["]"#).expect("a path").root, CallPathRoot::GrantLabels("[".into()));
    }

    #[test]
    fn an_invalid_path_is_refused() {
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
            assert!(CallPath::new(text).is_err(), "{text}");
        }
    }
}
