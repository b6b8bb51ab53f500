//! Generates policy documents from choices: mostly valid, sometimes wrong in one place.

use gatelodge_policy::Operator;

use crate::choice_reader::ChoiceReader;

const NAMES: &[&str] = &["read_file", "pay", "x", "read_*", "*", "pa*", "note://*", "file:///a/../b", "greet", "é*"];
const PATHS: &[&str] = &[
    "args",
    "args.a",
    "args.b.c",
    "args.b.c[*]",
    "args.b.c[3].d",
    "args.list[*]",
    "args.url",
    "args.path",
    "args.amount",
    "args[\\\"a\\\"]",
    "tool.name",
    "tool.category",
    "server.name",
    "grant.label",
    "grant.labels.team",
    "client.name",
    "time.hour",
    "time.weekday",
    "time.date",
    "args.",
    "tool",
    "argz.a",
    "args[01]",
];
/// Values for operators. The first is valid; most of the others are not.
const OPERATOR_VALUES: &[(&str, &[&str])] = &[
    ("eq", &["1", "\"x\"", "true", "null"]),
    ("neq", &["1", "\"x\"", "[]"]),
    ("in", &["[1,\"x\"]", "[true]", "[]"]),
    ("not_in", &["[1]", "[\"c\"]"]),
    ("lt", &["10", "1e308", "\"1\""]),
    ("lte", &["0.1"]),
    ("gt", &["-0", "9007199254740993"]),
    ("gte", &["1.10"]),
    ("contains", &["\"x\"", "1"]),
    ("starts_with", &["\"h\""]),
    ("ends_with", &["\"x\""]),
    ("regex", &["\"^[a-z]+$\"", "\"(\"", "\"a{1000}{1000}\"", "\"\\\\d\""]),
    ("exists", &["true", "false", "1"]),
    ("length_lte", &["3", "0", "-1", "1e40", "1.5"]),
    ("subset_of", &["[1,\"x\"]"]),
    ("path_within", &["\"/srv\"", "\"/\"", "\"srv\""]),
    ("host_in", &["[\"example.com:8443\"]", "[\"*.example.com\"]", "[\"127.1\"]"]),
];
/// Values for operators that have none of their own.
const ANY_VALUES: &[&str] = &["1", "\"x\"", "[\"x\"]", "true"];
/// A word that is not an operator.
const UNKNOWN_OPERATOR: &str = "is";
const WINDOWS: &[&str] = &["\"minute\"", "\"day\"", "\"week\"", "\"month\"", "60", "\"15m\"", "0", "\"015m\""];
const RATES: &[&str] = &["\"10/minute\"", "{\"max\":10,\"window\":60}", "\"010/minute\"", "{\"max\":0,\"window\":1}"];
const ACTIONS: &[&str] = &["\"allow\"", "\"deny\"", "\"approve\"", "\"hide\""];

/// Generates one JSON document.
pub fn generate_document(tape: &mut ChoiceReader<'_>) -> String {
    let mut members =
        vec!["\"version\":\"1\"".to_owned(), format!("\"default\":\"{}\"", tape.pick(&["deny", "allow"]))];
    if tape.is_one_in(3) {
        members.push(format!("\"hide\":[\"{}\"]", tape.pick(NAMES)));
    }
    if tape.is_one_in(3) {
        members.push(format!("\"all_tools\":{}", generate_block(tape)));
    }
    if tape.is_one_in(3) {
        let rule = if tape.is_one_in(2) { tape.pick(ACTIONS).to_owned() } else { generate_block(tape) };
        members.push(format!("\"categories\":{{\"{}\":{rule}}}", tape.pick(&["read", "financial", "unknown", "reed"])));
    }
    for table in ["tools", "resources", "prompts"] {
        if tape.is_one_in(2) {
            members.push(format!("\"{table}\":{}", generate_blocks(tape)));
        }
    }
    if tape.is_one_in(4) {
        let (method, rule) = (tape.pick(&["vendor/x", "vendor/*", "tools/call", "*"]), tape.pick(&["allow", "deny"]));
        members.push(format!("\"methods\":{{\"{method}\":\"{rule}\"}}"));
    }
    if tape.is_one_in(6) {
        members.push(format!("\"time_zone\":\"{}\"", tape.pick(&["Europe/Berlin", "UTC", "europe/berlin"])));
    }
    if tape.is_one_in(30) {
        members.push(members.get(tape.number_below(members.len())).cloned().unwrap_or_default());
    }
    let gap = tape.pick(&["", "\n", " // words\n", " /* words */ "]);
    format!("{{{}}}", members.join(&format!(",{gap}")))
}

fn generate_blocks(tape: &mut ChoiceReader<'_>) -> String {
    let count = tape.number_below(3);
    let entries: Vec<_> = (0..count).map(|_| format!("\"{}\":{}", tape.pick(NAMES), generate_block(tape))).collect();
    format!("{{{}}}", entries.join(","))
}

fn generate_block(tape: &mut ChoiceReader<'_>) -> String {
    let mut members = Vec::new();
    for field in ["require", "deny_if", "approve_if"] {
        if tape.is_one_in(3) {
            members.push(format!("\"{field}\":[{}]", generate_predicate(tape)));
        }
    }
    if tape.is_one_in(4) {
        members.push(format!("\"action\":{}", tape.pick(ACTIONS.get(..3).unwrap_or(ACTIONS))));
    }
    if tape.is_one_in(4) {
        members.push(format!("\"limits\":[{}]", generate_limit(tape)));
    }
    if tape.is_one_in(8) {
        members.push(format!("\"rate_limit\":{}", tape.pick(RATES)));
    }
    if tape.is_one_in(20) {
        members.push("\"validate_arguments\":true".to_owned());
    }
    format!("{{{}}}", members.join(","))
}

fn generate_predicate(tape: &mut ChoiceReader<'_>) -> String {
    if tape.is_one_in(3) {
        return generate_condition(tape);
    }
    let count = tape.number_below(3);
    let conditions: Vec<_> = (0..count).map(|_| generate_condition(tape)).collect();
    format!("{{\"conditions\":[{}],\"on_deny\":\"no\"}}", conditions.join(","))
}

fn generate_condition(tape: &mut ChoiceReader<'_>) -> String {
    // The last elements of each list are invalid and should be rare.
    let sound = PATHS.len() - 4;
    let path = if tape.is_one_in(40) { tape.pick(PATHS) } else { tape.pick(PATHS.get(..sound).unwrap_or(PATHS)) };
    let operator = Operator::WORDS.get(tape.number_below(Operator::WORDS.len() + 1)).unwrap_or(&UNKNOWN_OPERATOR);
    let values = OPERATOR_VALUES.iter().find(|(word, _)| word == operator).map_or(ANY_VALUES, |(_, values)| values);
    let value = if tape.is_one_in(10) { tape.pick(values) } else { values.first().unwrap_or(&"1") };
    format!("{{\"path\":\"{path}\",\"op\":\"{operator}\",\"value\":{value}}}")
}

fn generate_limit(tape: &mut ChoiceReader<'_>) -> String {
    let sound = WINDOWS.len() - 2;
    let window =
        if tape.is_one_in(20) { tape.pick(WINDOWS) } else { tape.pick(WINDOWS.get(..sound).unwrap_or(WINDOWS)) };
    let counter = tape.pick(&["a", "b", "c", "d", "pay_rate", "e"]);
    let amount = if tape.is_one_in(4) { ",\"amount\":\"args.amount\"" } else { "" };
    let scope = tape.pick(&["grant", "session", "server"]);
    format!(
        "{{\"counter\":\"{counter}\",\"window\":{window},\"max\":{},\"scope\":\"{scope}\"{amount}}}",
        1 + tape.number_below(9)
    )
}
