//! Number of heap allocations of a decision, which is the same on every machine.
#![allow(clippy::expect_used, reason = "a broken test should stop")]

use gatelodge_json::{JsonLimits, read};
use gatelodge_policy::{CallFile, Decision, DocumentFormat, decide, parse};

#[test]
fn an_allow_without_limits_allocates_nothing() {
    assert_eq!(allocations("{}"), 0);
    assert_eq!(allocations(r#"{"require": [{"path": "args.currency", "op": "in", "value": ["usd", "eur"]}]}"#), 0);
    assert_eq!(allocations(r#"{"deny_if": [{"path": "args.amount", "op": "gt", "value": 50000}]}"#), 0);
}

#[test]
fn an_allow_with_one_limit_allocates_once() {
    let one_limit = r#"{"limits": [{"counter": "calls", "window": "minute", "max": 60}]}"#;
    assert!(allocations(one_limit) <= 1);
    let by_amount = r#"{"limits": [{"counter": "spend", "window": "day", "max": 5000, "amount": "args.amount"}]}"#;
    assert!(allocations(by_amount) <= 1);
}

#[test]
fn many_diagnostics_take_no_more_memory_than_the_document() {
    let peak = |open: &str, item: &str, format: DocumentFormat| {
        let text = format!("{open}{}]}}", item.repeat(200_000));
        let counted = allocation_counter::measure(|| {
            std::hint::black_box(parse(text.as_bytes(), format)).ok();
        });
        counted.bytes_max
    };
    let open = r#"{"version":"1","default":"deny","hide":["a""#;
    for (format, bad) in [(DocumentFormat::Json, ",1"), (DocumentFormat::Yaml, ",1"), (DocumentFormat::Yaml, ",0x1")] {
        let (without, with) = (peak(open, r#","a""#, format), peak(open, bad, format));
        assert!(with < without + without / 4, "{format:?} {bad}: {with} bytes, {without} without faults");
    }
}

/// Decides a call to a tool with this block and returns the number of allocations. The call must be allowed.
fn allocations(block: &str) -> u64 {
    let policy = format!(r#"{{"version": "1", "default": "deny", "tools": {{"pay": {block}}}}}"#);
    let policy = parse(policy.as_bytes(), DocumentFormat::Json).expect("a policy");
    let call = br#"{"tool": "pay", "arguments": {"amount": 1999, "currency": "eur"}}"#;
    let document = read(call, &JsonLimits::REQUEST).expect("JSON");
    let file = CallFile::new(document.root()).expect("a call");
    let (call, at) = (file.call(), "2026-11-15T12:00:00Z".parse().expect("a time"));
    let decide_once = || decide(&policy, &call, at);
    assert!(matches!(decide_once(), Decision::Allow(_)), "{block}");
    let counted = allocation_counter::measure(|| {
        std::hint::black_box(decide_once());
    });
    counted.count_total
}
