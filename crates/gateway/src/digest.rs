//! The hash of a call's arguments, which is what the log keeps of them.

use std::sync::{Arc, LazyLock};

use data_encoding::HEXLOWER;
use gatelodge_json::{JsonText, JsonValue};
use memchr::memmem::Finder;
use sha2::{Digest, Sha256};

/// Longer arguments have another hash, which takes a third of the time for them.
const LONG_ARGUMENTS: usize = 64 << 10;
/// What is hashed at once: as much as a processor hashes side by side.
const BLOCK: usize = 16 << 10;

/// The SHA-256 of arguments; of long ones their BLAKE3, which says so. It may have begun when the message came.
pub(crate) fn digest_of(arguments: JsonValue<'_>, begun: Option<&Begun>) -> Arc<str> {
    let (start, end) = arguments.span();
    let is_in_pieces = matches!(arguments.source(), JsonText::Segmented(_));
    if end - start <= LONG_ARGUMENTS || !is_in_pieces {
        return digest(arguments.raw().as_bytes());
    }
    let begun = begun.filter(|begun| begun.start == start && start + begun.length <= end);
    let mut blocks = begun.map_or_else(Blocks::default, |begun| begun.blocks.clone());
    let mut hashed = begun.map_or(0, |begun| begun.length);
    arguments.for_each_chunk(|piece| {
        let known = hashed.min(piece.len());
        hashed -= known;
        blocks.update(piece.get(known..).unwrap_or_default());
    });
    named(&blocks.finish())
}

fn digest(arguments: &[u8]) -> Arc<str> {
    match arguments.len() {
        ..=LONG_ARGUMENTS => HEXLOWER.encode(&Sha256::digest(arguments)).into(),
        _ => named(&blake3::hash(arguments)),
    }
}

fn named(hash: &blake3::Hash) -> Arc<str> {
    format!("blake3:{}", hash.to_hex()).into()
}

/// The hash of what are most likely the arguments, as far as they have come: bytes are hashed while they are near.
#[derive(Debug)]
pub(crate) struct Begun {
    /// Where they begin in the message, and how much of them is hashed.
    start: usize,
    length: usize,
    blocks: Blocks,
}

impl Begun {
    /// Begins where the arguments seem to. Whoever uses it knows where they do.
    pub fn after(before: &[u8]) -> Option<Self> {
        static NAME: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\"arguments\""));
        let name = NAME.find(before)? + NAME.needle().len();
        let rest = before.get(name..)?.trim_ascii_start().strip_prefix(b":")?.trim_ascii_start();
        let mut begun = Self { start: before.len() - rest.len(), length: 0, blocks: Blocks::default() };
        begun.update(rest);
        Some(begun)
    }

    pub fn update(&mut self, bytes: &[u8]) {
        self.length += bytes.len();
        self.blocks.update(bytes);
    }
}

/// BLAKE3 of pieces of any length.
#[derive(Debug, Clone, Default)]
struct Blocks {
    hasher: blake3::Hasher,
    /// What makes no block yet.
    waiting: Vec<u8>,
}

impl Blocks {
    fn update(&mut self, mut bytes: &[u8]) {
        if !self.waiting.is_empty() {
            let missing = BLOCK.saturating_sub(self.waiting.len()).min(bytes.len());
            let (filling, rest) = bytes.split_at_checked(missing).unwrap_or((bytes, &[]));
            self.waiting.extend_from_slice(filling);
            if self.waiting.len() < BLOCK {
                return;
            }
            self.hasher.update(&self.waiting);
            self.waiting.clear();
            bytes = rest;
        }
        let whole = bytes.len() - bytes.len() % BLOCK;
        let (blocks, rest) = bytes.split_at_checked(whole).unwrap_or((bytes, &[]));
        self.hasher.update(blocks);
        self.waiting.extend_from_slice(rest);
    }

    fn finish(mut self) -> blake3::Hash {
        self.hasher.update(&self.waiting);
        self.hasher.finalize()
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use gatelodge_json::{JsonLimits, SegmentedText, StringSegments, read_segmented};

    use super::*;

    #[test]
    fn long_arguments_have_a_hash_that_says_its_name() {
        let zeros = |count: usize| digest(&vec![b'0'; count]);
        // As `sha256sum` and `b3sum` have them.
        assert_eq!(&*zeros(LONG_ARGUMENTS), "34dd6758c2908cf5be0e411173f61877f8faf2dcdcfed135b5a5fa90577447bc");
        assert_eq!(
            &*zeros(LONG_ARGUMENTS + 1),
            "blake3:bd69521bc8a75c381d725e245b189fb2903700e0714c91a523418b4b679782ca"
        );
    }

    #[test]
    fn pieces_have_the_hash_of_the_whole() {
        let bytes: Vec<u8> = (0..200_000_u32).map(|at| (at % 251) as u8).collect();
        for cuts in [vec![1, 2, 3], vec![BLOCK, 2 * BLOCK], vec![BLOCK - 1, BLOCK, 3 * BLOCK + 1], vec![99_999]] {
            let mut blocks = Blocks::default();
            let mut at = 0;
            for cut in cuts.iter().copied().chain([bytes.len()]) {
                blocks.update(&bytes[at..cut]);
                at = cut;
            }
            assert_eq!(blocks.finish(), blake3::hash(&bytes), "{cuts:?}");
        }
    }

    #[test]
    fn what_was_hashed_before_counts_only_if_it_is_of_the_arguments() {
        let text = format!(r#"{{"arguments" : {{"a":"{}"}},"b":"arguments"}}"#, "x".repeat(2 * LONG_ARGUMENTS));
        let (before, rest) = text.split_at(1_000);
        let (middle, behind) = rest.split_at(LONG_ARGUMENTS + 77);
        let mut pieces = StringSegments::default();
        pieces.push(Bytes::copy_from_slice(middle.as_bytes())).expect("inside a string");
        let folded = SegmentedText::new(before.into(), pieces, behind.as_bytes()).expect("a fold");
        let document = read_segmented(&folded, &JsonLimits::REPLY).expect("JSON");
        let arguments = document.root().get("arguments").expect("arguments");
        let expected = digest(&text.as_bytes()[15..text.len() - 17]);
        let begun = |before: &str, more: &str| {
            let mut begun = Begun::after(before.as_bytes()).expect("a beginning");
            begun.update(more.as_bytes());
            begun
        };
        assert_eq!(digest_of(arguments, None), expected);
        assert_eq!(digest_of(arguments, Some(&begun(before, middle))), expected);
        assert_eq!(digest_of(arguments, Some(&begun(before, ""))), expected);
        let elsewhere = before.replacen("{\"a\"", "{ \"a\"", 1).replacen(" : ", ":", 1);
        assert_eq!(digest_of(arguments, Some(&begun(&elsewhere, middle))), expected, "it begins elsewhere");
        assert_eq!(digest_of(arguments, Some(&begun(before, rest))), expected, "it goes on behind them");
        assert_eq!(folded.parts().1.len(), 1);
    }
}
