//! The tools that a server offers, as it said when it was last asked.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use arc_swap::ArcSwapOption;
use data_encoding::HEXLOWER;
use gatelodge_json::{Kind, Limits, Value, read};
use gatelodge_policy::Schema;
use sha2::{Digest, Sha256};
use tokio::sync::Mutex;

/// What a server offered when it was last asked, for all grants.
#[derive(Debug, Default)]
pub(crate) struct Offers {
    /// None before it was asked, and after it said that its tools changed.
    current: ArcSwapOption<Offer>,
    /// How often it said so. What was asked for before says nothing any more.
    changes: AtomicU64,
    /// Held while it is asked, so that many calls ask once.
    pub asking: Mutex<()>,
}

impl Offers {
    pub fn current(&self) -> Option<Arc<Offer>> {
        self.current.load_full()
    }

    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Keeps an offer that was asked for when `changes` was as given.
    pub fn keep(&self, offer: Arc<Offer>, changes: u64) {
        self.current.store(Some(offer));
        if self.changes() != changes {
            self.current.store(None);
        }
    }

    /// The tools have changed.
    pub fn forget(&self) {
        self.changes.fetch_add(1, Ordering::AcqRel);
        self.current.store(None);
    }
}

/// What a server offers.
#[derive(Debug)]
pub(crate) struct Offer {
    tools: HashMap<Box<str>, OfferedTool>,
    pub taken_at: Instant,
}

/// One tool of an offer.
#[derive(Debug)]
pub(crate) struct OfferedTool {
    /// The fingerprint of its definition.
    pub fingerprint: Arc<str>,
    definition: Box<str>,
    /// Compiled when a rule first asks for it; none if it cannot be used.
    schema: OnceLock<Option<Schema>>,
}

impl Offer {
    /// Takes the definitions of a list, as they are written. Of two with one name the first counts.
    pub fn of_list<'a>(definitions: impl IntoIterator<Item = Value<'a>>) -> Self {
        let mut tools = HashMap::new();
        for definition in definitions {
            let Some(name) = definition.get("name").and_then(|name| name.as_str()) else { continue };
            tools.entry(name.into()).or_insert_with(|| OfferedTool {
                fingerprint: fingerprint(definition),
                definition: definition.raw().into(),
                schema: OnceLock::new(),
            });
        }
        Self { tools, taken_at: Instant::now() }
    }

    pub fn tool(&self, name: &str) -> Option<&OfferedTool> {
        self.tools.get(name)
    }
}

impl OfferedTool {
    /// The input schema, if it can be used.
    pub fn schema(&self) -> Option<&Schema> {
        let compile = || {
            let document = read(self.definition.as_bytes(), &Limits::REPLY).ok()?;
            Schema::of_value(document.root().get("inputSchema")?).ok()
        };
        self.schema.get_or_init(compile).as_ref()
    }
}

/// A hash of everything a definition says. Order of members and white space are nothing it says.
pub(crate) fn fingerprint(definition: Value<'_>) -> Arc<str> {
    let mut digest = Sha256::new();
    feed(definition, &mut digest);
    HEXLOWER.encode(&digest.finalize()).into()
}

fn feed(value: Value<'_>, digest: &mut Sha256) {
    let mut put = |mark: u8, text: &str| {
        digest.update([mark]);
        digest.update((text.len() as u64).to_be_bytes());
        digest.update(text.as_bytes());
    };
    match value.kind() {
        Kind::String => put(b's', &value.as_str().unwrap_or_default()),
        Kind::Number | Kind::Bool | Kind::Null => put(b'v', value.raw()),
        Kind::List => {
            digest.update(b"[");
            value.elements().for_each(|element| feed(element, digest));
            digest.update(b"]");
        }
        Kind::Object => {
            let mut members: Vec<_> =
                value.members().map(|(key, value)| (key.as_str().unwrap_or_default(), value)).collect();
            members.sort_by(|a, b| a.0.cmp(&b.0));
            digest.update(b"{");
            for (key, value) in members {
                digest.update((key.len() as u64).to_be_bytes());
                digest.update(key.as_bytes());
                feed(value, digest);
            }
            digest.update(b"}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Arc<str> {
        fingerprint(read(text.as_bytes(), &Limits::REPLY).expect("json").root())
    }

    #[test]
    fn an_offer_asked_for_before_a_change_is_not_kept() {
        let offers = Offers::default();
        let offer = || Arc::new(Offer::of_list([]));
        let before = offers.changes();
        offers.forget();
        offers.keep(offer(), before);
        assert!(offers.current().is_none());
        offers.keep(offer(), offers.changes());
        assert!(offers.current().is_some());
    }

    #[test]
    fn a_fingerprint_changes_with_what_is_said_and_with_nothing_else() {
        let base = r#"{"name":"pay","inputSchema":{"type":"object","required":["a","b"]},"_meta":{"x":1}}"#;
        assert_eq!(
            of(base),
            of(r#"{ "_meta": {"x":1}, "inputSchema": {"required":["a","b"],"type":"\u006fbject"}, "name":"pay"}"#)
        );
        for other in [
            base.replace("pay", "pax"),
            base.replace(r#"["a","b"]"#, r#"["b","a"]"#),
            base.replace(":1", ":2"),
            base.replace(":1", ":\"1\""),
            base.replace(":1", ":[1]"),
        ] {
            assert_ne!(of(base), of(&other), "{other}");
        }
    }
}
