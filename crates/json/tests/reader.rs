//! Which texts the reader accepts and refuses, and the locations it reports.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

use std::borrow::Cow;

use gatelodge_json::{
    JsonErrorKind, JsonKind, JsonLimits, LineColumn, read, read_with_comments, split_object, unescape,
};

fn refusal(text: impl AsRef<[u8]>) -> (JsonErrorKind, usize) {
    let error = read(text.as_ref(), &JsonLimits::REQUEST).expect_err("refused");
    (error.kind, error.start)
}

#[test]
fn a_repeated_key_is_refused_at_any_depth_and_in_any_spelling() {
    let repeated = |key: &str| JsonErrorKind::DuplicateKey(key.into());
    assert_eq!(refusal(r#"{"a":1,"a":2}"#), (repeated("a"), 7));
    assert_eq!(refusal(r#"{"a":1,"\u0061":2}"#), (repeated("a"), 7));
    assert_eq!(refusal(r#"{"x":[{"b":{"é":1,"\u00e9":2}}]}"#), (repeated("é"), 19));
    assert_eq!(refusal(r#"{"😀":1,"\ud83d\ude00":2}"#), (repeated("😀"), 10));
    assert_eq!(refusal(r#"{"":1,"":2}"#), (repeated(""), 6));
    assert_eq!(refusal(r#"{"b":1,"a":1,"b":2,"a":2}"#), (repeated("b"), 13), "the first of several");
    let many: String = (0..500).map(|n| format!("\"k{n}\":{n},")).collect();
    assert_eq!(refusal(format!("{{{many}\"k250\":0}}")).0, repeated("k250"));
}

#[test]
fn keys_that_only_look_alike_are_accepted() {
    for text in [r#"{"a":1,"A":2}"#, r#"{"a":1,"a ":2}"#, r#"{"a.b":1,"a":{"b":2}}"#, "{\"e\u{301}\":1,\"é\":2}"] {
        read(text.as_bytes(), &JsonLimits::REQUEST).expect(text);
    }
}

#[test]
fn invalid_json_is_refused_with_its_location() {
    let cases: &[(&str, JsonErrorKind, usize)] = &[
        ("", JsonErrorKind::Empty, 0),
        (" \n", JsonErrorKind::Empty, 0),
        ("\u{feff}{}", JsonErrorKind::ByteOrderMark, 0),
        ("{} {}", JsonErrorKind::TrailingText, 3),
        ("{}\0", JsonErrorKind::TrailingText, 2),
        ("{} // x", JsonErrorKind::Comment, 3),
        ("[1,]", JsonErrorKind::TrailingComma, 3),
        (r#"{"a":1,}"#, JsonErrorKind::TrailingComma, 7),
        ("[1", JsonErrorKind::UnexpectedEnd("a comma or `]`"), 2),
        ("[}", JsonErrorKind::Expected("a value"), 1),
        (r#"{"a":}"#, JsonErrorKind::Expected("a value"), 5),
        (r#"{"a"}"#, JsonErrorKind::Expected("a colon"), 4),
        ("{a:1}", JsonErrorKind::Expected("a key in double quotes"), 1),
        ("{'a':1}", JsonErrorKind::Expected("a key in double quotes"), 1),
        ("tru", JsonErrorKind::Expected("a value"), 0),
        ("NaN", JsonErrorKind::Expected("a value"), 0),
        ("Infinity", JsonErrorKind::Expected("a value"), 0),
        ("-Infinity", JsonErrorKind::InvalidNumber, 0),
        ("[01]", JsonErrorKind::InvalidNumber, 1),
        ("[1.]", JsonErrorKind::InvalidNumber, 1),
        ("[0x1]", JsonErrorKind::InvalidNumber, 1),
        ("[1e400]", JsonErrorKind::NumberTooLarge, 1),
        ("\"a\nb\"", JsonErrorKind::ControlCharacter, 2),
        ("\"abc", JsonErrorKind::UnexpectedEnd("the string is closed"), 4),
        (r#""\x""#, JsonErrorKind::InvalidEscape, 1),
        (r#""\u12g4""#, JsonErrorKind::InvalidEscape, 1),
        (r#""\u+123""#, JsonErrorKind::InvalidEscape, 1),
        (r#""ab\ud800""#, JsonErrorKind::LoneSurrogate, 3),
        (r#""\udc00\ud800""#, JsonErrorKind::LoneSurrogate, 1),
        (r#""\ud800\u0041""#, JsonErrorKind::LoneSurrogate, 1),
        (r#""\ud800\n""#, JsonErrorKind::LoneSurrogate, 1),
    ];
    for (text, kind, at) in cases {
        assert_eq!(refusal(text), (kind.clone(), *at), "{text:?}");
    }
    assert_eq!(refusal(b"\"\xff\""), (JsonErrorKind::InvalidUtf8, 1));
    assert_eq!(refusal(b"\"\xed\xa0\x80\""), (JsonErrorKind::InvalidUtf8, 1));
    assert_eq!(refusal(b"{\x00\"\x00a\x00"), (JsonErrorKind::Expected("a key in double quotes"), 1));
    assert_eq!(refusal(format!("\"{}\u{1}\"", "x".repeat(100))), (JsonErrorKind::ControlCharacter, 101));
}

#[test]
fn an_error_covers_the_offending_text() {
    for (text, offending) in [
        ("\u{feff}{}", "\u{feff}"),
        ("{} {}", "{"),
        ("{} // x", "// x"),
        ("[1, /* x */ 2]", "/* x */"),
        ("[1,]", "]"),
        (r#"{"a":1,}"#, "}"),
        ("[}", "}"),
        (r#"{"a":é}"#, "é"),
        (r#"{"a"é}"#, "é"),
        ("{é:1}", "é"),
        ("tru", "t"),
        ("[01]", "01"),
        ("[-]", "-"),
        ("[1.]", "1."),
        ("[1e400]", "1e400"),
        ("\"a\nb\"", "\n"),
        (r#""\x""#, r"\x"),
        (r#""\u12g4""#, r"\u"),
        (r#""ab\ud800""#, r"\ud800"),
        (r#"{"a":1,"a":2}"#, r#""a""#),
    ] {
        let error = read(text.as_bytes(), &JsonLimits::REQUEST).expect_err("refused");
        assert_eq!(text.get(error.start..error.end), Some(offending), "{text}: {error}");
    }
    let limits = JsonLimits { max_members: 1, max_depth: 2, ..JsonLimits::REQUEST };
    for (text, offending) in [(r#"{"a":1, "b":2}"#, r#"""#), ("[[[", "[")] {
        let error = read(text.as_bytes(), &limits).expect_err("refused");
        assert_eq!(text.get(error.start..error.end), Some(offending), "{text}: {error}");
    }
    for (text, offending) in [("{} /* x", "/*"), ("{} / x", "/"), ("{} // x\n]", "]")] {
        let error = read_with_comments(text.as_bytes(), &JsonLimits::DOCUMENT).expect_err("refused");
        assert_eq!(text.get(error.start..error.end), Some(offending), "{text}: {error}");
    }
    let error = split_object(b"{\"a\":\"\xff\"}", &JsonLimits::REQUEST).expect_err("refused");
    assert_eq!((error.kind, error.start..error.end), (JsonErrorKind::InvalidUtf8, 6..7));
    for (text, offending) in [(r#"{"a":[1}"#, "}"), (r#"{"a":,}"#, ","), (r#"{"a":"b\"#, "")] {
        let error = split_object(text.as_bytes(), &JsonLimits::REQUEST).expect_err("refused");
        assert_eq!(text.get(error.start..error.end), Some(offending), "{text}: {error}");
    }
}

#[test]
fn empty_containers_are_read() {
    for (text, kind) in
        [("[]", JsonKind::Array), ("[ ]", JsonKind::Array), ("{}", JsonKind::Object), ("{\n}", JsonKind::Object)]
    {
        let document = read(text.as_bytes(), &JsonLimits::REQUEST).expect("JSON");
        assert_eq!(document.root().kind(), kind);
        assert_eq!((document.root().elements().count(), document.root().members().count()), (0, 0), "{text}");
    }
    let nested = read(b"[[],{},[[]]]", &JsonLimits::REQUEST).expect("JSON");
    assert_eq!(nested.root().elements().count(), 3);
}

#[test]
fn only_two_halves_of_a_pair_become_one_character() {
    assert_eq!(unescape(r"\uffff\u0041"), "\u{ffff}A");
    assert_eq!(unescape(r"\ud83d\ude00\u0041"), "\u{1f600}A");
    assert_eq!(unescape(r"\ud83d\u0041"), "\u{fffd}A");
}

#[test]
fn a_split_object_has_a_size_limit_and_knows_its_longest_strings() {
    let text = br#"{"a":["x","the longest","y"],"b":1}"#;
    let members = split_object(text, &JsonLimits::REQUEST).expect("an object");
    let (start, end) = members.first().expect("a member").longest_string;
    assert_eq!(text.get(start..end), Some(&br#""the longest""#[..]));
    let limits = JsonLimits { max_bytes: text.len() - 1, ..JsonLimits::REQUEST };
    let error = split_object(text, &limits).expect_err("too large");
    assert_eq!(error.kind, JsonErrorKind::TooLarge { limit: text.len() - 1 });
    assert!(split_object(text, &JsonLimits { max_bytes: text.len(), ..limits }).is_ok());
}

#[test]
fn booleans_are_read_and_only_strings_with_escapes_are_copied() {
    let document = read(br#"[true, false, 1, "plain", "\u0061"]"#, &JsonLimits::REQUEST).expect("JSON");
    let values: Vec<_> = document.root().elements().map(|value| value.as_bool()).collect();
    assert_eq!(values, [Some(true), Some(false), None, None, None]);
    let strings: Vec<_> = document.root().elements().filter_map(|value| value.as_str()).collect();
    assert!(matches!(strings.as_slice(), [Cow::Borrowed("plain"), Cow::Owned(_)]), "{strings:?}");
}

#[test]
fn limits_are_exact() {
    let limits = JsonLimits { max_bytes: 10, max_depth: 2, max_members: 2 };
    let kind = |text: &str| read(text.as_bytes(), &limits).err().map(|error| error.kind);
    assert_eq!(kind("\"12345678\""), None);
    assert_eq!(kind("\"123456789\""), Some(JsonErrorKind::TooLarge { limit: 10 }));
    assert_eq!(kind("[[1]]"), None);
    assert_eq!(kind("[[[1]]]"), Some(JsonErrorKind::TooDeep { limit: 2 }));
    let limits = JsonLimits { max_bytes: 100, ..limits };
    let kind = |text: &str| read(text.as_bytes(), &limits).err().map(|error| error.kind);
    assert_eq!(kind(r#"{"a":1,"b":2}"#), None);
    assert_eq!(kind(r#"{"a":1,"b":2,"c":3}"#), Some(JsonErrorKind::TooManyMembers { limit: 2 }));
    assert_eq!(kind(r#"{"a":[1,2,3],"b":{"c":1,"d":2}}"#), None);
}

#[test]
fn a_hundred_thousand_levels_are_refused_without_a_stack_overflow() {
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let text = format!("{}1{}", open.repeat(100_000), close.repeat(100_000));
        assert_eq!(refusal(&text).0, JsonErrorKind::TooDeep { limit: 64 });
    }
}

#[test]
fn every_value_keeps_its_text() {
    let text = r#" {"z":1.10, "a":[1e2,-0 , 12345678901234567890123],"s":"A\n😀","t":true,"n":null,"o":{}} "#;
    let document = read(text.as_bytes(), &JsonLimits::REQUEST).expect("reads");
    assert_eq!(document.text(), text);
    let root = document.root();
    let keys: Vec<_> = root.members().filter_map(|(key, _)| key.as_str()).collect();
    assert_eq!(keys, ["z", "a", "s", "t", "n", "o"]);
    let raws: Vec<_> = root.members().map(|(_, value)| value.raw()).collect();
    assert_eq!(raws, ["1.10", "[1e2,-0 , 12345678901234567890123]", r#""A\n😀""#, "true", "null", "{}"]);
    let kinds: Vec<_> = root.members().map(|(_, value)| value.kind()).collect();
    assert_eq!(
        kinds,
        [JsonKind::Number, JsonKind::Array, JsonKind::String, JsonKind::Bool, JsonKind::Null, JsonKind::Object]
    );
    assert_eq!(root.get("s").and_then(|value| value.as_str()).as_deref(), Some("A\n😀"));
    let list: Vec<_> = root.get("a").expect("a").elements().map(|value| value.raw()).collect();
    assert_eq!(list, ["1e2", "-0", "12345678901234567890123"]);
}

#[test]
fn comments_are_accepted_where_allowed_and_all_repeated_keys_are_reported() {
    let text = "// head\n{\"a\": 1, /* in */ \"a\": 2, \"b\": {\"c\": 1, \"c\": 2}}\n// tail";
    let (document, repeats) = read_with_comments(text.as_bytes(), &JsonLimits::DOCUMENT).expect("reads");
    assert_eq!(document.comments().len(), 3);
    let places: Vec<_> = repeats.iter().map(|error| error.location(text.as_bytes())).collect();
    assert_eq!(places, [LineColumn { line: 2, column: 19 }, LineColumn { line: 2, column: 41 }]);
    let open = read_with_comments(b"{} /* never", &JsonLimits::DOCUMENT).expect_err("refused");
    assert_eq!((open.kind, open.start), (JsonErrorKind::UnclosedComment, 3));
}

#[test]
fn splitting_a_reply_keeps_its_payload_unchanged() {
    let text = r#" {"jsonrpc":"2.0", "id":7,"result":{"x":[1e999,"\ud800",{"a":1,"a":2}]} , "extra":-1.50}"#;
    let parts = split_object(text.as_bytes(), &JsonLimits::REPLY).expect("splits");
    let pairs: Vec<_> = parts.iter().map(|part| (part.key.as_ref(), part.value)).collect();
    assert_eq!(
        pairs,
        [
            ("jsonrpc", "\"2.0\""),
            ("id", "7"),
            ("result", r#"{"x":[1e999,"\ud800",{"a":1,"a":2}]}"#),
            ("extra", "-1.50")
        ]
    );
}

#[test]
fn a_reply_with_unbalanced_brackets_or_a_repeated_envelope_key_is_refused() {
    for text in [
        "",
        "[]",
        "{",
        r#"{"id":1"#,
        r#"{"id":[}"#,
        r#"{"id":[}}"#,
        r#"{"id":[{]}}"#,
        "{\"id\":\"a\\\n\"}",
        r#"{"id":"1}"#,
        r#"{"id":1}x"#,
        r#"{"id":1,"\u0069d":2}"#,
        r#"{"id":}"#,
        r#"{"id":1,}"#,
    ] {
        assert!(split_object(text.as_bytes(), &JsonLimits::REPLY).is_err(), "{text}");
    }
    let deep = format!("{{\"result\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(
        split_object(deep.as_bytes(), &JsonLimits::REPLY).expect_err("refused").kind,
        JsonErrorKind::TooDeep { limit: 64 }
    );
}

#[test]
fn an_envelope_with_too_many_members_is_refused_early() {
    let many: String = (0..200_000).map(|n| format!("\"k{n}\":{n},")).collect();
    let error = split_object(format!("{{{many}\"id\":1}}").as_bytes(), &JsonLimits::REPLY).expect_err("refused");
    assert_eq!(error.kind, JsonErrorKind::TooManyMembers { limit: 256 });
}

#[test]
fn members_of_a_split_reply_have_their_offsets() {
    let text = r#"{"id" : 7, "\u0072esult":{"a":[1]}}"#;
    for part in split_object(text.as_bytes(), &JsonLimits::REPLY).expect("splits") {
        assert!(text[part.start..].starts_with(part.value));
    }
    let repeated = split_object(br#"{"id":1,"id":2}"#, &JsonLimits::REPLY).expect_err("refused");
    assert_eq!((repeated.start, repeated.end), (8, 12));
}

#[test]
fn members_are_picked_by_name_in_one_pass() {
    let document = read(br#"{"b":[1,{"a":0}],"\u0061":2,"c":{"b":3}}"#, &JsonLimits::REQUEST).expect("JSON");
    let ([a, b, d], has_others) = document.root().pick(&["a", "b", "d"]);
    assert_eq!((a.map(|a| a.raw()), b.map(|b| b.raw())), (Some("2"), Some(r#"[1,{"a":0}]"#)));
    assert!(d.is_none() && has_others, "`c` was not asked for");
    let (_, has_others) = document.root().pick(&["a", "b", "c"]);
    assert!(!has_others);
    let ([none], has_others) = b.expect("a list").pick(&["a"]);
    assert!(none.is_none() && !has_others, "a list has no members");
}
