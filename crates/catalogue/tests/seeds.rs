//! The five seed tools come out as on their pages, and the Pharo server as a whole, each with its reason.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

mod support;

use gatelodge_catalogue::{Classification, RiskLevel, ServerContext, ToolSpec, classify};
use gatelodge_policy::{Category, DocumentFormat, parse};
use serde_json::json;

/// The names of the catalogued server. The pages know no descriptions.
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

fn seed(name: &str) -> Classification {
    classify(&ToolSpec::from_name(name), &ServerContext::new("Pharo Smalltalk Interop", None, NAMES))
}

/// Category, level, rule and number of a seed page.
fn is_as_on_its_page(name: &str, category: Category, level: RiskLevel, max: u32) {
    let found = seed(name);
    assert_eq!((found.category, found.level), (category, level), "{found:?}");
    let limit = json!({"counter": format!("{name}_rate"), "window": "minute", "max": max, "scope": "grant"});
    let page = json!({"version": "1", "default": "deny", "tools": {name: {"limits": [limit]}}});
    assert_eq!(found.recommended, page);
    assert!(parse(page.to_string().as_bytes(), DocumentFormat::Json).is_ok());
    assert!(!found.attacks.is_empty() && !found.owasp.is_empty(), "{found:?}");
    assert!(found.rationale.contains("no description"), "{}", found.rationale);
}

#[test]
fn import_package_is_write_and_may_be_called_30_times_a_minute() {
    is_as_on_its_page("import_package", Category::Write, RiskLevel::Medium, 30);
    assert!(seed("import_package").evidence.iter().any(|fact| fact.contains("`export_package`")));
}

#[test]
fn export_package_is_write_and_may_be_called_30_times_a_minute() {
    is_as_on_its_page("export_package", Category::Write, RiskLevel::Medium, 30);
}

#[test]
fn run_package_test_is_execute_and_may_be_called_10_times_a_minute() {
    is_as_on_its_page("run_package_test", Category::Execute, RiskLevel::High, 10);
    assert!(seed("run_package_test").rationale.contains("`eval`"));
}

#[test]
fn run_class_test_is_execute_and_may_be_called_10_times_a_minute() {
    is_as_on_its_page("run_class_test", Category::Execute, RiskLevel::High, 10);
}

#[test]
fn eval_is_execute_and_its_sibling_confirms_it() {
    is_as_on_its_page("eval", Category::Execute, RiskLevel::High, 10);
    assert!(seed("eval").evidence.iter().any(|fact| fact.contains("`eval_code`")));
}

#[test]
fn the_catalogued_pharo_server_has_15_read_3_write_5_execute() {
    assert_eq!(counts(NAMES.map(|name| seed(name).category).to_vec()), (15, 3, 5));
}

#[test]
fn the_live_pharo_server_has_15_read_3_write_4_execute_each_with_its_reason() {
    let all = support::all("pharo", include_str!("pharo.json"));
    let reported: Vec<String> = all.iter().map(|(name, found)| format!("{name}: {:?}", found.category)).collect();
    assert_eq!(counts(all.iter().map(|(_, found)| found.category).collect()), (15, 3, 4), "{reported:#?}");
    for (name, found) in all {
        assert!(!found.evidence.is_empty() && found.rationale.contains("Not "), "{name}: {found:?}");
    }
}

#[test]
fn the_live_pharo_server_is_the_same_without_its_own_claims() {
    let list = include_str!("pharo.json").replace("\"annotations\"", "\"unknown\"");
    let all = support::all("pharo", &list);
    assert_eq!(counts(all.iter().map(|(_, found)| found.category).collect()), (15, 3, 4));
}

fn counts(categories: Vec<Category>) -> (usize, usize, usize) {
    let count = |wanted| categories.iter().filter(|category| **category == wanted).count();
    let known = (count(Category::Read), count(Category::Write), count(Category::Execute));
    if known.0 + known.1 + known.2 == categories.len() { known } else { (0, 0, 0) }
}
