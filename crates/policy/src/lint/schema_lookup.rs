//! Finds out what an input schema says about a path into the arguments.
//!
//! Supports references within the schema, alternatives and lists of types. The result for everything else is "unknown".

use gatelodge_json::{JsonKind, JsonValue};

use super::value_shape::{NumericBound, PossibleValues, ValueShape};
use crate::call::call_path::CallPathSegment;
use crate::operators::json_kind_set::JsonKindSet;
use crate::operators::scalar_set::{DecimalText, ScalarSet};

/// Maximum depth of references and alternatives.
const MAX_SCHEMA_LEVELS: usize = 16;
/// Maximum number of schema parts visited for one path.
const MAX_PARTS_PER_PATH: usize = 2_000;
/// Cost of examining one `enum` member, in visited schema parts.
const ENUM_MEMBER_COST: usize = 8;
/// Maximum number of names compared with a misspelled one.
const MAX_PROPERTY_NAMES: usize = 200;
/// Keywords that may allow more properties than `properties` lists.
const OPEN_ENDED_KEYWORDS: [&str; 8] =
    ["patternProperties", "if", "then", "else", "dependentSchemas", "dependencies", "$dynamicRef", "$recursiveRef"];

/// Result of looking up a path in a schema.
pub(super) enum SchemaLookupResult<'d> {
    /// The schema says nothing about the path, or uses features that this module does not understand.
    Unknown,
    /// The object at segment `at` of the path declares properties, but not the one that the path names.
    Missing {
        at: usize,
        names: Vec<String>,
    },
    /// The path continues into a list or an object at segment `at`, but the schema does not allow one there.
    WrongContainer {
        at: usize,
        kinds: JsonKindSet,
    },
    Value(ValueShape<'d>),
}

/// What one schema says about a property.
enum SchemaPropertyDeclaration<'d> {
    /// These schemas declare the property.
    Declared(Vec<JsonValue<'d>>),
    /// Properties with any name are allowed.
    Open,
    /// Other properties are declared, but not this one.
    Missing,
    /// The schema does not mention properties.
    Unspecified,
}

impl SchemaPropertyDeclaration<'_> {
    /// Combines the declarations of two schemas that both apply: the more specific one wins.
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Declared(mut parts), Self::Declared(more)) => {
                parts.extend(more);
                Self::Declared(parts)
            }
            (Self::Declared(parts), _) | (_, Self::Declared(parts)) => Self::Declared(parts),
            (Self::Open, _) | (_, Self::Open) => Self::Open,
            (Self::Missing, _) | (_, Self::Missing) => Self::Missing,
            (Self::Unspecified, Self::Unspecified) => Self::Unspecified,
        }
    }

    /// Combines the declarations of two alternative schemas: the more permissive one wins.
    fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::Declared(_), Self::Open | Self::Unspecified)
            | (Self::Open | Self::Unspecified, Self::Declared(_)) => Self::Open,
            (Self::Unspecified, Self::Missing) | (Self::Missing, Self::Unspecified) => Self::Unspecified,
            (one, other) => one.and(other),
        }
    }
}

/// Looks up paths in one schema, within a budget.
pub(super) struct SchemaLookup<'d> {
    root: JsonValue<'d>,
    /// Number of schema parts that may still be visited for the current path.
    remaining_parts: usize,
    /// Number of schema parts visited so far, for all paths.
    pub visited_parts: usize,
}

impl<'d> SchemaLookup<'d> {
    pub fn new(root: JsonValue<'d>) -> Self {
        Self { root, remaining_parts: 0, visited_parts: 0 }
    }

    pub fn lookup(&mut self, segments: &[CallPathSegment]) -> SchemaLookupResult<'d> {
        self.remaining_parts = MAX_PARTS_PER_PATH;
        let found = self.follow_path(segments);
        // The parts that were not visited could have changed the result.
        if self.remaining_parts == 0 { SchemaLookupResult::Unknown } else { found }
    }

    fn follow_path(&mut self, segments: &[CallPathSegment]) -> SchemaLookupResult<'d> {
        // The schemas that may describe the current location: each value satisfies at least one of them.
        let mut place = vec![self.root];
        for (at, segment) in segments.iter().enumerate() {
            // Arguments are always an object, whatever the schema says.
            let kinds = if at == 0 { JsonKindSet::OBJECT } else { self.shape_of_any(&place).kinds };
            let wanted = match segment {
                CallPathSegment::Name(_) => JsonKindSet::OBJECT,
                CallPathSegment::Index(_) | CallPathSegment::Wildcard => JsonKindSet::LIST,
            };
            if !kinds.is_empty() && !kinds.has(wanted) {
                return SchemaLookupResult::WrongContainer { at, kinds };
            }
            let next = match segment {
                CallPathSegment::Name(name) => {
                    let declarations =
                        place.iter().map(|schema| self.property_declaration(*schema, name, MAX_SCHEMA_LEVELS));
                    match declarations.reduce(SchemaPropertyDeclaration::or) {
                        Some(SchemaPropertyDeclaration::Declared(parts)) => Some(parts),
                        Some(SchemaPropertyDeclaration::Missing) => {
                            return SchemaLookupResult::Missing { at, names: self.property_names(&place) };
                        }
                        Some(SchemaPropertyDeclaration::Open | SchemaPropertyDeclaration::Unspecified) | None => None,
                    }
                }
                CallPathSegment::Index(index) => self.elements_of_any(&place, Some(*index)),
                CallPathSegment::Wildcard => self.elements_of_any(&place, None),
            };
            match next {
                Some(next) => place = next,
                None => return SchemaLookupResult::Unknown,
            }
        }
        SchemaLookupResult::Value(self.shape_of_any(&place))
    }

    /// Counts a visited schema part. Returns `false` once the budget is used up.
    fn count_part(&mut self) -> bool {
        self.visited_parts += 1;
        self.remaining_parts = self.remaining_parts.saturating_sub(1);
        self.remaining_parts > 0
    }

    fn find_member(&mut self, schema: JsonValue<'d>, name: &str) -> Option<JsonValue<'d>> {
        for (key, value) in schema.members() {
            if !self.count_part() {
                return None;
            }
            if key.is_str(name) {
                return Some(value);
            }
        }
        None
    }

    /// Returns the schema, or the target of its `$ref`. `None` if the reference cannot be resolved.
    fn resolve(&mut self, mut schema: JsonValue<'d>) -> Option<JsonValue<'d>> {
        for _ in 0..MAX_SCHEMA_LEVELS {
            if schema.kind() != JsonKind::Object || self.remaining_parts == 0 {
                return None;
            }
            let Some(reference) = self.find_member(schema, "$ref") else { return Some(schema) };
            schema = self.resolve_reference(reference)?;
        }
        None
    }

    /// Resolves a reference within the schema.
    fn resolve_reference(&mut self, reference: JsonValue<'d>) -> Option<JsonValue<'d>> {
        let reference = reference.as_str()?;
        let mut target = self.root;
        let mut steps = reference.strip_prefix('#')?.split('/');
        // Anchors are too rare to support.
        if steps.next() != Some("") {
            return None;
        }
        for step in steps {
            let name = step.replace("%24", "$").replace("%20", " ").replace("~1", "/").replace("~0", "~");
            target = match target.kind() {
                JsonKind::Array => target.elements().nth(name.parse().ok()?)?,
                _ => self.find_member(target, &name)?,
            };
        }
        Some(target)
    }

    /// Returns the lists `anyOf` and `oneOf`, unless they are missing or empty.
    fn alternatives(&mut self, schema: JsonValue<'d>) -> impl Iterator<Item = JsonValue<'d>> + use<'d> {
        let lists = ["anyOf", "oneOf"].map(|name| self.find_member(schema, name));
        lists.into_iter().flatten().filter(|list| list.elements().next().is_some())
    }

    fn all_of(&mut self, schema: JsonValue<'d>) -> impl Iterator<Item = JsonValue<'d>> + use<'d> {
        self.find_member(schema, "allOf").into_iter().flat_map(|list| list.elements())
    }

    fn property_declaration(
        &mut self,
        schema: JsonValue<'d>,
        name: &str,
        levels: usize,
    ) -> SchemaPropertyDeclaration<'d> {
        if levels == 0 || !self.count_part() || schema.kind() != JsonKind::Object {
            return SchemaPropertyDeclaration::Open;
        }
        let mut declaration = self.own_property_declaration(schema, name);
        // Keywords next to a `$ref` apply, too.
        if let Some(reference) = self.find_member(schema, "$ref") {
            let Some(target) = self.resolve_reference(reference) else { return SchemaPropertyDeclaration::Open };
            declaration = declaration.and(self.property_declaration(target, name, levels - 1));
        }
        for part in self.all_of(schema) {
            declaration = declaration.and(self.property_declaration(part, name, levels - 1));
        }
        for list in self.alternatives(schema) {
            let any = list
                .elements()
                .map(|part| self.property_declaration(part, name, levels - 1))
                .reduce(SchemaPropertyDeclaration::or);
            declaration = declaration.and(any.unwrap_or(SchemaPropertyDeclaration::Open));
        }
        declaration
    }

    fn own_property_declaration(&mut self, schema: JsonValue<'d>, name: &str) -> SchemaPropertyDeclaration<'d> {
        let properties = self.find_member(schema, "properties");
        if let Some(declared) = properties.and_then(|properties| self.find_member(properties, name)) {
            return SchemaPropertyDeclaration::Declared(vec![declared]);
        }
        let others = ["additionalProperties", "unevaluatedProperties"].map(|name| self.find_member(schema, name));
        let is_open = others.iter().flatten().any(|schema| schema.as_bool() != Some(false));
        if is_open
            || self.remaining_parts == 0
            || OPEN_ENDED_KEYWORDS.iter().any(|keyword| self.find_member(schema, keyword).is_some())
        {
            return SchemaPropertyDeclaration::Open;
        }
        // Below the root, an object without properties is often just undocumented.
        let is_root = schema.span() == self.root.span();
        let lists = properties.is_some_and(|properties| is_root || properties.members().next().is_some());
        let is_closed = others.iter().flatten().next().is_some();
        if lists || is_closed { SchemaPropertyDeclaration::Missing } else { SchemaPropertyDeclaration::Unspecified }
    }

    /// Returns the schemas of a list's elements. `None` if they are unknown.
    fn elements_of_any(&mut self, place: &[JsonValue<'d>], index: Option<usize>) -> Option<Vec<JsonValue<'d>>> {
        let mut all = Vec::new();
        for schema in place {
            if self.shape(*schema, MAX_SCHEMA_LEVELS).kinds.has(JsonKindSet::LIST) {
                all.extend(self.elements(*schema, index, MAX_SCHEMA_LEVELS)?);
            }
        }
        (!all.is_empty()).then_some(all)
    }

    fn elements(&mut self, schema: JsonValue<'d>, index: Option<usize>, levels: usize) -> Option<Vec<JsonValue<'d>>> {
        if levels == 0 || !self.count_part() {
            return None;
        }
        let schema = self.resolve(schema)?;
        if let Some(tuple) = self.find_member(schema, "prefixItems") {
            return tuple.elements().nth(index?).map(|element| vec![element]);
        }
        if let Some(items) = self.find_member(schema, "items") {
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
            if self.shape(part, levels - 1).kinds.has(JsonKindSet::LIST) {
                all.extend(self.elements(part, index, levels - 1)?);
            }
        }
        Some(all)
    }

    fn shape_of_any(&mut self, place: &[JsonValue<'d>]) -> ValueShape<'d> {
        let shapes = place.iter().map(|schema| self.shape(*schema, MAX_SCHEMA_LEVELS));
        shapes.reduce(ValueShape::or).unwrap_or(ValueShape::ANY)
    }

    fn shape(&mut self, schema: JsonValue<'d>, levels: usize) -> ValueShape<'d> {
        if levels == 0 || !self.count_part() {
            return ValueShape::ANY;
        }
        let Some(schema) = self.resolve(schema) else { return ValueShape::ANY };
        let mut shape = self.own_shape(schema);
        for part in self.all_of(schema) {
            shape = shape.and(self.shape(part, levels - 1));
        }
        for list in self.alternatives(schema) {
            let any = list.elements().map(|part| self.shape(part, levels - 1)).reduce(ValueShape::or);
            shape = shape.and(any.unwrap_or(ValueShape::ANY));
        }
        shape
    }

    fn own_shape(&mut self, schema: JsonValue<'d>) -> ValueShape<'d> {
        let mut shape = ValueShape::ANY;
        for (key, value) in schema.members() {
            if !self.count_part() {
                return ValueShape::ANY;
            }
            let Some(key) = key.as_str() else { continue };
            match key.as_ref() {
                "type" => shape.kinds = shape.kinds.and(kinds_of_type(value)),
                "const" => shape = shape.and(enum_shape(std::iter::once(value))),
                "enum" if value.kind() == JsonKind::Array => {
                    self.visited_parts += ENUM_MEMBER_COST * value.elements().count();
                    shape = shape.and(enum_shape(value.elements()));
                }
                "minimum" => shape = shape.and(ValueShape { minimum: numeric_bound(value, false), ..ValueShape::ANY }),
                "maximum" => shape = shape.and(ValueShape { maximum: numeric_bound(value, false), ..ValueShape::ANY }),
                "exclusiveMinimum" => {
                    shape = shape.and(ValueShape { minimum: numeric_bound(value, true), ..ValueShape::ANY })
                }
                "exclusiveMaximum" => {
                    shape = shape.and(ValueShape { maximum: numeric_bound(value, true), ..ValueShape::ANY })
                }
                _ => {}
            }
        }
        shape
    }

    /// Returns the declared property names at a location, for suggestions.
    fn property_names(&mut self, place: &[JsonValue<'d>]) -> Vec<String> {
        let mut names = Vec::new();
        for schema in place {
            let Some(schema) = self.resolve(*schema) else { continue };
            let parts: Vec<JsonValue<'d>> = self.all_of(schema).collect();
            for part in std::iter::once(schema).chain(parts) {
                let properties = self.resolve(part).and_then(|part| self.find_member(part, "properties"));
                let keys = properties.into_iter().flat_map(|properties| properties.members());
                names.extend(
                    keys.take(MAX_PROPERTY_NAMES).filter_map(|(key, _)| key.as_str()).map(|key| key.into_owned()),
                );
            }
        }
        names
    }
}

/// Returns the kinds that a `type` keyword allows, or all kinds if its value is not understood.
fn kinds_of_type(value: JsonValue<'_>) -> JsonKindSet {
    let one = |word: JsonValue<'_>| match word.as_str().as_deref() {
        Some("boolean") => JsonKindSet::BOOL,
        Some("number" | "integer") => JsonKindSet::NUMBER,
        Some("string") => JsonKindSet::STRING,
        Some("array") => JsonKindSet::LIST,
        Some("object") => JsonKindSet::OBJECT,
        Some("null") => JsonKindSet::NONE,
        _ => JsonKindSet::ALL,
    };
    match value.kind() {
        JsonKind::Array => value.elements().map(one).fold(JsonKindSet::NONE, JsonKindSet::or),
        _ => one(value),
    }
}

/// Returns the shape of the values in `enum` or `const`. If any of them is a list or an object, the shape includes only
/// their types, not the values.
fn enum_shape<'d>(values: impl Iterator<Item = JsonValue<'d>>) -> ValueShape<'d> {
    let mut kinds = JsonKindSet::NONE;
    let mut scalars = ScalarSet::default();
    for value in values {
        kinds = kinds.or(JsonKindSet::of(value.kind()));
        match value.kind() {
            JsonKind::String => scalars.add_text(&value.as_str().unwrap_or_default()),
            JsonKind::Bool => scalars.add_bool(value.as_bool() == Some(true)),
            JsonKind::Number => DecimalText::new(value.raw()).into_iter().for_each(|number| scalars.add_number(number)),
            JsonKind::Null | JsonKind::Array | JsonKind::Object => {}
        }
    }
    let is_scalar = !kinds.has(JsonKindSet::LIST.or(JsonKindSet::OBJECT));
    let values = if is_scalar { PossibleValues::OneOf(scalars.sorted()) } else { PossibleValues::Any };
    ValueShape { kinds, values, ..ValueShape::ANY }
}

/// Reads a numeric bound. `None` if it is not a number: in old drafts of JSON Schema, `exclusiveMinimum` and
/// `exclusiveMaximum` are booleans.
fn numeric_bound(value: JsonValue<'_>, is_open: bool) -> Option<NumericBound<'_>> {
    value.as_number().map(|number| NumericBound { number, text: value.raw(), is_exclusive: is_open })
}
