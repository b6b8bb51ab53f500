//! The tools that a server offers, as it said when it was last asked, and which of them were accepted.

mod tool_list_cache;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use arc_swap::ArcSwapOption;
use bytes::Bytes;
use foldhash::HashMap;
use gatelodge_json::{JsonLimits, JsonValue, read};
use gatelodge_mcp::http_headers::{ParamHeaderError, ParamHeaderMapping};
use gatelodge_mcp::{RequestId, ServerResponseSpans};
use gatelodge_mutants::mutant;
use gatelodge_policy::{Category, Definition, InputSchema};
use gatelodge_store::{ServerTools, ToolDefinition};
use tokio::sync::Mutex;

pub(crate) use self::tool_list_cache::CachedToolList;
use self::tool_list_cache::ToolListCache;
use super::definition_fingerprint::fingerprint;
use crate::tool_categories::ServerToolCategories;

/// The most characters of a name, as the protocol wants it.
const MAX_TOOL_NAME_CHARS: usize = 128;

/// What a server offered when it was last asked, for all grants.
#[derive(Debug, Default)]
pub(crate) struct ToolRegistry {
    /// None before it was asked, and after it said that its tools changed.
    current: ArcSwapOption<ToolListing>,
    /// How often it said so. What was asked for before says nothing any more.
    change_count: AtomicU64,
    /// Held while it is asked, so that many calls ask once.
    pub refresh_lock: Mutex<()>,
}

impl ToolRegistry {
    pub fn current(&self) -> Option<Arc<ToolListing>> {
        self.current.load_full()
    }

    pub fn change_count(&self) -> u64 {
        self.change_count.load(Ordering::Acquire)
    }

    /// Keeps an offer that was asked for when `changes` was as given.
    pub fn store(&self, listing: Arc<ToolListing>, changes: u64) {
        self.current.store(Some(listing));
        if self.change_count() != changes && !mutant!("stale-tool-list-kept") {
            self.current.store(None);
        }
    }

    /// The tools have changed, or what is accepted of them.
    pub fn invalidate(&self) {
        self.change_count.fetch_add(1, Ordering::AcqRel);
        self.current.store(None);
    }
}

/// What a server offers.
#[derive(Debug)]
pub(crate) struct ToolListing {
    tools: HashMap<Box<str>, UpstreamTool>,
    /// What those that were accepted can do.
    categories: Arc<ServerToolCategories>,
    /// The pages that it was read from: the same bytes say the same again.
    pages: Vec<Bytes>,
    /// The answer that the first of them came in.
    first_response: Option<PreviousResponse>,
    /// What callers were given of it.
    pub list_cache: ToolListCache,
    pub listed_at: Instant,
}

/// An answer that was read, under an id of ours, and where its parts are.
#[derive(Debug, Clone)]
pub(crate) struct PreviousResponse {
    pub text: Bytes,
    pub spans: ServerResponseSpans,
}

impl PreviousResponse {
    /// Whether another answer says the same under another id.
    pub fn is_same_except_id(&self, other: &Bytes) -> bool {
        is_same_buffer(&self.text, other) || self.spans.is_same_except_id(&self.text, other)
    }

    /// Whether a piece of another answer, from `at` on, stands there in the same words; all of it stands under this id.
    pub fn matches_at(&self, at: usize, piece: &[u8], id: &RequestId<'_>) -> bool {
        let mut from = 0;
        self.with_id(id).into_iter().all(|part| {
            let (start, end) = (at.max(from), (at + piece.len()).min(from + part.len()));
            let is_same = start >= end || part.get(start - from..end - from) == piece.get(start - at..end - at);
            from += part.len();
            is_same
        })
    }

    /// The answer under another id.
    pub fn with_id<'t>(&'t self, id: &'t RequestId<'_>) -> [&'t [u8]; 3] {
        let [before, behind] = self.spans.split_at_id(&self.text);
        [before, id.raw().as_bytes(), behind]
    }

    /// Whether another answer, of which nothing was read, says the same under this id.
    pub fn is_same_with_id(&self, id: &RequestId<'_>, other: &Bytes) -> bool {
        let is_under_id = self.spans.id_bytes(other) == Some(id.raw().as_bytes());
        let is_taken_anyway = mutant!("list-matched-under-any-id") && id.as_str().is_some();
        let is_of_same_length = mutant!("list-compared-by-length") && self.text.len() == other.len();
        (is_under_id || is_taken_anyway) && (is_of_same_length || self.spans.is_same_except_id(&self.text, other))
    }
}

/// Whether two are the same place in memory, so that nobody has to look what stands there.
fn is_same_buffer(one: &Bytes, other: &Bytes) -> bool {
    (one.as_ptr(), one.len()) == (other.as_ptr(), other.len())
}

/// One tool of an offer.
#[derive(Debug)]
pub(crate) struct UpstreamTool {
    /// The fingerprint of its definition.
    pub fingerprint: Arc<str>,
    /// How it stands to what was accepted.
    pub pin_state: Definition,
    /// Which of its arguments travel in the head as well.
    pub param_headers: Result<ParamHeaderMapping, ParamHeaderError>,
    definition: Box<str>,
    /// Compiled when a rule first asks for it; none if it cannot be used.
    schema: OnceLock<Option<InputSchema>>,
}

impl ToolListing {
    /// Takes the definitions of all pages of a list, as they are written. Of two with one name the first counts.
    /// Nothing is accepted yet.
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

    /// Keeps the answer that the first page came in.
    pub fn with_first_response(self, first: Option<PreviousResponse>) -> Self {
        Self { first_response: first, ..self }
    }

    /// Whether these pages say what this offer was read from.
    pub fn is_from_pages(&self, pages: &[Bytes]) -> bool {
        let is_same = |(own, page): (&Bytes, &Bytes)| is_same_buffer(own, page) || own == page;
        self.pages.len() == pages.len() && self.pages.iter().zip(pages).all(is_same)
    }

    /// The answer that it was read from, if it was read from one alone.
    pub fn single_response(&self) -> Option<&PreviousResponse> {
        self.first_response.as_ref().filter(|_| self.pages.len() == 1)
    }

    /// Whether an answer is the one that the first page came in, or says the same under another id.
    pub fn starts_with_response(&self, answer: &Bytes) -> bool {
        self.first_response.as_ref().is_some_and(|first| first.is_same_except_id(answer))
    }

    pub fn find_tool(&self, name: &str) -> Option<&UpstreamTool> {
        self.tools.get(name)
    }

    /// Tools whose arguments cannot be mirrored as they want it, and why.
    pub fn tools_without_param_headers(&self) -> impl Iterator<Item = (&str, &ParamHeaderError)> {
        self.tools.iter().filter_map(|(name, tool)| Some((&**name, tool.param_headers.as_ref().err()?)))
    }

    /// Tools that were accepted, though the protocol would not choose their names. They are listed and called all the same:
    /// it says only that names should be so, and a client that does not take them says so itself.
    pub fn unconventional_names(&self) -> impl Iterator<Item = &str> {
        let accepted = self.tools.iter().filter(|(_, tool)| tool.pin_state == Definition::Accepted);
        accepted.map(|(name, _)| &**name).filter(|name| !is_conventional_name(name))
    }

    /// The definitions, for keeping; by name.
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

    /// What a tool can do, as its accepted definition says.
    pub fn category(&self, name: &str) -> Category {
        self.categories.category(if mutant!("tool-category-ignored") { "" } else { name })
    }

    /// Finds out how each tool stands to what was accepted.
    pub fn compare_with_pins(&mut self, known: &ServerTools, categories: Arc<ServerToolCategories>) {
        self.categories = categories;
        let accepted = known.pinned.iter().map(|pin| (pin.definition.name.as_str(), &pin.definition.fingerprint));
        let accepted: HashMap<&str, &String> = accepted.collect();
        for (name, tool) in &mut self.tools {
            tool.pin_state = match accepted.get(&**name) {
                Some(_) if mutant!("changed-tool-stays-pinned") => Definition::Accepted,
                Some(fingerprint) if **fingerprint == *tool.fingerprint => Definition::Accepted,
                Some(_) => Definition::Changed,
                None => Definition::New,
            };
        }
    }
}

/// Whether a name is as the protocol wants it.
fn is_conventional_name(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    (1..=MAX_TOOL_NAME_CHARS).contains(&name.len()) && name.bytes().all(fits)
}

impl UpstreamTool {
    fn new(definition: JsonValue<'_>) -> Self {
        Self {
            fingerprint: fingerprint(definition),
            pin_state: Definition::New,
            param_headers: definition
                .get("inputSchema")
                .map_or_else(|| Ok(ParamHeaderMapping::default()), ParamHeaderMapping::of_schema),
            definition: definition.raw().into(),
            schema: OnceLock::new(),
        }
    }

    /// The input schema, if it can be used.
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

    /// A generator of numbers that look random, the same each time.
    struct Dice(u64);

    impl Dice {
        fn below(&mut self, end: usize) -> usize {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            usize::try_from(self.0 % end as u64).expect("small")
        }
    }

    fn definition() -> Json {
        json!({"name": "pay", "title": "Pay", "description": "Pays somebody.", "inputSchema": {"type": "object",
            "properties": {"to": {"type": "string"}, "amount": {"type": "number", "maximum": 100.0}}, "required": ["to", "amount"]},
            "outputSchema": {"type": "object"}, "annotations": {"readOnlyHint": false, "destructiveHint": true},
            "icons": [{"src": "https://a.example/i.png"}], "_meta": {"v": 1, "deep": {"list": [1, 2, {"x": null}]}}})
    }

    /// Every place in a value, as JSON pointers.
    fn places(value: &Json, here: &str, out: &mut Vec<String>) {
        out.push(here.to_owned());
        match value {
            Json::Object(members) => {
                members.iter().for_each(|(name, value)| places(value, &format!("{here}/{name}"), out));
            }
            Json::Array(elements) => {
                elements.iter().enumerate().for_each(|(at, value)| places(value, &format!("{here}/{at}"), out));
            }
            _ => {}
        }
    }

    /// Changes one thing: a value, a letter of a text, a member more or less.
    fn change(definition: &mut Json, dice: &mut Dice) {
        let mut all = Vec::new();
        places(definition, "", &mut all);
        let place = all.swap_remove(1 + dice.below(all.len() - 1));
        let is_name = place == "/name";
        let value = definition.pointer_mut(&place).expect("a place");
        match (dice.below(4), &mut *value) {
            (0, Json::Object(members)) => drop(members.insert(format!("x{}", dice.below(1_000)), json!(1))),
            (1, Json::Array(elements)) => elements.push(json!(dice.below(1_000))),
            (_, Json::String(text)) if !is_name => {
                text.push(char::from(b'a' + u8::try_from(dice.below(26)).expect("small")))
            }
            (_, Json::String(_)) => {
                definition.as_object_mut().expect("an object").insert("new".to_owned(), json!(dice.below(9)));
            }
            (_, Json::Number(_)) => *value = json!(dice.below(1_000) + 1_000),
            (_, Json::Bool(flag)) => *flag = !*flag,
            _ => *value = json!(format!("other {}", dice.below(1_000))),
        }
    }

    /// The same with members in another order, and with white space.
    fn shuffled(value: &Json, dice: &mut Dice) -> String {
        match value {
            Json::Object(members) => {
                let mut members: Vec<String> = members
                    .iter()
                    .map(|(name, value)| format!(" {} : {}", json!(name), shuffled(value, dice)))
                    .collect();
                let turn = dice.below(members.len().max(1));
                members.rotate_left(turn);
                format!("{{{}\n}}", members.join(","))
            }
            Json::Array(elements) => {
                let elements: Vec<String> = elements.iter().map(|value| shuffled(value, dice)).collect();
                format!("[ {}]", elements.join(" ,"))
            }
            plain => plain.to_string(),
        }
    }

    fn offer(definitions: &[String]) -> ToolListing {
        ToolListing::from_pages(&[format!(r#"{{"tools":[{}]}}"#, definitions.join(",")).into()], &JsonLimits::REPLY)
    }

    #[test]
    fn every_change_of_a_definition_is_seen_and_another_order_is_none() {
        let (accepted, other) = (definition(), json!({"name": "read", "inputSchema": {}}));
        let known = offer(&[accepted.to_string(), other.to_string()]).definitions().into_iter().map(|definition| {
            PinnedDefinition { definition, accepted_at: jiff::Timestamp::UNIX_EPOCH, accepted_by: String::new() }
        });
        let known = ServerTools { pinned: known.collect(), offered: Vec::new(), category_overrides: Vec::new() };
        let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
        let standing = |offered: &[String]| {
            let mut listing = offer(offered);
            listing.compare_with_pins(&known, Arc::default());
            (listing.find_tool("pay").map(|tool| tool.pin_state), listing.find_tool("read").map(|tool| tool.pin_state))
        };
        let accepted_both = (Some(Definition::Accepted), Some(Definition::Accepted));
        for round in 0..10_000 {
            let mut changed = accepted.clone();
            change(&mut changed, &mut dice);
            assert_ne!(changed, accepted, "round {round}");
            let offered = [shuffled(&changed, &mut dice), other.to_string()];
            assert_eq!(standing(&offered).0, Some(Definition::Changed), "round {round}: {changed}");
            let same = [shuffled(&other, &mut dice), shuffled(&accepted, &mut dice)];
            assert_eq!(standing(&same), accepted_both, "round {round}: {same:?}");
        }
    }

    #[test]
    fn an_offer_asked_for_before_a_change_is_not_kept() {
        let offers = ToolRegistry::default();
        let listing = || Arc::new(ToolListing::from_pages(&[], &JsonLimits::REPLY));
        let before = offers.change_count();
        offers.invalidate();
        offers.store(listing(), before);
        assert!(offers.current().is_none());
        offers.store(listing(), offers.change_count());
        assert!(offers.current().is_some());
    }
}
