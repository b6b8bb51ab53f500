//! Random bytes for names that nobody should guess. The operating system is asked for many at once, by each thread.

use std::cell::RefCell;

/// How many bytes are asked for at once.
const ENTROPY_BUFFER_BYTES: usize = 1_000;

struct EntropyBuffer {
    bytes: [u8; ENTROPY_BUFFER_BYTES],
    used: usize,
}

thread_local! {
    static ENTROPY: RefCell<EntropyBuffer> = const { RefCell::new(EntropyBuffer { bytes: [0; ENTROPY_BUFFER_BYTES], used: ENTROPY_BUFFER_BYTES }) };
}

/// Ten bytes that were given to nobody else; zeros if the operating system gives none.
pub(crate) fn call_id_entropy() -> [u8; 10] {
    ENTROPY
        .with_borrow_mut(|store| {
            if store.used + 10 > ENTROPY_BUFFER_BYTES {
                getrandom::fill(&mut store.bytes).ok()?;
                store.used = 0;
            }
            let given = store.bytes.get_mut(store.used..)?.first_chunk_mut::<10>()?;
            store.used += 10;
            // What was given is not kept.
            Some(std::mem::take(given))
        })
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_bytes_are_given_twice() {
        let given: HashSet<[u8; 10]> = (0..1_000).map(|_| call_id_entropy()).collect();
        assert_eq!(given.len(), 1_000);
        assert!(!given.contains(&[0; 10]));
    }
}
