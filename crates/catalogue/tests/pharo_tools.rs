//! Classification of the Pharo server: five tools as on their catalogue pages, and the server as a whole.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

mod support;

use gatelodge_catalogue::{Classification, RiskLevel, ServerContext, ToolSpec, classify};
use gatelodge_policy::{Category, DocumentFormat, parse};
use serde_json::json;

/// Tool names of the catalogued server. The pages have no descriptions.
const NAMES: [&str; 23] = [
    "eval",
    "eval_code",
    "run_package_test",
    "run_class_test",
    "install_project",
    "import_package",
    "export_package",
    "apply_settings",
    "get_class_source",
    "get_method_source",
    "get_class_comment",
    "search_classes_like",
    "search_methods_like",
    "search_implementors",
    "search_references",
    "search_references_to_class",
    "search_traits_like",
    "list_packages",
    "list_classes",
    "list_extended_classes",
    "list_methods",
    "read_screen",
    "get_settings",
];

fn classified(name: &str) -> Classification {
    classify(&ToolSpec::from_name(name), &ServerContext::new("Pharo Smalltalk Interop", None, NAMES))
}

/// Checks category, level and recommended rule of a tool page.
fn assert_matches_page(name: &str, category: Category, level: RiskLevel, max: u32) {
    let found = classified(name);
    assert_eq!((found.category, found.level), (category, level), "{found:?}");
    let limit = json!({"counter": format!("{name}_rate"), "window": "minute", "max": max, "scope": "grant"});
    let page = json!({"version": "1", "default": "deny", "tools": {name: {"limits": [limit]}}});
    assert_eq!(found.recommended, page);
    assert!(parse(page.to_string().as_bytes(), DocumentFormat::Json).is_ok());
    assert!(!found.attacks.is_empty() && !found.owasp.is_empty(), "{found:?}");
    assert!(found.rationale.contains("no description"), "{}", found.rationale);
}

#[test]
fn import_package_is_write_and_is_limited_to_30_calls_a_minute() {
    assert_matches_page("import_package", Category::Write, RiskLevel::Medium, 30);
    assert!(classified("import_package").evidence.iter().any(|fact| fact.contains("`export_package`")));
}

#[test]
fn export_package_is_write_and_is_limited_to_30_calls_a_minute() {
    assert_matches_page("export_package", Category::Write, RiskLevel::Medium, 30);
}

#[test]
fn run_package_test_is_execute_and_is_limited_to_10_calls_a_minute() {
    assert_matches_page("run_package_test", Category::Execute, RiskLevel::High, 10);
    assert!(classified("run_package_test").rationale.contains("`eval`"));
}

#[test]
fn run_class_test_is_execute_and_is_limited_to_10_calls_a_minute() {
    assert_matches_page("run_class_test", Category::Execute, RiskLevel::High, 10);
}

#[test]
fn eval_is_execute_and_its_sibling_confirms_it() {
    assert_matches_page("eval", Category::Execute, RiskLevel::High, 10);
    assert!(classified("eval").evidence.iter().any(|fact| fact.contains("`eval_code`")));
}

#[test]
fn the_catalogued_pharo_server_has_15_read_3_write_5_execute() {
    assert_eq!(counts(NAMES.map(|name| classified(name).category).to_vec()), (15, 3, 5));
}

#[test]
fn the_live_pharo_server_has_15_read_3_write_4_execute_with_reasons() {
    let all = support::classify_list("pharo", include_str!("pharo.json"));
    let reported: Vec<String> = all.iter().map(|(name, found)| format!("{name}: {:?}", found.category)).collect();
    assert_eq!(counts(all.iter().map(|(_, found)| found.category).collect()), (15, 3, 4), "{reported:#?}");
    for (name, found) in all {
        assert!(!found.evidence.is_empty() && found.rationale.contains("Not "), "{name}: {found:?}");
    }
}

#[test]
fn the_live_pharo_server_is_classified_the_same_without_annotations() {
    let list = include_str!("pharo.json").replace("\"annotations\"", "\"unknown\"");
    let all = support::classify_list("pharo", &list);
    assert_eq!(counts(all.iter().map(|(_, found)| found.category).collect()), (15, 3, 4));
}

fn counts(categories: Vec<Category>) -> (usize, usize, usize) {
    let count = |wanted| categories.iter().filter(|category| **category == wanted).count();
    let known = (count(Category::Read), count(Category::Write), count(Category::Execute));
    if known.0 + known.1 + known.2 == categories.len() { known } else { (0, 0, 0) }
}
