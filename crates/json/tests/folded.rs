//! A text whose middle stands apart says what the whole text says, wherever it is folded.

#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

use bytes::Bytes;
use gatelodge_json::{
    JsonDocument, JsonErrorKind, JsonLimits, JsonText, JsonValue, SegmentedText, StringSegments, read, read_segmented,
};
use proptest::prelude::*;

/// The text with what lies between two offsets apart, in pieces of so many bytes; none if it cannot be.
fn folded(text: &[u8], from: usize, to: usize, piece: usize) -> Option<SegmentedText> {
    let mut middle = StringSegments::default();
    for piece in text[from..to].chunks(piece.max(1)) {
        middle.push(Bytes::copy_from_slice(piece)).ok()?;
    }
    SegmentedText::new(text[..from].to_vec(), middle, &text[to..]).ok()
}

/// Everything that can be asked of a value and of those inside it.
fn told(value: JsonValue<'_>, all: &mut Vec<String>) {
    let mut pieces = Vec::new();
    value.for_each_chunk(|piece| pieces.extend_from_slice(piece));
    assert_eq!(pieces, value.raw().as_bytes());
    all.push(format!("{:?} {:?} {:?} {}", value.kind(), value.span(), value.as_str(), value.raw()));
    for (key, value) in value.members() {
        let name = key.as_str().expect("a key");
        told(key, all);
        told(value, all);
        assert!(key.is_str(&name), "{name}");
    }
    value.elements().for_each(|element| told(element, all));
}

fn all_of(document: &JsonDocument<'_>) -> Vec<String> {
    let mut all = vec![document.text().to_owned()];
    told(document.root(), &mut all);
    all
}

/// Holds that a fold changes nothing; gives whether the text was read without being put together.
fn held(text: &[u8], from: usize, to: usize, piece: usize) -> bool {
    let Some(folded) = folded(text, from, to, piece) else { return false };
    let limits = JsonLimits { max_depth: 4, ..JsonLimits::REQUEST };
    let shown = || format!("{:?} at {from}..{to}", String::from_utf8_lossy(text));
    match (read(text, &limits), read_segmented(&folded, &limits)) {
        (Ok(whole), Ok(folded)) => {
            let is_folded = matches!(folded.source(), JsonText::Segmented(_));
            assert_eq!(all_of(&whole), all_of(&folded), "{}", shown());
            is_folded
        }
        (Err(whole), Err(folded)) => {
            assert_eq!(whole, folded, "{}", shown());
            false
        }
        (whole, folded) => panic!("{}: {whole:?} is not {folded:?}", shown()),
    }
}

#[test]
fn a_text_says_the_same_wherever_it_is_folded() {
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
                for piece in [1, 2, 5, usize::MAX] {
                    count += usize::from(held(text, from, to, piece));
                }
            }
        }
    }
    assert!(count > 500, "{count} were not put together");
}

#[test]
fn a_text_is_put_together_only_for_what_goes_over_its_fold() {
    let text = br#"{"a":"before","long":"0123456789","b":"behind"}"#;
    let folded = folded(text, 24, 29, 2).expect("a fold");
    let document = read_segmented(&folded, &JsonLimits::REQUEST).expect("JSON");
    let root = document.root();
    for (name, value) in [("a", "before"), ("long", "0123456789"), ("b", "behind")] {
        assert_eq!(root.get(name).and_then(|value| value.as_str()).as_deref(), Some(value));
    }
    assert!(root.get("long").is_some_and(|value| value.is_str("0123456789") && !value.is_str("0189")));
    assert_eq!(folded.as_str().as_bytes(), text);
    assert_eq!(folded.into_string().as_bytes(), text);
}

#[test]
fn the_whole_text_is_what_is_measured() {
    let text = format!(r#"{{"a":"{}"}}"#, "x".repeat(1_000));
    let folded = folded(text.as_bytes(), 100, 900, 64).expect("a fold");
    let limits = |bytes| JsonLimits { max_bytes: bytes, ..JsonLimits::REQUEST };
    assert!(read_segmented(&folded, &limits(text.len())).is_ok());
    let fault = read_segmented(&folded, &limits(text.len() - 1)).expect_err("too large");
    assert_eq!(fault.kind, JsonErrorKind::TooLarge { limit: text.len() - 1 });
}

proptest! {
    #[test]
    fn any_text_says_the_same_wherever_it_is_folded(
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
        piece in 1_usize..12,
    ) {
        let text = parts.concat();
        let from = from.min(text.len());
        held(text.as_bytes(), from, (from + length).min(text.len()), piece);
        let object = format!(r#"{{"k":"{text}","z":1}}"#);
        held(object.as_bytes(), from, (from + length).min(object.len()), piece);
    }
}
