//! Time to read a request, compared with a reader that only checks the grammar and keeps the raw text.

use gatelodge_json::{JsonLimits, read};
use serde_json::value::RawValue;

use crate::figure_report::BenchFigure;
use crate::interleaved_timing::{measure_interleaved, workload};

const MEGABYTE: usize = 1 << 20;
const LIMITS: JsonLimits = JsonLimits { max_bytes: 4 * MEGABYTE, max_depth: 64, max_members: 100_000 };

pub fn figures() -> Vec<BenchFigure> {
    let texts = [
        ("1 MB, one long string", one_long_string(), Some(1.5)),
        ("1 MB, 20,000 small objects", many_small_objects(), Some(4.0)),
        ("300 bytes, a tools/call", small_call(), None),
    ];
    texts.iter().flat_map(|(name, text, target)| figures_for_text(name, text.as_bytes(), *target)).collect()
}

fn figures_for_text(name: &str, text: &[u8], target: Option<f64>) -> Vec<BenchFigure> {
    let slices = measure_interleaved(vec![
        workload(|| read(text, &LIMITS).expect("JSON")),
        workload(|| serde_json::from_slice::<&RawValue>(text).expect("JSON")),
    ]);
    let [own, raw] = slices.as_slice() else { return Vec::new() };
    let ratio = BenchFigure::ratio(format!("{name}: read against RawValue"), own, raw);
    vec![
        BenchFigure::nanoseconds(format!("{name}: read"), own),
        BenchFigure::nanoseconds(format!("{name}: RawValue"), raw),
        match target {
            None => ratio,
            Some(target) => ratio.with_max(target),
        },
    ]
}

fn one_long_string() -> String {
    let line = "All that is gold does not glitter, not all those who wander are lost. ";
    let envelope = |text: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"write","arguments":{{"text":"{text}"}}}}}}"#
        )
    };
    envelope(&line.repeat(MEGABYTE / line.len()))
}

fn many_small_objects() -> String {
    let items: Vec<String> = (0..20_000)
        .map(|number| format!(r#"{{"id":{number},"name":"item {number}","price":9.75,"on":true}}"#))
        .collect();
    format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"put","arguments":{{"items":[{}]}}}}}}"#,
        items.join(",")
    )
}

pub fn small_call() -> String {
    let arguments = r#"{"amount":1999,"currency":"eur","customer":"cus_8f3a2b","description":"Two reams of paper","capture":true,"metadata":{"order":"A-10023","channel":"shop"},"lines":[{"sku":"P80","count":2}]}"#;
    format!(
        r#"{{"jsonrpc":"2.0","id":17,"method":"tools/call","params":{{"name":"create_charge","arguments":{arguments}}}}}"#
    )
}
