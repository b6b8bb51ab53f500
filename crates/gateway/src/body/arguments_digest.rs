//! Computes the digest of a call's arguments. The call log keeps the digest instead of the arguments.

use std::sync::{Arc, LazyLock};

use data_encoding::HEXLOWER;
use gatelodge_json::{JsonDocumentText, JsonValue};
use memchr::memmem::Finder;
use sha2::{Digest, Sha256};

/// Arguments longer than this are hashed with BLAKE3, which takes a third as long as SHA-256 at that size.
const MAX_SHA256_ARGUMENTS_BYTES: usize = 64 << 10;
/// Bytes passed to BLAKE3 at once: enough to use all SIMD lanes.
const HASH_BLOCK_BYTES: usize = 16 << 10;

/// Returns the SHA-256 of the arguments or, if they are long, their BLAKE3 hash with the prefix `blake3:`. `streaming`
/// may already hold part of the hash, computed while the message was arriving.
pub(crate) fn arguments_digest(arguments: JsonValue<'_>, streaming: Option<&StreamingDigest>) -> Arc<str> {
    let (start, end) = arguments.span();
    let is_in_pieces = matches!(arguments.source(), JsonDocumentText::Segmented(_));
    if end - start <= MAX_SHA256_ARGUMENTS_BYTES || !is_in_pieces {
        return digest_bytes(arguments.raw().as_bytes());
    }
    let streaming = streaming.filter(|streaming| streaming.start == start && start + streaming.hashed_bytes <= end);
    let mut blocks = streaming.map_or_else(Blake3BlockHasher::default, |streaming| streaming.hasher.clone());
    let mut hashed = streaming.map_or(0, |streaming| streaming.hashed_bytes);
    arguments.for_each_chunk(|piece| {
        let known = hashed.min(piece.len());
        hashed -= known;
        blocks.update(piece.get(known..).unwrap_or_default());
    });
    blake3_label(&blocks.finish())
}

fn digest_bytes(arguments: &[u8]) -> Arc<str> {
    match arguments.len() {
        ..=MAX_SHA256_ARGUMENTS_BYTES => HEXLOWER.encode(&Sha256::digest(arguments)).into(),
        _ => blake3_label(&blake3::hash(arguments)),
    }
}

fn blake3_label(hash: &blake3::Hash) -> Arc<str> {
    format!("blake3:{}", hash.to_hex()).into()
}

/// BLAKE3 hash of the bytes that are probably the arguments. It is computed while the message arrives, because hashing
/// is cheaper while the bytes are in the CPU cache.
#[derive(Debug)]
pub(crate) struct StreamingDigest {
    /// Offset of the arguments in the message.
    start: usize,
    hashed_bytes: usize,
    hasher: Blake3BlockHasher,
}

impl StreamingDigest {
    /// Starts hashing at the first `"arguments"` member in `before`. This is a guess: [`arguments_digest`] checks the
    /// offset.
    pub fn start_after(before: &[u8]) -> Option<Self> {
        static ARGUMENTS_KEY: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\"arguments\""));
        let name = ARGUMENTS_KEY.find(before)? + ARGUMENTS_KEY.needle().len();
        let rest = before.get(name..)?.trim_ascii_start().strip_prefix(b":")?.trim_ascii_start();
        let mut streaming =
            Self { start: before.len() - rest.len(), hashed_bytes: 0, hasher: Blake3BlockHasher::default() };
        streaming.update(rest);
        Some(streaming)
    }

    pub fn update(&mut self, bytes: &[u8]) {
        self.hashed_bytes += bytes.len();
        self.hasher.update(bytes);
    }
}

/// Feeds BLAKE3 in whole blocks, from chunks of any length.
#[derive(Debug, Clone, Default)]
struct Blake3BlockHasher {
    hasher: blake3::Hasher,
    /// Bytes that do not yet fill a block.
    partial_block: Vec<u8>,
}

impl Blake3BlockHasher {
    fn update(&mut self, mut bytes: &[u8]) {
        if !self.partial_block.is_empty() {
            let missing = HASH_BLOCK_BYTES.saturating_sub(self.partial_block.len()).min(bytes.len());
            let (filling, rest) = bytes.split_at_checked(missing).unwrap_or((bytes, &[]));
            self.partial_block.extend_from_slice(filling);
            if self.partial_block.len() < HASH_BLOCK_BYTES {
                return;
            }
            self.hasher.update(&self.partial_block);
            self.partial_block.clear();
            bytes = rest;
        }
        let whole = bytes.len() - bytes.len() % HASH_BLOCK_BYTES;
        let (blocks, rest) = bytes.split_at_checked(whole).unwrap_or((bytes, &[]));
        self.hasher.update(blocks);
        self.partial_block.extend_from_slice(rest);
    }

    fn finish(mut self) -> blake3::Hash {
        self.hasher.update(&self.partial_block);
        self.hasher.finalize()
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use gatelodge_json::{JsonLimits, SegmentedText, StringSegments, read_segmented};

    use super::*;

    #[test]
    fn long_arguments_are_hashed_with_blake3_and_labeled() {
        let zeros = |count: usize| digest_bytes(&vec![b'0'; count]);
        // Expected values come from `sha256sum` and `b3sum`.
        assert_eq!(
            &*zeros(MAX_SHA256_ARGUMENTS_BYTES),
            "34dd6758c2908cf5be0e411173f61877f8faf2dcdcfed135b5a5fa90577447bc"
        );
        assert_eq!(
            &*zeros(MAX_SHA256_ARGUMENTS_BYTES + 1),
            "blake3:bd69521bc8a75c381d725e245b189fb2903700e0714c91a523418b4b679782ca"
        );
    }

    #[test]
    fn chunks_have_the_same_hash_as_the_whole() {
        let bytes: Vec<u8> = (0..200_000_u32).map(|at| (at % 251) as u8).collect();
        for cuts in [
            vec![1, 2, 3],
            vec![HASH_BLOCK_BYTES, 2 * HASH_BLOCK_BYTES],
            vec![HASH_BLOCK_BYTES - 1, HASH_BLOCK_BYTES, 3 * HASH_BLOCK_BYTES + 1],
            vec![99_999],
        ] {
            let mut blocks = Blake3BlockHasher::default();
            let mut at = 0;
            for cut in cuts.iter().copied().chain([bytes.len()]) {
                blocks.update(&bytes[at..cut]);
                at = cut;
            }
            assert_eq!(blocks.finish(), blake3::hash(&bytes), "{cuts:?}");
        }
    }

    #[test]
    fn streaming_digest_is_used_only_if_it_covers_the_arguments() {
        let text =
            format!(r#"{{"arguments" : {{"a":"{}"}},"b":"arguments"}}"#, "x".repeat(2 * MAX_SHA256_ARGUMENTS_BYTES));
        let (before, rest) = text.split_at(1_000);
        let (middle, after) = rest.split_at(MAX_SHA256_ARGUMENTS_BYTES + 77);
        let mut pieces = StringSegments::default();
        pieces.push(Bytes::copy_from_slice(middle.as_bytes())).expect("inside a string");
        let segmented = SegmentedText::new(before.into(), pieces, after.as_bytes()).expect("a segmented text");
        let document = read_segmented(&segmented, &JsonLimits::REPLY).expect("JSON");
        let arguments = document.root().get("arguments").expect("arguments");
        let expected = digest_bytes(&text.as_bytes()[15..text.len() - 17]);
        let streaming = |before: &str, more: &str| {
            let mut streaming = StreamingDigest::start_after(before.as_bytes()).expect("a beginning");
            streaming.update(more.as_bytes());
            streaming
        };
        assert_eq!(arguments_digest(arguments, None), expected);
        assert_eq!(arguments_digest(arguments, Some(&streaming(before, middle))), expected);
        assert_eq!(arguments_digest(arguments, Some(&streaming(before, ""))), expected);
        let elsewhere = before.replacen("{\"a\"", "{ \"a\"", 1).replacen(" : ", ":", 1);
        assert_eq!(arguments_digest(arguments, Some(&streaming(&elsewhere, middle))), expected, "it starts elsewhere");
        assert_eq!(arguments_digest(arguments, Some(&streaming(before, rest))), expected, "it extends past them");
        assert_eq!(segmented.parts().1.len(), 1);
    }
}
