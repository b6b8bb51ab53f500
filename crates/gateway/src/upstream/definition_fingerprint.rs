//! Fingerprint of a tool definition.

use std::sync::Arc;

use data_encoding::HEXLOWER;
use gatelodge_json::{JsonKind, JsonValue};
use sha2::{Digest, Sha256};

/// Returns a hash of a definition. Member order and white space do not affect it.
pub(crate) fn fingerprint(definition: JsonValue<'_>) -> Arc<str> {
    let mut digest = Sha256::new();
    hash_value(definition, &mut digest);
    HEXLOWER.encode(&digest.finalize()).into()
}

fn hash_value(value: JsonValue<'_>, digest: &mut Sha256) {
    let mut put = |mark: u8, text: &str| {
        digest.update([mark]);
        digest.update((text.len() as u64).to_be_bytes());
        digest.update(text.as_bytes());
    };
    match value.kind() {
        JsonKind::String => put(b's', &value.as_str().unwrap_or_default()),
        JsonKind::Number | JsonKind::Bool | JsonKind::Null => put(b'v', value.raw()),
        JsonKind::Array => {
            digest.update(b"[");
            value.elements().for_each(|element| hash_value(element, digest));
            digest.update(b"]");
        }
        JsonKind::Object => {
            let mut members: Vec<_> =
                value.members().map(|(key, value)| (key.as_str().unwrap_or_default(), value)).collect();
            members.sort_by(|a, b| a.0.cmp(&b.0));
            digest.update(b"{");
            for (key, value) in members {
                digest.update((key.len() as u64).to_be_bytes());
                digest.update(key.as_bytes());
                hash_value(value, digest);
            }
            digest.update(b"}");
        }
    }
}

#[cfg(test)]
mod tests {
    use gatelodge_json::{JsonLimits, read};

    use super::*;

    fn of(text: &str) -> Arc<str> {
        fingerprint(read(text.as_bytes(), &JsonLimits::REPLY).expect("json").root())
    }

    #[test]
    fn fingerprint_changes_with_content_and_not_with_order() {
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
