//! Reads YAML configurations. They are never edited, because no known library edits YAML in place while keeping
//! comments and layout.

use std::collections::HashMap;

use saphyr_parser::{Event, Parser, ScalarStyle, StrInput};
use serde_json::{Map, Value};

/// Maximum nesting depth. Real configurations stay far below it.
const MAX_YAML_NESTING_LEVELS: usize = 64;

/// Reads YAML as a JSON value.
///
/// # Errors
/// Returns the syntax error with its line, but without any text from the file.
pub fn read(text: &str) -> Result<Value, String> {
    let mut reader = ClientYamlReader { parser: Parser::new_from_str(text) };
    loop {
        match reader.next_event()? {
            Event::StreamStart | Event::DocumentStart(_) | Event::Nothing => {}
            Event::StreamEnd | Event::DocumentEnd => return Err("it is empty".into()),
            event => return reader.read_value(event, 0),
        }
    }
}

/// Returns the line number of each entry, by name, in the table or list at the key path `root`.
pub fn entry_lines(text: &str, root: &[String]) -> HashMap<String, usize> {
    let mut reader = ClientYamlReader { parser: Parser::new_from_str(text) };
    let mut found = HashMap::new();
    loop {
        match reader.next_event() {
            Ok(Event::StreamStart | Event::DocumentStart(_) | Event::Nothing) => {}
            Ok(event @ Event::MappingStart(..)) => {
                // After a syntax error the remaining lines are unknown.
                let _ = reader.collect_lines(event, root, &mut found);
                return found;
            }
            _ => return found,
        }
    }
}

struct ClientYamlReader<'a> {
    parser: Parser<'a, StrInput<'a>>,
}

impl<'a> ClientYamlReader<'a> {
    fn next_event(&mut self) -> Result<Event<'a>, String> {
        match self.parser.next_event() {
            Some(Ok((event, _))) => Ok(event),
            Some(Err(error)) => Err(format!("line {}: {}", error.marker().line(), error.info())),
            None => Err("it ends unexpectedly".into()),
        }
    }

    /// Collects the line numbers of the entries in the table or list at `path`. The path is relative to the value that
    /// begins with the event `start`.
    fn collect_lines(&mut self, start: Event<'a>, path: &[String], found: &mut HashMap<String, usize>) -> Option<()> {
        match (start, path.split_first()) {
            (Event::MappingStart(..), next) => loop {
                let (event, span) = self.parser.next_event()?.ok()?;
                let Event::Scalar(name, ..) = event else { return None };
                let value = self.next_event().ok()?;
                match next {
                    Some((first, rest)) if name == first.as_str() => return self.collect_lines(value, rest, found),
                    Some(_) => {}
                    None => drop(found.entry(name.into_owned()).or_insert(span.start.line())),
                }
                self.read_value(value, 0).ok()?;
            },
            (Event::SequenceStart(..), None) => loop {
                let (event, span) = self.parser.next_event()?.ok()?;
                let item = self.read_value(event, 0).ok()?;
                if let Some(name) = item.get("name").and_then(Value::as_str) {
                    found.entry(name.to_owned()).or_insert(span.start.line());
                }
            },
            _ => None,
        }
    }

    fn read_value(&mut self, event: Event<'a>, depth: usize) -> Result<Value, String> {
        if depth > MAX_YAML_NESTING_LEVELS {
            return Err("it is nested too deeply".into());
        }
        match event {
            Event::Scalar(text, ScalarStyle::Plain, _, _) => Ok(plain_scalar(&text)),
            Event::Scalar(text, _, _, _) => Ok(Value::String(text.into_owned())),
            Event::SequenceStart(..) => self.read_list(depth),
            Event::MappingStart(..) => self.read_map(depth),
            Event::Alias(_) => Err("it has an alias, which is not supported".into()),
            _ => Err("a value is missing".into()),
        }
    }

    fn read_list(&mut self, depth: usize) -> Result<Value, String> {
        let mut items = Vec::new();
        loop {
            match self.next_event()? {
                Event::SequenceEnd => return Ok(Value::Array(items)),
                event => items.push(self.read_value(event, depth + 1)?),
            }
        }
    }

    fn read_map(&mut self, depth: usize) -> Result<Value, String> {
        let mut fields = Map::new();
        loop {
            let name = match self.next_event()? {
                Event::MappingEnd => return Ok(Value::Object(fields)),
                Event::Scalar(name, _, _, _) => name.into_owned(),
                _ => return Err("a key is not a string".into()),
            };
            let event = self.next_event()?;
            fields.insert(name, self.read_value(event, depth + 1)?);
        }
    }
}

/// Interprets a plain scalar according to the core schema.
fn plain_scalar(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        // Numbers are only shown or passed on, so their text is enough.
        _ => Value::String(text.to_owned()),
    }
}
