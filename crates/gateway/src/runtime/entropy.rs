//! Random bytes for call ids, which must not be guessable. Each thread reads them from the operating system in large
//! batches.

use std::cell::RefCell;

/// Bytes read from the operating system at once.
const ENTROPY_BUFFER_BYTES: usize = 1_000;

struct EntropyBuffer {
    bytes: [u8; ENTROPY_BUFFER_BYTES],
    used: usize,
}

thread_local! {
    static ENTROPY: RefCell<EntropyBuffer> = const { RefCell::new(EntropyBuffer { bytes: [0; ENTROPY_BUFFER_BYTES], used: ENTROPY_BUFFER_BYTES }) };
}

/// Returns ten random bytes that no other caller receives, or zeros if the operating system returns an error.
pub(crate) fn call_id_entropy() -> [u8; 10] {
    ENTROPY
        .with_borrow_mut(|buffer| {
            if buffer.used + 10 > ENTROPY_BUFFER_BYTES {
                getrandom::fill(&mut buffer.bytes).ok()?;
                buffer.used = 0;
            }
            let taken = buffer.bytes.get_mut(buffer.used..)?.first_chunk_mut::<10>()?;
            buffer.used += 10;
            // Consumed bytes are erased.
            Some(std::mem::take(taken))
        })
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_bytes_are_returned_twice() {
        let taken: HashSet<[u8; 10]> = (0..1_000).map(|_| call_id_entropy()).collect();
        assert_eq!(taken.len(), 1_000);
        assert!(!taken.contains(&[0; 10]));
    }
}
