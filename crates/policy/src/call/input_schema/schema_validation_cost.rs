//! Limits the cost of validation: a schema can apply a huge number of subschemas to the same value.
//!
//! For each nesting level of the arguments, counts how often each subschema could be applied to a single value.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// Maximum number of subschema applications to one value.
const MAX_APPLICATIONS: u64 = 10_000;
/// Maximum number of subschemas visited before a schema counts as unbounded.
const MAX_STEPS: usize = 500_000;
/// Maximum number of `unevaluated…` keywords, each of which can double the cost of the schemas around it.
const MAX_UNEVALUATED_KEYWORDS: usize = 4;
/// Nesting depth to examine. Arguments are never nested more deeply.
const MAX_LEVELS: usize = 64;

/// The subschemas that apply to a value, and how often each of them does. The keys are their addresses in memory.
type SubschemaVisitCounts<'s> = BTreeMap<*const Value, (&'s Value, u64)>;

pub(super) fn is_bounded(schema: &Value) -> bool {
    if has_nested_id(schema, true) || count_unevaluated(schema) > MAX_UNEVALUATED_KEYWORDS {
        return false;
    }
    let mut walk = SubschemaVisitCounter { root: schema, steps: 0 };
    let start = SubschemaVisitCounts::from([(std::ptr::from_ref(schema), (schema, 1))]);
    let Some(start) = walk.expand_in_place(start) else { return false };
    // One entry for each distinct location in an instance: the subschemas that apply there.
    let mut level = vec![start];
    let mut seen = BTreeSet::new();
    for _ in 0..MAX_LEVELS {
        let mut deeper = Vec::new();
        for counts in &level {
            let Some(children) = walk.children(counts) else { return false };
            deeper.extend(children.into_iter().filter(|child| seen.insert(counts_signature(child))));
        }
        level = deeper;
    }
    true
}

/// Returns a key by which counts that have been seen before can be recognized.
fn counts_signature(counts: &SubschemaVisitCounts<'_>) -> Vec<(*const Value, u64)> {
    counts.iter().map(|(address, (_, count))| (*address, *count)).collect()
}

struct SubschemaVisitCounter<'s> {
    root: &'s Value,
    steps: usize,
}

impl<'s> SubschemaVisitCounter<'s> {
    /// Adds all subschemas that `parts` apply to the same value, directly or through other subschemas. `None` if there
    /// are too many, or if they refer to each other in a cycle.
    fn expand_in_place(&mut self, parts: SubschemaVisitCounts<'s>) -> Option<SubschemaVisitCounts<'s>> {
        let mut all = SubschemaVisitCounts::new();
        let mut fresh = parts;
        let mut total = 0_u64;
        while !fresh.is_empty() {
            let mut next = SubschemaVisitCounts::new();
            for (address, (part, count)) in fresh {
                self.steps += 1;
                total =
                    total.checked_add(count).filter(|total| *total <= MAX_APPLICATIONS && self.steps <= MAX_STEPS)?;
                add_count(&mut all, address, part, count);
                for inner in in_place_subschemas(self.root, part)? {
                    add_count(&mut next, std::ptr::from_ref(inner), inner, count);
                }
            }
            fresh = next;
        }
        Some(all)
    }

    /// Returns the subschemas that apply one level down, separately for list elements, for each member that a schema
    /// names, and for all other members.
    fn children(&mut self, counts: &SubschemaVisitCounts<'s>) -> Option<Vec<SubschemaVisitCounts<'s>>> {
        let below = child_applications(counts);
        let mut children = vec![self.expand_in_place(below.elements)?, self.expand_in_place(below.members.clone())?];
        for parts in below.by_name.into_values() {
            let mut together = below.members.clone();
            parts.into_iter().for_each(|(address, (part, count))| add_count(&mut together, address, part, count));
            children.push(self.expand_in_place(together)?);
        }
        Some(children)
    }
}

fn add_count<'s>(counts: &mut SubschemaVisitCounts<'s>, address: *const Value, part: &'s Value, count: u64) {
    let entry = counts.entry(address).or_insert((part, 0));
    entry.1 = entry.1.saturating_add(count);
}

/// Returns the subschemas that a schema applies to the same value. `None` for a reference that cannot be resolved.
fn in_place_subschemas<'s>(root: &'s Value, part: &'s Value) -> Option<Vec<&'s Value>> {
    let mut inner = Vec::new();
    let Value::Object(members) = part else { return Some(inner) };
    for (key, value) in members {
        match key.as_str() {
            "$ref" => inner.push(resolve_reference(root, value.as_str()?)?),
            // Their target depends on the dynamic scope, which is not tracked here.
            "$dynamicRef" | "$recursiveRef" => return None,
            "allOf" | "anyOf" | "oneOf" => inner.extend(value.as_array().into_iter().flatten()),
            "not" | "if" | "then" | "else" => inner.push(value),
            "dependentSchemas" | "dependencies" => {
                inner.extend(value.as_object().into_iter().flat_map(|map| map.values()))
            }
            _ => {}
        }
    }
    Some(inner)
}

/// Resolves `#` and `#/a/pointer`. Other references are ambiguous or point outside the document.
fn resolve_reference<'s>(root: &'s Value, reference: &str) -> Option<&'s Value> {
    let fragment = reference.strip_prefix('#')?;
    if fragment.contains('%') || !(fragment.is_empty() || fragment.starts_with('/')) {
        return None;
    }
    root.pointer(fragment)
}

/// Returns whether a subschema has an `$id` of its own, which changes the meaning of references below it.
fn has_nested_id(part: &Value, is_root: bool) -> bool {
    match part {
        Value::Object(members) => {
            let is_id = |key: &String| !is_root && (key == "$id" || key == "id");
            members.iter().any(|(key, inner)| (is_id(key) && inner.is_string()) || has_nested_id(inner, false))
        }
        Value::Array(items) => items.iter().any(|inner| has_nested_id(inner, false)),
        _ => false,
    }
}

/// Counts `unevaluated…` keywords. Each makes the validator evaluate the neighboring subschemas again.
fn count_unevaluated(part: &Value) -> usize {
    let of = |inner: &Value| count_unevaluated(inner);
    match part {
        Value::Object(members) => {
            let own = members.keys().filter(|key| key.starts_with("unevaluated")).count();
            own + members.values().map(of).sum::<usize>()
        }
        Value::Array(items) => items.iter().map(of).sum(),
        _ => 0,
    }
}

/// Subschemas that apply to values one level down.
#[derive(Default)]
struct ChildSubschemaVisits<'s> {
    elements: SubschemaVisitCounts<'s>,
    /// Subschemas for every member of an object.
    members: SubschemaVisitCounts<'s>,
    /// Subschemas for members with certain names, keyed by name.
    by_name: BTreeMap<&'s str, SubschemaVisitCounts<'s>>,
}

fn child_applications<'s>(counts: &SubschemaVisitCounts<'s>) -> ChildSubschemaVisits<'s> {
    let mut below = ChildSubschemaVisits::default();
    for (part, count) in counts.values() {
        let Value::Object(fields) = *part else { continue };
        let put = |counts: &mut SubschemaVisitCounts<'s>, inner: &'s Value| {
            add_count(counts, std::ptr::from_ref(inner), inner, *count)
        };
        for (key, value) in fields {
            match (key.as_str(), value) {
                ("properties", Value::Object(inner)) => {
                    inner.iter().for_each(|(name, inner)| put(below.by_name.entry(name).or_default(), inner));
                }
                ("patternProperties", Value::Object(inner)) => {
                    inner.values().for_each(|inner| put(&mut below.members, inner));
                }
                ("prefixItems" | "items", Value::Array(inner)) => {
                    inner.iter().for_each(|inner| put(&mut below.elements, inner));
                }
                ("items" | "additionalItems" | "unevaluatedItems" | "contains", inner) => {
                    put(&mut below.elements, inner)
                }
                ("additionalProperties" | "unevaluatedProperties" | "propertyNames", inner) => {
                    put(&mut below.members, inner);
                }
                _ => {}
            }
        }
    }
    below
}
