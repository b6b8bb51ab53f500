//! What an input schema says of a path into the arguments.
//!
//! Only what can be read off is taken: references within the schema, alternatives, lists of types. All else is "unknown".

use gatelodge_json::{JsonKind, JsonValue};

use super::shape::{Bound, Kinds, Shape, Values};
use crate::call_path::PathSegment;
use crate::scalar::{DecimalText, ScalarSet};

/// References and alternatives are followed no deeper.
const MOST_LEVELS: usize = 16;
/// One path is followed over no more parts of a schema than this.
const MOST_PARTS: usize = 2_000;
/// What a member of an `enum` costs, in the same measure.
const MEMBER_PARTS: usize = 8;
/// No more names than this are compared with a misspelled one.
const MOST_NAMES: usize = 200;
/// Keywords that may allow more properties than `properties` names.
const OPENING: [&str; 8] =
    ["patternProperties", "if", "then", "else", "dependentSchemas", "dependencies", "$dynamicRef", "$recursiveRef"];

/// What a schema says of a path.
pub(super) enum Found<'d> {
    /// Nothing, or more than can be read off.
    Unknown,
    /// The object that segment `at` looks into lists its properties, and this one is not there.
    Missing {
        at: usize,
        names: Vec<String>,
    },
    /// Segment `at` looks into something that is never a list, or never an object.
    Astray {
        at: usize,
        kinds: Kinds,
    },
    Value(Shape<'d>),
}

/// What one schema says of a property.
enum Opinion<'d> {
    /// It is declared, by each of these.
    Declared(Vec<JsonValue<'d>>),
    /// Any name is allowed.
    Open,
    /// Others are declared.
    Missing,
    /// Properties are not spoken of.
    Silent,
}

impl Opinion<'_> {
    /// Both schemas hold: whichever knows more.
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Declared(mut parts), Self::Declared(more)) => {
                parts.extend(more);
                Self::Declared(parts)
            }
            (Self::Declared(parts), _) | (_, Self::Declared(parts)) => Self::Declared(parts),
            (Self::Open, _) | (_, Self::Open) => Self::Open,
            (Self::Missing, _) | (_, Self::Missing) => Self::Missing,
            (Self::Silent, Self::Silent) => Self::Silent,
        }
    }

    /// One of the schemas holds: whichever allows more.
    fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::Declared(_), Self::Open | Self::Silent) | (Self::Open | Self::Silent, Self::Declared(_)) => {
                Self::Open
            }
            (Self::Silent, Self::Missing) | (Self::Missing, Self::Silent) => Self::Silent,
            (one, other) => one.and(other),
        }
    }
}

/// Reads one schema, within bounds.
pub(super) struct Declared<'d> {
    root: JsonValue<'d>,
    /// How many parts may still be looked at for this path.
    parts_left: usize,
    /// How many parts were looked at for all paths.
    pub parts: usize,
}

impl<'d> Declared<'d> {
    pub fn new(root: JsonValue<'d>) -> Self {
        Self { root, parts_left: 0, parts: 0 }
    }

    pub fn find(&mut self, segments: &[PathSegment]) -> Found<'d> {
        self.parts_left = MOST_PARTS;
        let found = self.follow(segments);
        // What was not looked at could have said more.
        if self.parts_left == 0 { Found::Unknown } else { found }
    }

    fn follow(&mut self, segments: &[PathSegment]) -> Found<'d> {
        // A place in the arguments, as the schemas that may describe it: each value satisfies one of them at least.
        let mut place = vec![self.root];
        for (at, segment) in segments.iter().enumerate() {
            // Arguments are an object, whatever the schema says.
            let kinds = if at == 0 { Kinds::OBJECT } else { self.shape_of_any(&place).kinds };
            let wanted = match segment {
                PathSegment::Name(_) => Kinds::OBJECT,
                PathSegment::Index(_) | PathSegment::Wildcard => Kinds::LIST,
            };
            if !kinds.is_empty() && !kinds.has(wanted) {
                return Found::Astray { at, kinds };
            }
            let next = match segment {
                PathSegment::Name(name) => {
                    let opinions = place.iter().map(|schema| self.property(*schema, name, MOST_LEVELS));
                    match opinions.reduce(Opinion::or) {
                        Some(Opinion::Declared(parts)) => Some(parts),
                        Some(Opinion::Missing) => return Found::Missing { at, names: self.names(&place) },
                        Some(Opinion::Open | Opinion::Silent) | None => None,
                    }
                }
                PathSegment::Index(index) => self.elements_of_any(&place, Some(*index)),
                PathSegment::Wildcard => self.elements_of_any(&place, None),
            };
            match next {
                Some(next) => place = next,
                None => return Found::Unknown,
            }
        }
        Found::Value(self.shape_of_any(&place))
    }

    /// Counts a part; false if there were too many.
    fn take(&mut self) -> bool {
        self.parts += 1;
        self.parts_left = self.parts_left.saturating_sub(1);
        self.parts_left > 0
    }

    fn get(&mut self, schema: JsonValue<'d>, name: &str) -> Option<JsonValue<'d>> {
        for (key, value) in schema.members() {
            if !self.take() {
                return None;
            }
            if key.is_str(name) {
                return Some(value);
            }
        }
        None
    }

    /// The schema that stands for this one: itself, or what it refers to. None if that cannot be told.
    fn resolve(&mut self, mut schema: JsonValue<'d>) -> Option<JsonValue<'d>> {
        for _ in 0..MOST_LEVELS {
            if schema.kind() != JsonKind::Object || self.parts_left == 0 {
                return None;
            }
            let Some(reference) = self.get(schema, "$ref") else { return Some(schema) };
            schema = self.target(reference)?;
        }
        None
    }

    /// Follows a reference within the schema.
    fn target(&mut self, reference: JsonValue<'d>) -> Option<JsonValue<'d>> {
        let reference = reference.as_str()?;
        let mut target = self.root;
        let mut steps = reference.strip_prefix('#')?.split('/');
        // Anchors are too rare to be looked for.
        if steps.next() != Some("") {
            return None;
        }
        for step in steps {
            let name = step.replace("%24", "$").replace("%20", " ").replace("~1", "/").replace("~0", "~");
            target = match target.kind() {
                JsonKind::Array => target.elements().nth(name.parse().ok()?)?,
                _ => self.get(target, &name)?,
            };
        }
        Some(target)
    }

    /// The parts of `anyOf` and `oneOf`, each list by itself.
    fn alternatives(&mut self, schema: JsonValue<'d>) -> impl Iterator<Item = JsonValue<'d>> + use<'d> {
        let lists = ["anyOf", "oneOf"].map(|name| self.get(schema, name));
        lists.into_iter().flatten().filter(|list| list.elements().next().is_some())
    }

    fn all_of(&mut self, schema: JsonValue<'d>) -> impl Iterator<Item = JsonValue<'d>> + use<'d> {
        self.get(schema, "allOf").into_iter().flat_map(|list| list.elements())
    }

    fn property(&mut self, schema: JsonValue<'d>, name: &str, levels: usize) -> Opinion<'d> {
        if levels == 0 || !self.take() || schema.kind() != JsonKind::Object {
            return Opinion::Open;
        }
        let mut opinion = self.own_property(schema, name);
        // What stands beside a reference counts too.
        if let Some(reference) = self.get(schema, "$ref") {
            let Some(target) = self.target(reference) else { return Opinion::Open };
            opinion = opinion.and(self.property(target, name, levels - 1));
        }
        for part in self.all_of(schema) {
            opinion = opinion.and(self.property(part, name, levels - 1));
        }
        for list in self.alternatives(schema) {
            let any = list.elements().map(|part| self.property(part, name, levels - 1)).reduce(Opinion::or);
            opinion = opinion.and(any.unwrap_or(Opinion::Open));
        }
        opinion
    }

    fn own_property(&mut self, schema: JsonValue<'d>, name: &str) -> Opinion<'d> {
        let properties = self.get(schema, "properties");
        if let Some(declared) = properties.and_then(|properties| self.get(properties, name)) {
            return Opinion::Declared(vec![declared]);
        }
        let others = ["additionalProperties", "unevaluatedProperties"].map(|name| self.get(schema, name));
        let is_open = others.iter().flatten().any(|schema| schema.as_bool() != Some(false));
        if is_open || self.parts_left == 0 || OPENING.iter().any(|keyword| self.get(schema, keyword).is_some()) {
            return Opinion::Open;
        }
        // Deeper down, an object without properties is often one that nobody described.
        let is_root = schema.span() == self.root.span();
        let lists = properties.is_some_and(|properties| is_root || properties.members().next().is_some());
        let is_closed = others.iter().flatten().next().is_some();
        if lists || is_closed { Opinion::Missing } else { Opinion::Silent }
    }

    /// The schemas of the elements of a list; none if they are not known.
    fn elements_of_any(&mut self, place: &[JsonValue<'d>], index: Option<usize>) -> Option<Vec<JsonValue<'d>>> {
        let mut all = Vec::new();
        for schema in place {
            if self.shape(*schema, MOST_LEVELS).kinds.has(Kinds::LIST) {
                all.extend(self.elements(*schema, index, MOST_LEVELS)?);
            }
        }
        (!all.is_empty()).then_some(all)
    }

    fn elements(&mut self, schema: JsonValue<'d>, index: Option<usize>, levels: usize) -> Option<Vec<JsonValue<'d>>> {
        if levels == 0 || !self.take() {
            return None;
        }
        let schema = self.resolve(schema)?;
        if let Some(tuple) = self.get(schema, "prefixItems") {
            return tuple.elements().nth(index?).map(|element| vec![element]);
        }
        if let Some(items) = self.get(schema, "items") {
            return match items.kind() {
                JsonKind::Array => items.elements().nth(index?).map(|element| vec![element]),
                _ => Some(vec![items]),
            };
        }
        for part in self.all_of(schema) {
            if let Some(known) = self.elements(part, index, levels - 1) {
                return Some(known);
            }
        }
        let list = self.alternatives(schema).next()?;
        let mut all = Vec::new();
        for part in list.elements() {
            if self.shape(part, levels - 1).kinds.has(Kinds::LIST) {
                all.extend(self.elements(part, index, levels - 1)?);
            }
        }
        Some(all)
    }

    fn shape_of_any(&mut self, place: &[JsonValue<'d>]) -> Shape<'d> {
        let shapes = place.iter().map(|schema| self.shape(*schema, MOST_LEVELS));
        shapes.reduce(Shape::or).unwrap_or(Shape::ANY)
    }

    fn shape(&mut self, schema: JsonValue<'d>, levels: usize) -> Shape<'d> {
        if levels == 0 || !self.take() {
            return Shape::ANY;
        }
        let Some(schema) = self.resolve(schema) else { return Shape::ANY };
        let mut shape = self.own_shape(schema);
        for part in self.all_of(schema) {
            shape = shape.and(self.shape(part, levels - 1));
        }
        for list in self.alternatives(schema) {
            let any = list.elements().map(|part| self.shape(part, levels - 1)).reduce(Shape::or);
            shape = shape.and(any.unwrap_or(Shape::ANY));
        }
        shape
    }

    fn own_shape(&mut self, schema: JsonValue<'d>) -> Shape<'d> {
        let mut shape = Shape::ANY;
        for (key, value) in schema.members() {
            if !self.take() {
                return Shape::ANY;
            }
            let Some(key) = key.as_str() else { continue };
            match key.as_ref() {
                "type" => shape.kinds = shape.kinds.and(types(value)),
                "const" => shape = shape.and(listed(std::iter::once(value))),
                "enum" if value.kind() == JsonKind::Array => {
                    self.parts += MEMBER_PARTS * value.elements().count();
                    shape = shape.and(listed(value.elements()));
                }
                "minimum" => shape = shape.and(Shape { minimum: bound(value, false), ..Shape::ANY }),
                "maximum" => shape = shape.and(Shape { maximum: bound(value, false), ..Shape::ANY }),
                "exclusiveMinimum" => shape = shape.and(Shape { minimum: bound(value, true), ..Shape::ANY }),
                "exclusiveMaximum" => shape = shape.and(Shape { maximum: bound(value, true), ..Shape::ANY }),
                _ => {}
            }
        }
        shape
    }

    /// The names of the properties that are declared at a place, for offering one.
    fn names(&mut self, place: &[JsonValue<'d>]) -> Vec<String> {
        let mut names = Vec::new();
        for schema in place {
            let Some(schema) = self.resolve(*schema) else { continue };
            let parts: Vec<JsonValue<'d>> = self.all_of(schema).collect();
            for part in std::iter::once(schema).chain(parts) {
                let properties = self.resolve(part).and_then(|part| self.get(part, "properties"));
                let keys = properties.into_iter().flat_map(|properties| properties.members());
                names.extend(keys.take(MOST_NAMES).filter_map(|(key, _)| key.as_str()).map(|key| key.into_owned()));
            }
        }
        names
    }
}

/// The kinds that `type` allows; all, if it is not understood.
fn types(value: JsonValue<'_>) -> Kinds {
    let one = |word: JsonValue<'_>| match word.as_str().as_deref() {
        Some("boolean") => Kinds::BOOL,
        Some("number" | "integer") => Kinds::NUMBER,
        Some("string") => Kinds::STRING,
        Some("array") => Kinds::LIST,
        Some("object") => Kinds::OBJECT,
        Some("null") => Kinds::NONE,
        _ => Kinds::ALL,
    };
    match value.kind() {
        JsonKind::Array => value.elements().map(one).fold(Kinds::NONE, Kinds::or),
        _ => one(value),
    }
}

/// The values of `enum` or `const`. With a list or an object among them, only their kinds are kept.
fn listed<'d>(values: impl Iterator<Item = JsonValue<'d>>) -> Shape<'d> {
    let mut kinds = Kinds::NONE;
    let mut scalars = ScalarSet::default();
    for value in values {
        kinds = kinds.or(Kinds::of(value.kind()));
        match value.kind() {
            JsonKind::String => scalars.add_text(&value.as_str().unwrap_or_default()),
            JsonKind::Bool => scalars.add_bool(value.as_bool() == Some(true)),
            JsonKind::Number => DecimalText::new(value.raw()).into_iter().for_each(|number| scalars.add_number(number)),
            JsonKind::Null | JsonKind::Array | JsonKind::Object => {}
        }
    }
    let is_scalar = !kinds.has(Kinds::LIST.or(Kinds::OBJECT));
    let values = if is_scalar { Values::Listed(scalars.sorted()) } else { Values::Any };
    Shape { kinds, values, ..Shape::ANY }
}

/// A bound; none if it is no number. In old drafts the exclusive ones are booleans beside the plain.
fn bound(value: JsonValue<'_>, is_open: bool) -> Option<Bound<'_>> {
    value.as_number().map(|number| Bound { number, text: value.raw(), is_open })
}
