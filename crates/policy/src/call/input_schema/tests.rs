use super::*;

fn violation(schema: &str, arguments: &str) -> Option<String> {
    let schema = InputSchema::compile(schema.as_bytes()).expect("a schema");
    let document = read(arguments.as_bytes(), &JsonLimits::REQUEST).expect("arguments");
    schema.find_violation(Some(document.root()))
}

#[test]
fn arguments_are_validated_against_the_schema() {
    let schema = r#"{"type":"object","properties":{"n":{"type":"integer","maximum":10}},"required":["n"],"additionalProperties":false}"#;
    assert_eq!(violation(schema, r#"{"n":10}"#), None);
    assert!(violation(schema, r#"{"n":11}"#).expect("refused").contains("/n"));
    for arguments in [r#"{}"#, r#"{"n":"5"}"#, r#"{"n":1,"m":2}"#, r#"{"n":10.000000000000000000001}"#] {
        assert!(violation(schema, arguments).is_some(), "{arguments}");
    }
}

#[test]
fn formats_are_not_asserted_and_the_draft_is_respected() {
    assert_eq!(violation(r#"{"properties":{"u":{"format":"uri"}}}"#, r#"{"u":"no uri"}"#), None);
    let tuple =
        |draft: &str| format!(r#"{{"$schema":"{draft}","properties":{{"l":{{"items":[{{"type":"string"}}]}}}}}}"#);
    assert!(violation(&tuple("http://json-schema.org/draft-07/schema#"), r#"{"l":[1]}"#).is_some());
    assert!(InputSchema::compile(tuple("https://json-schema.org/draft/2020-12/schema").as_bytes()).is_err());
}

#[test]
fn an_unusable_schema_is_refused() {
    for schema in [
        "true",
        "[]",
        "null",
        "{",
        r#"{"type":5}"#,
        r#"{"type":"nonsense"}"#,
        r#"{"pattern":"(?=x)"}"#,
        r#"{"$ref":"https://example.com/s.json"}"#,
        r#"{"$ref":"file:///etc/passwd"}"#,
        r##"{"$ref":"#/$defs/missing"}"##,
        r#"{"pattern":"(a{1000}){1000}"}"#,
        r#"{"minimum":100.00000000000000000001}"#,
        r#"{"const":1.00000000000000000001}"#,
        r#"{"minimum":1e-400}"#,
        r#"{"$schema":"https://example.com/own"}"#,
    ] {
        assert!(InputSchema::compile(schema.as_bytes()).is_err(), "{schema}");
    }
}

#[test]
fn an_endless_schema_is_refused_and_a_recursive_one_is_accepted() {
    for schema in [
        r##"{"$ref":"#"}"##,
        r##"{"allOf":[{"$ref":"#"}]}"##,
        r##"{"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"not":{"$ref":"#/$defs/a"}}},"$ref":"#/$defs/a"}"##,
        r##"{"properties":{"a":{"allOf":[{"$ref":"#"},{"$ref":"#"}]}}}"##,
        r##"{"$anchor":"x","anyOf":[{"$ref":"#x"}]}"##,
        r##"{"$dynamicRef":"#x","$dynamicAnchor":"x"}"##,
        r##"{"$schema":"https://json-schema.org/draft/2019-09/schema","$recursiveRef":"#"}"##,
        r##"{"$defs":{"a b":{}},"$ref":"#/$defs/a%20b"}"##,
        r##"{"properties":{"a":{"$id":"other","$ref":"#/$defs/x"}},"$defs":{"x":{}}}"##,
    ] {
        assert!(matches!(InputSchema::compile(schema.as_bytes()), Err(InputSchemaError::Unbounded)), "{schema}");
    }
    let doubling: String = (0..40)
        .map(|n| format!(r##""d{n}":{{"allOf":[{{"$ref":"#/$defs/d{m}"}},{{"$ref":"#/$defs/d{m}"}}]}},"##, m = n + 1))
        .collect();
    let schema = format!(r##"{{"$defs":{{{doubling}"d40":{{}}}},"$ref":"#/$defs/d0"}}"##);
    assert!(matches!(InputSchema::compile(schema.as_bytes()), Err(InputSchemaError::Unbounded)));
    // An `$id` at the root does not change the references below it, and a property may be named like the keyword.
    for schema in [
        r##"{"$id":"https://example.com/own","properties":{"a":{"$ref":"#/$defs/x"}},"$defs":{"x":{}}}"##,
        r#"{"properties":{"$id":{"type":"string"},"id":{"type":"string"}}}"#,
    ] {
        assert!(InputSchema::compile(schema.as_bytes()).is_ok(), "{schema}");
    }
    let tree = r##"{"type":"object","properties":{"left":{"$ref":"#"},"right":{"$ref":"#"},"all":{"type":"array","items":{"$ref":"#"}}}}"##;
    assert_eq!(violation(tree, r#"{"left":{"right":{}},"all":[{"left":{}}]}"#), None);
    assert!(violation(tree, r#"{"left":{"right":{"all":[1]}}}"#).is_some());
}

#[test]
fn numbers_compare_by_their_text_however_many_digits_they_have() {
    let at_most = |bound: &str, number: &str| {
        violation(&format!(r#"{{"properties":{{"n":{{"maximum":{bound}}}}}}}"#), &format!(r#"{{"n":{number}}}"#))
            .is_none()
    };
    assert!(at_most("100", "99.99999999999999999999") && at_most("100", "100.000"));
    assert!(!at_most("100", "100.00000000000000000001"));
    assert!(at_most("0.1", "0.09999999999999999999999") && !at_most("0.1", "0.10000000000000000000001"));
    assert!(!at_most("9007199254740992", "9007199254740993") && !at_most("9223372036854775807", "9223372036854775808"));
    let is_integer = |number: &str| {
        violation(r#"{"properties":{"n":{"type":"integer"}}}"#, &format!(r#"{{"n":{number}}}"#)).is_none()
    };
    assert!(is_integer("1.0") && is_integer("123456789012345678e0") && is_integer("1e300"));
    assert!(!is_integer("1.00000000000000000001") && !is_integer("9007199254740993.5"));
}

#[test]
fn the_number_of_unevaluated_keywords_is_limited() {
    let nested = |levels: usize| {
        (0..levels).fold("{}".to_owned(), |inner, _| format!(r#"{{"allOf":[{inner}],"unevaluatedProperties":false}}"#))
    };
    assert!(InputSchema::compile(nested(4).as_bytes()).is_ok());
    assert!(matches!(InputSchema::compile(nested(5).as_bytes()), Err(InputSchemaError::Unbounded)));
}

#[test]
fn a_schema_larger_than_any_real_one_is_refused() {
    let schema = |bytes: usize| format!(r#"{{"description":"{}"}}"#, "x".repeat(bytes - r#"{"description":""}"#.len()));
    assert!(InputSchema::compile(schema(1 << 20).as_bytes()).is_ok());
    assert!(matches!(InputSchema::compile(schema((1 << 20) + 1).as_bytes()), Err(InputSchemaError::TooLarge)));
}
