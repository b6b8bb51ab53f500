//! Messages of either side: generated from choices, and as raw bytes.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use gatelodge_fuzz::{ChoiceReader, message_generator, message_laws};

#[test]
fn generated_frames() {
    let seeds = seeds();
    let (runs, callers, upstreams) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    bolero::check!().with_max_len(1024).with_test_time(time()).with_iterations(usize::MAX).for_each(|tape: &[u8]| {
        let seen =
            message_laws::check_message_bytes(&message_generator::generate_text(&mut ChoiceReader::new(tape), &seeds));
        runs.fetch_add(1, Ordering::Relaxed);
        callers.fetch_add(u64::from(seen.is_client_message), Ordering::Relaxed);
        upstreams.fetch_add(u64::from(seen.is_upstream_message), Ordering::Relaxed);
    });
    let (runs, callers, upstreams) = (runs.into_inner(), callers.into_inner(), upstreams.into_inner());
    println!("{runs} texts: {callers} taken from callers, {upstreams} from upstreams");
    for taken in [callers, upstreams] {
        let share = taken * 100 / runs.max(1);
        assert!(runs >= 100 && (10..=90).contains(&share), "{taken} of {runs} texts taken; the texts test little");
    }
}

#[test]
fn raw_frames() {
    bolero::check!().with_max_len(4096).with_test_time(time()).with_iterations(usize::MAX).for_each(
        |bytes: &[u8]| {
            message_laws::check_message_bytes(bytes);
        },
    );
}

#[test]
fn seeds_are_messages() {
    for seed in seeds() {
        let seen = message_laws::check_message_bytes(&seed);
        assert!(seen.is_client_message || seen.is_upstream_message, "{}", String::from_utf8_lossy(&seed));
    }
}

/// Run time of each target.
#[expect(clippy::disallowed_methods, reason = "tests may read the environment")]
fn time() -> Duration {
    let seconds = std::env::var("GATELODGE_FUZZ_SECONDS").map_or(20, |text| text.parse().expect("seconds"));
    Duration::from_secs(seconds)
}

/// Returns the messages in the corpus.
fn seeds() -> Vec<Vec<u8>> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/corpus/frames");
    let mut paths: Vec<_> = std::fs::read_dir(folder).expect(folder).map(|entry| entry.expect(folder).path()).collect();
    paths.sort();
    assert!(!paths.is_empty());
    paths.into_iter().map(|path| std::fs::read(path).expect(folder)).collect()
}
