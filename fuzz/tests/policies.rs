//! Policy documents: generated from choices, and as raw bytes, in both formats.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use gatelodge_fuzz::{ChoiceReader, message_generator, policy_generator, policy_laws};
use gatelodge_policy::DocumentFormat;

#[test]
fn generated_policies() {
    let (runs, loaded) = (AtomicU64::new(0), AtomicU64::new(0));
    bolero::check!().with_max_len(1024).with_test_time(time()).with_iterations(usize::MAX).for_each(|tape: &[u8]| {
        let mut tape = ChoiceReader::new(tape);
        // JSON without comments is valid YAML.
        let language = if tape.is_one_in(3) { DocumentFormat::Yaml } else { DocumentFormat::Json };
        let mut text = policy_generator::generate_document(&mut tape).into_bytes();
        while tape.is_one_in(6) && text.len() < 10_000 {
            message_generator::mutate(&mut tape, &mut text);
        }
        runs.fetch_add(1, Ordering::Relaxed);
        loaded.fetch_add(u64::from(policy_laws::check_document(&text, language)), Ordering::Relaxed);
    });
    let (runs, loaded) = (runs.into_inner(), loaded.into_inner());
    println!("{runs} documents: {loaded} loaded");
    let share = loaded * 100 / runs.max(1);
    assert!(runs >= 50 && (10..=90).contains(&share), "{loaded} of {runs} documents loaded; the documents test little");
}

#[test]
fn raw_policies() {
    bolero::check!().with_max_len(4096).with_test_time(time()).with_iterations(usize::MAX).for_each(
        |bytes: &[u8]| {
            policy_laws::check_document(bytes, DocumentFormat::Json);
            policy_laws::check_document(bytes, DocumentFormat::Yaml);
        },
    );
}

/// Run time of each target.
#[expect(clippy::disallowed_methods, reason = "tests may read the environment")]
fn time() -> Duration {
    let seconds = std::env::var("GATELODGE_FUZZ_SECONDS").map_or(20, |text| text.parse().expect("seconds"));
    Duration::from_secs(seconds)
}
