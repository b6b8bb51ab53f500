use super::*;

fn names(schema: &Value, pointer: &str) -> Vec<String> {
    let properties = schema.pointer(pointer).and_then(Value::as_object).expect("properties");
    properties.keys().cloned().collect()
}

#[test]
fn every_field_of_the_parser_is_a_property_and_no_other() {
    let schema = policy_json_schema();
    let all: Vec<&str> = POLICY_FIELDS.iter().copied().chain([TIME_ZONE_FIELD]).collect();
    assert_eq!(names(&schema, "/properties"), all);
    assert_eq!(names(&schema, "/$defs/block/properties"), BLOCK_FIELDS);
    assert_eq!(names(&schema, "/$defs/limit/properties"), LIMIT_FIELDS);
    assert_eq!(names(&schema, "/$defs/rate/properties"), RATE_LIMIT_FIELDS);
    assert_eq!(names(&schema, "/$defs/predicate/properties"), PREDICATE_FIELDS);
    assert_eq!(names(&schema, "/$defs/condition/properties"), CONDITION_FIELDS);
    assert_eq!(names(&schema, "/properties/categories/properties"), Category::WORDS);
    assert_eq!(names(&schema, "/properties/client_requests/properties"), ClientRequestKind::WORDS);
}

#[test]
fn every_field_has_help_and_a_type() {
    let schema = policy_json_schema();
    for pointer in [
        "/properties",
        "/$defs/block/properties",
        "/$defs/limit/properties",
        "/$defs/rate/properties",
        "/$defs/predicate/properties",
        "/$defs/bare_condition/properties",
    ] {
        for (name, property) in schema.pointer(pointer).and_then(Value::as_object).expect("properties") {
            let property = property.as_object().expect("a schema");
            assert!(property.contains_key("title") && property.contains_key("description"), "{pointer} {name}");
            // The type of `value` is given per operator.
            assert!(property.len() > 2 || name == "value", "{pointer} {name} takes anything");
        }
    }
}

#[test]
fn every_word_has_help() {
    let schema = policy_json_schema();
    let mut open = vec![&schema];
    while let Some(value) = open.pop() {
        if let Some(texts) = value.get("enumDescriptions").and_then(Value::as_array) {
            assert!(texts.iter().all(|text| text != ""), "{value}");
            assert_eq!(texts.len(), value["enum"].as_array().map_or(0, Vec::len));
        }
        match value {
            Value::Array(items) => open.extend(items),
            Value::Object(members) => open.extend(members.values()),
            _ => {}
        }
    }
    assert!(Category::WORDS.iter().all(|word| !schema_field_help::category_help(word).is_empty()));
}
