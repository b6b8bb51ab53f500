use gatelodge_json::{JsonLimits, read};

use super::*;

fn mirror(properties: &str) -> Result<ParamHeaderMapping, HeaderAnnotationError> {
    let schema = format!(r#"{{"type":"object","properties":{properties}}}"#);
    let document = read(schema.as_bytes(), &JsonLimits::REPLY).expect("json");
    ParamHeaderMapping::of_schema(document.root())
}

fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
    let pair = |(name, value): &(&str, &str)| {
        (HeaderName::from_bytes(name.as_bytes()).expect("a name"), HeaderValue::from_str(value).expect("a value"))
    };
    pairs.iter().map(pair).collect()
}

const FIELDS: &str = r#"{"region":{"type":"string","x-mcp-header":"Region"},"count":{"type":"integer","x-mcp-header":"Count"},
    "dry":{"type":"boolean","x-mcp-header":"Dry"},"deep":{"type":"object","properties":{"er":{"type":"string","x-mcp-header":"Er"}}},
    "plain":{"type":"string"},"x-mcp-header":{"type":"string","default":{"x-mcp-header":""}}}"#;

fn agrees(said: &[(&str, &str)], arguments: &str) -> bool {
    let document = read(arguments.as_bytes(), &JsonLimits::REQUEST).expect("json");
    mirror(FIELDS).expect("annotations").check(&headers(said), Some(document.root())).is_ok()
}

#[test]
fn mirrored_headers_must_equal_the_arguments() {
    assert!(agrees(&[("mcp-param-region", "eu"), ("mcp-param-count", "42")], r#"{"region":"eu","count":42.0}"#));
    assert!(agrees(&[("mcp-param-region", "=?base64?bsOkaA==?=")], r#"{"region":"näh"}"#));
    assert!(agrees(&[("mcp-param-region", "=?base64?SGVsbG8=")], r#"{"region":"=?base64?SGVsbG8="}"#), "a literal");
    assert!(agrees(&[("mcp-param-er", "x")], r#"{"deep":{"er":"x"}}"#));
    assert!(agrees(&[("mcp-param-dry", "true"), ("mcp-param-other", "y")], r#"{"dry":true,"region":null}"#));
    assert!(agrees(&[("mcp-param-region", "")], r#"{"region":""}"#));
    for (said, arguments) in [
        (&[("mcp-param-region", "us")][..], r#"{"region":"eu"}"#),
        (&[], r#"{"region":"eu"}"#),
        (&[("mcp-param-region", "eu")], "{}"),
        (&[("mcp-param-region", "null")], r#"{"region":null}"#),
        (&[("mcp-param-count", "forty")], r#"{"count":40}"#),
        (&[("mcp-param-count", "41")], r#"{"count":42}"#),
        (&[("mcp-param-dry", "True")], r#"{"dry":true}"#),
        (&[("mcp-param-region", "=?base64?SGVsbG8?=")], r#"{"region":"Hello"}"#),
        (&[("mcp-param-region", "=?base64?SGVs!!!bG8=?=")], r#"{"region":"Hello"}"#),
    ] {
        assert!(!agrees(said, arguments), "{said:?} for {arguments}");
    }
}

#[test]
fn forwarded_headers_are_made_from_the_arguments() {
    let document =
        read(br#"{"region":" p\u00e4d ","count":1.10,"dry":null,"deep":7}"#, &JsonLimits::REQUEST).expect("json");
    let said = headers(&[("mcp-param-region", "forged"), ("mcp-param-dry", "true"), ("mcp-param-other", "kept")]);
    let sent = mirror(FIELDS).expect("annotations").apply_to(said, Some(document.root()));
    let want = [("mcp-param-count", "1.10"), ("mcp-param-other", "kept"), ("mcp-param-region", "=?base64?IHDDpGQg?=")];
    assert_eq!(sent, headers(&want));
}

#[test]
fn invalid_annotations_are_refused() {
    for properties in [
        r#"{"a":{"type":"string","x-mcp-header":""}}"#,
        r#"{"a":{"type":"object","x-mcp-header":"A"}}"#,
        r#"{"a":{"type":"array","items":{"type":"string"},"x-mcp-header":"A"}}"#,
        r#"{"a":{"type":"null","x-mcp-header":"A"}}"#,
        r#"{"a":{"type":"number","x-mcp-header":"A"}}"#,
        r#"{"a":{"x-mcp-header":"A"}}"#,
        r#"{"a":{"type":"string","x-mcp-header":7}}"#,
        r#"{"a":{"type":"string","x-mcp-header":"A"},"b":{"type":"string","x-mcp-header":"a"}}"#,
        r#"{"a":{"type":"string","x-mcp-header":"My Region"}}"#,
        r#"{"a":{"type":"string","x-mcp-header":"R:P"}}"#,
        r#"{"a":{"type":"string","x-mcp-header":"Région"}}"#,
        r#"{"a":{"type":"string","x-mcp-header":"R\t1"}}"#,
        r#"{"a":{"type":"string","x\u002dmcp-header":"R\r\nHost: x"}}"#,
        r#"{"a":{"type":"array","items":{"type":"string","x-mcp-header":"A"}}}"#,
        r#"{"a":{"anyOf":[{"type":"string","x-mcp-header":"A"}]}}"#,
        r#"{"a":{"not":{"properties":{"b":{"type":"string","x-mcp-header":"A"}}}}}"#,
        r#"{"a":{"$defs":{"b":{"type":"string","x-mcp-header":"A"}}}}"#,
    ] {
        assert!(mirror(properties).is_err(), "{properties}");
    }
    let root = read(br#"{"type":"string","x-mcp-header":"A"}"#, &JsonLimits::REPLY).expect("json");
    assert!(ParamHeaderMapping::of_schema(root.root()).is_err());
    let many: Vec<String> =
        (0..=MAX_PARAM_HEADERS).map(|at| format!(r#""p{at}":{{"type":"string","x-mcp-header":"P{at}"}}"#)).collect();
    assert!(mirror(&format!("{{{}}}", many.join(","))).is_err());
}

#[test]
fn parameter_headers_are_limited_in_number_size_and_characters() {
    let many: Vec<String> = (0..=MAX_PARAM_HEADERS).map(|at| format!("mcp-param-{at}")).collect();
    let many: HeaderMap =
        many.iter().map(|name| (name.parse::<HeaderName>().expect("a name"), HeaderValue::from_static("x"))).collect();
    assert!(param_headers(&many).is_err());
    let mut twice = headers(&[("mcp-param-a", "1")]);
    twice.append("mcp-param-a", HeaderValue::from_static("1"));
    assert!(param_headers(&twice).is_err());
    assert!(param_headers(&headers(&[("mcp-param-a", &"x".repeat(MAX_HEADER_VALUE_BYTES + 1))])).is_err());
    let odd = HeaderMap::from_iter([(
        HeaderName::from_static("mcp-param-a"),
        HeaderValue::from_bytes("ä".as_bytes()).expect("a value"),
    )]);
    assert!(param_headers(&odd).is_err());
    let fine = headers(&[("mcp-param-a", "a b"), ("authorization", "Bearer x"), ("mcp-name", "n")]);
    assert_eq!(param_headers(&fine), Ok(headers(&[("mcp-param-a", "a b")])), "and no other header");
}
