//! The tools of a server as last listed, compared with the pinned definitions.

mod tool_list_cache;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use arc_swap::ArcSwapOption;
use bytes::Bytes;
use foldhash::HashMap;
use gatelodge_json::{JsonLimits, JsonValue, read};
use gatelodge_mcp::http_headers::{HeaderAnnotationError, ParamHeaderMapping};
use gatelodge_mcp::{RequestId, ServerResponseOffsets};
use gatelodge_mutants::mutant;
use gatelodge_policy::{Category, DefinitionStatus, InputSchema};
use gatelodge_store::{ServerTools, ToolDefinition};
use tokio::sync::Mutex;

use self::tool_list_cache::ToolListCache;
use super::ServerToolCategories;
use super::definition_fingerprint::fingerprint;

pub(crate) use self::tool_list_cache::{CachedToolList, ToolListCacheKey};

/// Longest tool name that the specification recommends.
const MAX_TOOL_NAME_CHARS: usize = 128;

/// The last tool listing of a server, shared by all grants.
#[derive(Debug, Default)]
pub(crate) struct ToolRegistry {
    /// `None` before the first listing, and after a change has been announced.
    current: ArcSwapOption<ToolListing>,
    /// Number of invalidations. A listing that was requested before the latest invalidation is stale.
    change_count: AtomicU64,
    /// Held while the tools are listed, so that concurrent calls list them only once.
    pub refresh_lock: Mutex<()>,
}

impl ToolRegistry {
    pub fn current(&self) -> Option<Arc<ToolListing>> {
        self.current.load_full()
    }

    pub fn change_count(&self) -> u64 {
        self.change_count.load(Ordering::Acquire)
    }

    /// Stores a listing that was requested when [`Self::change_count`] was `change_count`.
    pub fn store(&self, listing: Arc<ToolListing>, change_count: u64) {
        self.current.store(Some(listing));
        if self.change_count() != change_count && !mutant!("stale-tool-list-kept") {
            self.current.store(None);
        }
    }

    /// Drops the listing, because the tools or their pins have changed.
    pub fn invalidate(&self) {
        self.change_count.fetch_add(1, Ordering::AcqRel);
        self.current.store(None);
    }
}

/// One listing of a server's tools.
#[derive(Debug)]
pub(crate) struct ToolListing {
    tools: HashMap<Box<str>, UpstreamTool>,
    /// Categories of the pinned tools.
    categories: Arc<ServerToolCategories>,
    /// The pages from which the listing was parsed. Equal pages need not be parsed again.
    pages: Vec<Bytes>,
    /// The response that contained the first page.
    first_response: Option<ListResponseBaseline>,
    /// Cache of the lists that were sent to clients.
    pub list_cache: ToolListCache,
    pub listed_at: Instant,
}

/// A response that has been parsed, with the positions of its parts.
#[derive(Debug, Clone)]
pub(crate) struct ListResponseBaseline {
    pub text: Bytes,
    pub spans: ServerResponseOffsets,
}

impl ListResponseBaseline {
    /// Returns whether another response equals this one except for its id.
    pub fn is_same_except_id(&self, other: &Bytes) -> bool {
        is_same_buffer(&self.text, other) || self.spans.is_same_except_id(&self.text, other)
    }

    /// Returns whether `piece`, a chunk of another response at offset `at`, equals the same part of this response after
    /// its id is replaced with `id`.
    pub fn matches_at(&self, at: usize, piece: &[u8], id: &RequestId<'_>) -> bool {
        let mut from = 0;
        self.with_id(id).into_iter().all(|part| {
            let (start, end) = (at.max(from), (at + piece.len()).min(from + part.len()));
            let is_same = start >= end || part.get(start - from..end - from) == piece.get(start - at..end - at);
            from += part.len();
            is_same
        })
    }

    /// Returns the response with its id replaced with `id`, as three slices, so that the text is not copied.
    pub fn with_id<'t>(&'t self, id: &'t RequestId<'_>) -> [&'t [u8]; 3] {
        let [before, after] = self.spans.split_at_id(&self.text);
        [before, id.raw().as_bytes(), after]
    }

    /// Returns whether an unparsed response has the id `id` and is identical to this one apart from the id.
    pub fn is_same_with_id(&self, id: &RequestId<'_>, other: &Bytes) -> bool {
        let is_under_id = self.spans.id_bytes(other) == Some(id.raw().as_bytes());
        let is_taken_anyway = mutant!("list-matched-under-any-id") && id.as_str().is_some();
        let is_of_same_length = mutant!("list-compared-by-length") && self.text.len() == other.len();
        (is_under_id || is_taken_anyway) && (is_of_same_length || self.spans.is_same_except_id(&self.text, other))
    }
}

/// Returns whether two slices share their memory, so that comparing bytes is unnecessary.
fn is_same_buffer(one: &Bytes, other: &Bytes) -> bool {
    (one.as_ptr(), one.len()) == (other.as_ptr(), other.len())
}

/// One tool in a listing.
#[derive(Debug)]
pub(crate) struct UpstreamTool {
    /// Fingerprint of the definition.
    pub fingerprint: Arc<str>,
    /// Result of the comparison with the pinned definition.
    pub pin_state: DefinitionStatus,
    /// Arguments that are also sent as `Mcp-Param-*` headers.
    pub param_headers: Result<ParamHeaderMapping, HeaderAnnotationError>,
    definition: Box<str>,
    /// The input schema, compiled on first use; `None` if it is invalid.
    schema: OnceLock<Option<InputSchema>>,
}

impl ToolListing {
    /// Parses all pages of a list. If several tools have the same name, the first one is used. Pins are not compared
    /// yet.
    pub fn from_pages(pages: &[Bytes], limits: &JsonLimits) -> Self {
        let mut tools = HashMap::default();
        for document in pages.iter().filter_map(|page| read(page, limits).ok()) {
            for definition in document.root().get("tools").iter().flat_map(|list| list.elements()) {
                let Some(name) = definition.get("name").and_then(|name| name.as_str()) else { continue };
                tools.entry(name.into()).or_insert_with(|| UpstreamTool::new(definition));
            }
        }
        Self {
            tools,
            categories: Arc::default(),
            pages: pages.to_vec(),
            first_response: None,
            list_cache: ToolListCache::default(),
            listed_at: Instant::now(),
        }
    }

    /// Adds the response that contained the first page.
    pub fn with_first_response(self, first: Option<ListResponseBaseline>) -> Self {
        Self { first_response: first, ..self }
    }

    /// Returns whether this listing was parsed from pages equal to `pages`.
    pub fn is_from_pages(&self, pages: &[Bytes]) -> bool {
        let is_same = |(own, page): (&Bytes, &Bytes)| is_same_buffer(own, page) || own == page;
        self.pages.len() == pages.len() && self.pages.iter().zip(pages).all(is_same)
    }

    /// Returns the response from which the listing was parsed, if there was only one page.
    pub fn single_response(&self) -> Option<&ListResponseBaseline> {
        self.first_response.as_ref().filter(|_| self.pages.len() == 1)
    }

    /// Returns whether a response equals the response with the first page, except for its id.
    pub fn starts_with_response(&self, response: &Bytes) -> bool {
        self.first_response.as_ref().is_some_and(|first| first.is_same_except_id(response))
    }

    pub fn find_tool(&self, name: &str) -> Option<&UpstreamTool> {
        self.tools.get(name)
    }

    /// Returns the tools whose `Mcp-Param-*` headers are invalid, with the reason.
    pub fn tools_without_param_headers(&self) -> impl Iterator<Item = (&str, &HeaderAnnotationError)> {
        self.tools.iter().filter_map(|(name, tool)| Some((&**name, tool.param_headers.as_ref().err()?)))
    }

    /// Returns the pinned tools whose names do not follow the specification's recommendation. They are still listed and
    /// callable: it is only a recommendation, and a client that rejects them reports that itself.
    pub fn unconventional_names(&self) -> impl Iterator<Item = &str> {
        let accepted = self.tools.iter().filter(|(_, tool)| tool.pin_state == DefinitionStatus::Accepted);
        accepted.map(|(name, _)| &**name).filter(|name| !is_conventional_name(name))
    }

    /// Returns the definitions to be stored, sorted by name.
    pub fn definitions(&self) -> Vec<ToolDefinition> {
        let definition = |(name, tool): (&str, &UpstreamTool)| ToolDefinition {
            name: name.to_owned(),
            fingerprint: tool.fingerprint.to_string(),
            text: tool.definition.to_string(),
        };
        let mut all: Vec<_> = self.tools.iter().map(|(name, tool)| definition((name, tool))).collect();
        all.sort_by(|one, other| one.name.cmp(&other.name));
        all
    }

    /// Returns the category of a tool's pinned definition.
    pub fn category(&self, name: &str) -> Category {
        self.categories.category(if mutant!("tool-category-ignored") { "" } else { name })
    }

    /// Compares each tool with its pinned definition.
    pub fn compare_with_pins(&mut self, known: &ServerTools, categories: Arc<ServerToolCategories>) {
        self.categories = categories;
        let accepted = known.pinned.iter().map(|pin| (pin.definition.name.as_str(), &pin.definition.fingerprint));
        let accepted: HashMap<&str, &String> = accepted.collect();
        for (name, tool) in &mut self.tools {
            tool.pin_state = match accepted.get(&**name) {
                Some(_) if mutant!("changed-tool-stays-pinned") => DefinitionStatus::Accepted,
                Some(fingerprint) if **fingerprint == *tool.fingerprint => DefinitionStatus::Accepted,
                Some(_) => DefinitionStatus::Changed,
                None => DefinitionStatus::New,
            };
        }
    }
}

/// Returns whether a name follows the specification's recommendation.
fn is_conventional_name(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    (1..=MAX_TOOL_NAME_CHARS).contains(&name.len()) && name.bytes().all(fits)
}

impl UpstreamTool {
    fn new(definition: JsonValue<'_>) -> Self {
        Self {
            fingerprint: fingerprint(definition),
            pin_state: DefinitionStatus::New,
            param_headers: definition
                .get("inputSchema")
                .map_or_else(|| Ok(ParamHeaderMapping::default()), ParamHeaderMapping::of_schema),
            definition: definition.raw().into(),
            schema: OnceLock::new(),
        }
    }

    /// Returns the input schema, if it is valid.
    pub fn schema(&self) -> Option<&InputSchema> {
        let compile = || {
            let document = read(self.definition.as_bytes(), &JsonLimits::REPLY).ok()?;
            InputSchema::of_value(document.root().get("inputSchema")?).ok()
        };
        self.schema.get_or_init(compile).as_ref()
    }
}

#[cfg(test)]
mod tests {
    use gatelodge_store::PinnedDefinition;
    use serde_json::{Value as Json, json};

    use super::*;

    /// A deterministic pseudo-random generator.
    struct TestRandom(u64);

    impl TestRandom {
        fn below(&mut self, end: usize) -> usize {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            usize::try_from(self.0 % end as u64).expect("small")
        }
    }

    fn definition() -> Json {
        json!({"name": "pay", "title": "Pay", "description": "Pays a person.", "inputSchema": {"type": "object",
            "properties": {"to": {"type": "string"}, "amount": {"type": "number", "maximum": 100.0}}, "required": ["to", "amount"]},
            "outputSchema": {"type": "object"}, "annotations": {"readOnlyHint": false, "destructiveHint": true},
            "icons": [{"src": "https://a.example/i.png"}], "_meta": {"v": 1, "deep": {"list": [1, 2, {"x": null}]}}})
    }

    /// Collects the JSON pointers of all values.
    fn pointers(value: &Json, here: &str, out: &mut Vec<String>) {
        out.push(here.to_owned());
        match value {
            Json::Object(members) => {
                members.iter().for_each(|(name, value)| pointers(value, &format!("{here}/{name}"), out));
            }
            Json::Array(elements) => {
                elements.iter().enumerate().for_each(|(at, value)| pointers(value, &format!("{here}/{at}"), out));
            }
            _ => {}
        }
    }

    /// Makes one change: a value, a letter of a string, one member more.
    fn change(definition: &mut Json, random: &mut TestRandom) {
        let mut all = Vec::new();
        pointers(definition, "", &mut all);
        let pointer = all.swap_remove(1 + random.below(all.len() - 1));
        let is_name = pointer == "/name";
        let value = definition.pointer_mut(&pointer).expect("a value");
        match (random.below(4), &mut *value) {
            (0, Json::Object(members)) => drop(members.insert(format!("x{}", random.below(1_000)), json!(1))),
            (1, Json::Array(elements)) => elements.push(json!(random.below(1_000))),
            (_, Json::String(text)) if !is_name => {
                text.push(char::from(b'a' + u8::try_from(random.below(26)).expect("small")))
            }
            (_, Json::String(_)) => {
                definition.as_object_mut().expect("an object").insert("new".to_owned(), json!(random.below(9)));
            }
            (_, Json::Number(_)) => *value = json!(random.below(1_000) + 1_000),
            (_, Json::Bool(flag)) => *flag = !*flag,
            _ => *value = json!(format!("other {}", random.below(1_000))),
        }
    }

    /// Writes an equal value with another order of members and more white space.
    fn shuffled(value: &Json, random: &mut TestRandom) -> String {
        match value {
            Json::Object(members) => {
                let mut members: Vec<String> = members
                    .iter()
                    .map(|(name, value)| format!(" {} : {}", json!(name), shuffled(value, random)))
                    .collect();
                let turn = random.below(members.len().max(1));
                members.rotate_left(turn);
                format!("{{{}\n}}", members.join(","))
            }
            Json::Array(elements) => {
                let elements: Vec<String> = elements.iter().map(|value| shuffled(value, random)).collect();
                format!("[ {}]", elements.join(" ,"))
            }
            plain => plain.to_string(),
        }
    }

    fn listing_of(definitions: &[String]) -> ToolListing {
        ToolListing::from_pages(&[format!(r#"{{"tools":[{}]}}"#, definitions.join(",")).into()], &JsonLimits::REPLY)
    }

    #[test]
    fn every_change_of_a_definition_is_detected_and_reordering_is_not_a_change() {
        let (accepted, other) = (definition(), json!({"name": "read", "inputSchema": {}}));
        let known =
            listing_of(&[accepted.to_string(), other.to_string()]).definitions().into_iter().map(|definition| {
                PinnedDefinition { definition, accepted_at: jiff::Timestamp::UNIX_EPOCH, accepted_by: String::new() }
            });
        let known = ServerTools { pinned: known.collect(), offered: Vec::new(), category_overrides: Vec::new() };
        let mut random = TestRandom(0x9e37_79b9_7f4a_7c15);
        let pin_states = |offered: &[String]| {
            let mut listing = listing_of(offered);
            listing.compare_with_pins(&known, Arc::default());
            (listing.find_tool("pay").map(|tool| tool.pin_state), listing.find_tool("read").map(|tool| tool.pin_state))
        };
        let accepted_both = (Some(DefinitionStatus::Accepted), Some(DefinitionStatus::Accepted));
        for round in 0..10_000 {
            let mut changed = accepted.clone();
            change(&mut changed, &mut random);
            assert_ne!(changed, accepted, "round {round}");
            let offered = [shuffled(&changed, &mut random), other.to_string()];
            assert_eq!(pin_states(&offered).0, Some(DefinitionStatus::Changed), "round {round}: {changed}");
            let same = [shuffled(&other, &mut random), shuffled(&accepted, &mut random)];
            assert_eq!(pin_states(&same), accepted_both, "round {round}: {same:?}");
        }
    }

    #[test]
    fn listing_requested_before_a_change_is_dropped() {
        let registry = ToolRegistry::default();
        let listing = || Arc::new(ToolListing::from_pages(&[], &JsonLimits::REPLY));
        let before = registry.change_count();
        registry.invalidate();
        registry.store(listing(), before);
        assert!(registry.current().is_none());
        registry.store(listing(), registry.change_count());
        assert!(registry.current().is_some());
    }
}
