//! A segmented text parses like the contiguous text, wherever it is split.

#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

use bytes::Bytes;
use gatelodge_json::{
    JsonDocument, JsonDocumentText, JsonErrorKind, JsonLimits, JsonValue, SegmentedText, StringSegments, read,
    read_segmented,
};
use proptest::prelude::*;

/// Splits the range `from..to` of the text into chunks of `chunk_bytes`; returns `None` if it cannot be split there.
fn split_text(text: &[u8], from: usize, to: usize, chunk_bytes: usize) -> Option<SegmentedText> {
    let mut middle = StringSegments::default();
    for chunk in text[from..to].chunks(chunk_bytes.max(1)) {
        middle.push(Bytes::copy_from_slice(chunk)).ok()?;
    }
    SegmentedText::new(text[..from].to_vec(), middle, &text[to..]).ok()
}

/// Collects a description of a value and of all values inside it.
fn describe(value: JsonValue<'_>, all: &mut Vec<String>) {
    let mut bytes = Vec::new();
    value.for_each_chunk(|chunk| bytes.extend_from_slice(chunk));
    assert_eq!(bytes, value.raw().as_bytes());
    all.push(format!("{:?} {:?} {:?} {}", value.kind(), value.span(), value.as_str(), value.raw()));
    for (key, value) in value.members() {
        let name = key.as_str().expect("a key");
        describe(key, all);
        describe(value, all);
        assert!(key.is_str(&name), "{name}");
    }
    value.elements().for_each(|element| describe(element, all));
}

fn describe_all(document: &JsonDocument<'_>) -> Vec<String> {
    let mut all = vec![document.text().to_owned()];
    describe(document.root(), &mut all);
    all
}

/// Checks that splitting changes nothing; returns whether the text was parsed without joining it.
fn check_split(text: &[u8], from: usize, to: usize, chunk_bytes: usize) -> bool {
    let Some(segmented) = split_text(text, from, to, chunk_bytes) else { return false };
    let limits = JsonLimits { max_depth: 4, ..JsonLimits::REQUEST };
    let shown = || format!("{:?} at {from}..{to}", String::from_utf8_lossy(text));
    match (read(text, &limits), read_segmented(&segmented, &limits)) {
        (Ok(whole), Ok(segmented)) => {
            let is_segmented = matches!(segmented.source(), JsonDocumentText::Segmented(_));
            assert_eq!(describe_all(&whole), describe_all(&segmented), "{}", shown());
            is_segmented
        }
        (Err(whole), Err(segmented)) => {
            assert_eq!(whole, segmented, "{}", shown());
            false
        }
        (whole, segmented) => panic!("{}: {whole:?} is not {segmented:?}", shown()),
    }
}

#[test]
fn a_text_parses_the_same_wherever_it_is_split() {
    let texts: &[&[u8]] = &[
        r#"{"a":[1,"bcd"],"e":"fghij","k":{"l":"é😀\n\ud83d\ude00\u00e9x"},"m":null}"#.as_bytes(),
        br#"{"aa":1,"ab":2,"aab":3}"#,
        br#"{"aa":1,"aaaa":2}"#,
        br#"{"abcd":1,"abcd" :2}"#,
        br#"{"a":"\\","b":"\"\\\"","c" : "x"  }"#,
        br#"{"key" : "value", "keyy" : true}"#,
        br#"["x","y\\\\",[["z"]]]"#,
        br#""only a string""#,
        b"{\"a\":\"\xc3\xa9\xc3\"}",
        b"{\"a\":\"\xc3xx\xa9\"}",
        br#"{"a":"\ud83dxx\ude00"}"#,
        br#"{"a":"\xxn"}"#,
        br#"{"a":"\u00xxe9"}"#,
        b"{\"a\":\"b\nc\",\"d\":1}",
        br#"[[[[["deep"]]]]]"#,
        br#"{"a":"b"#,
        br#"{"a":"bcd"}x"#,
    ];
    let mut count = 0;
    for text in texts {
        for from in 0..=text.len() {
            for to in from..=text.len() {
                for chunk_bytes in [1, 2, 5, usize::MAX] {
                    count += usize::from(check_split(text, from, to, chunk_bytes));
                }
            }
        }
    }
    assert!(count > 500, "{count} were parsed without joining");
}

#[test]
fn values_can_be_read_before_and_after_the_text_is_joined() {
    let text = br#"{"a":"before","long":"0123456789","b":"behind"}"#;
    let segmented = split_text(text, 24, 29, 2).expect("can be split there");
    let document = read_segmented(&segmented, &JsonLimits::REQUEST).expect("JSON");
    let root = document.root();
    for (name, value) in [("a", "before"), ("long", "0123456789"), ("b", "behind")] {
        assert_eq!(root.get(name).and_then(|value| value.as_str()).as_deref(), Some(value));
    }
    assert!(root.get("long").is_some_and(|value| value.is_str("0123456789") && !value.is_str("0189")));
    assert_eq!(
        (JsonDocumentText::Segmented(&segmented).len(), segmented.len(), segmented.is_empty()),
        (text.len(), text.len(), false)
    );
    assert_eq!(segmented.outer_span_text(21..33), Some(r#""01789""#));
    assert_eq!(segmented.outer_text(), r#"{"a":"before","long":"01789","b":"behind"}"#);
    let is_in_value = |start, end| segmented.is_split_in_string_value((start, end));
    assert!(is_in_value(21, 28), "the chunks are in this string");
    assert!(!is_in_value(5, 13) && !is_in_value(33, 41) && !is_in_value(24, 28), "the chunks are elsewhere");
    assert_eq!(segmented.outer_span_text(0..10), None, "the chunks are elsewhere");
    assert_eq!(segmented.as_str().as_bytes(), text);
    assert_eq!(segmented.into_string().as_bytes(), text);
}

#[test]
fn the_size_limit_applies_to_the_whole_text() {
    let text = format!(r#"{{"a":"{}"}}"#, "x".repeat(1_000));
    let segmented = split_text(text.as_bytes(), 100, 900, 64).expect("can be split there");
    let limits = |bytes| JsonLimits { max_bytes: bytes, ..JsonLimits::REQUEST };
    assert!(read_segmented(&segmented, &limits(text.len())).is_ok());
    let error = read_segmented(&segmented, &limits(text.len() - 1)).expect_err("too large");
    assert_eq!(error.kind, JsonErrorKind::TooLarge { limit: text.len() - 1 });
}

proptest! {
    #[test]
    fn any_text_parses_the_same_wherever_it_is_split(
        parts in prop::collection::vec(
            prop_oneof![
                Just("\"".to_owned()), Just("\\".to_owned()), Just("{".to_owned()), Just("}".to_owned()),
                Just("[".to_owned()), Just("]".to_owned()), Just(":".to_owned()), Just(",".to_owned()),
                Just(r#"{"a":"#.to_owned()), Just(r#""a":"#.to_owned()), Just("\\ud83d".to_owned()),
                Just("\\ude00".to_owned()), Just("\\n".to_owned()), Just("1".to_owned()), "[a-cé😀 \n]{0,6}",
                r#""[a-cé😀]{0,9}""#,
            ],
            0..14,
        ),
        from in 0_usize..60,
        length in 0_usize..30,
        chunk_bytes in 1_usize..12,
    ) {
        let text = parts.concat();
        let from = from.min(text.len());
        check_split(text.as_bytes(), from, (from + length).min(text.len()), chunk_bytes);
        let object = format!(r#"{{"k":"{text}","z":1}}"#);
        check_split(object.as_bytes(), from, (from + length).min(object.len()), chunk_bytes);
    }
}
