//! The canonical layout, and what it preserves.

#![allow(clippy::expect_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use gatelodge_json::{JsonDocument, JsonKind, JsonLimits, JsonValue, read_with_comments};
use gatelodge_policy::{DiagnosticCode, DocumentFormat, format};
use insta::assert_snapshot;
use proptest::prelude::*;

fn json(text: &str) -> String {
    format(text.as_bytes(), DocumentFormat::Json).expect("a document").text
}

#[test]
fn rule_blocks_are_expanded_and_their_contents_stay_on_one_line() {
    let text = r#"{"version":"1","description":"what agents may do to the books","default":"deny","hide":["delete_*"],
        "all_tools":{"limits":[{"counter":"calls","window":"minute","max":120,"scope":"grant"}]},
        "categories":{"read":{},"execute":{"action":"approve"},"destructive":"hide"},
        "tools":{"create_charge":{
        "require":[{"conditions":[{"path":"args.currency","op":"in","value":["usd","eur"]}],"on_deny":"Only USD and EUR."}],
        "approve_if":[{"path":"args.amount","op":"gt","value":1.0e4}],
        "limits":[{"counter":"spend","window":"day","max":1000000,"amount":"args.amount"}]},
        "get_charge":{},"delete_charge":{"action":"deny","reason":"Ask the books."}}}"#;
    assert_snapshot!(json(text), @r#"
    {
      "version": "1",
      "description": "what agents may do to the books",
      "default": "deny",
      "hide": ["delete_*"],
      "all_tools": {
        "limits": [{ "counter": "calls", "window": "minute", "max": 120, "scope": "grant" }]
      },
      "categories": {
        "read": {},
        "execute": { "action": "approve" },
        "destructive": "hide"
      },
      "tools": {
        "create_charge": {
          "require": [
            {
              "conditions": [{ "path": "args.currency", "op": "in", "value": ["usd", "eur"] }],
              "on_deny": "Only USD and EUR."
            }
          ],
          "approve_if": [{ "path": "args.amount", "op": "gt", "value": 1.0e4 }],
          "limits": [{ "counter": "spend", "window": "day", "max": 1000000, "amount": "args.amount" }]
        },
        "get_charge": {},
        "delete_charge": { "action": "deny", "reason": "Ask the books." }
      }
    }
    "#);
}

#[test]
fn comments_stay_with_their_value() {
    let text = r#"// The books.
        { "version" : /* the only one */ "1" , // for ever

          // Nothing else.
          "default": "deny", /* really */ "hide": [ // never
            "a" /* the first */, "b"
            // and more
            , "c"], "tools": { /* none yet */ },

          "prompts": {
            "x": {"action": "deny"} // no
            // the end of prompts
          }
        } // the end

        /* signed */"#;
    assert_snapshot!(json(text), @r#"
    // The books.
    {
      /* the only one */
      "version": "1", // for ever

      // Nothing else.
      "default": "deny",
      /* really */
      "hide": [ // never
        "a", /* the first */
        "b",
        // and more
        "c"
      ],
      "tools": {
        /* none yet */
      },

      "prompts": {
        "x": { "action": "deny" } // no
        // the end of prompts
      }
    } // the end

    /* signed */
    "#);
}

#[test]
fn two_comments_at_the_end_of_a_line_stay_separate() {
    assert_snapshot!(json("[1 // a\n, // b\n2]"), @r"
    [
      1, // a
      // b
      2
    ]
    ");
}

#[test]
fn the_spelling_of_scalars_is_kept() {
    assert_eq!(
        json(r#"{"\u0061": [1.50, -0, 1E+2, "\/é\u00e9"]}"#),
        "{\n  \"\\u0061\": [1.50, -0, 1E+2, \"\\/é\\u00e9\"]\n}\n"
    );
}

#[test]
fn yaml_becomes_json_and_the_number_of_lost_comments_is_reported() {
    let text = "# top\nversion: \"1\" # one\ndefault: deny\ntools:\n  \"a # b\": # two\n    reason: 'x # ''y' # three\n    action: deny\n  c#d: {}\ndescription: |\n  # not a comment\n  text # nor this\n# end\n";
    let formatted = format(text.as_bytes(), DocumentFormat::Yaml).expect("a document");
    assert_eq!(formatted.comments_lost, 5);
    assert_snapshot!(formatted.text, @r##"
    {
      "version": "1",
      "default": "deny",
      "tools": {
        "a # b": { "reason": "x # 'y", "action": "deny" },
        "c#d": {}
      },
      "description": "# not a comment\ntext # nor this\n"
    }
    "##);
}

#[test]
fn a_document_that_is_not_a_policy_is_formatted_as_well() {
    assert_eq!(json(r#"{"no_field":1}"#), "{\n  \"no_field\": 1\n}\n");
    assert_eq!(json(" 7 // seven "), "7 // seven\n");
}

#[test]
fn an_unreadable_document_is_not_formatted() {
    let codes = |text: &str, language: DocumentFormat| -> Vec<DiagnosticCode> {
        let diagnostics = format(text.as_bytes(), language).expect_err("a diagnostic");
        diagnostics.iter().map(|diagnostic| diagnostic.code).collect()
    };
    assert_eq!(codes("{", DocumentFormat::Json), [DiagnosticCode::Syntax]);
    assert_eq!(
        codes(r#"{"a": 1, "a": 2, "b": {"c": 1, "c": 1}}"#, DocumentFormat::Json),
        [DiagnosticCode::RepeatedKey; 2]
    );
    assert_eq!(codes("a: 1\na: 2\n", DocumentFormat::Yaml), [DiagnosticCode::RepeatedKey]);
    let deep = format!("{}{}", "[".repeat(65), "]".repeat(65));
    assert_eq!(codes(&deep, DocumentFormat::Yaml), [DiagnosticCode::TooLarge]);
}

/// Writes a value without white space, with keys and scalars as they are spelled.
fn write_compact(value: JsonValue<'_>, out: &mut String) {
    match value.kind() {
        JsonKind::Array => {
            out.push('[');
            value.elements().for_each(|element| write_compact(element, out));
            out.push(']');
        }
        JsonKind::Object => {
            out.push('{');
            for (key, value) in value.members() {
                out.push_str(key.raw());
                write_compact(value, out);
            }
            out.push('}');
        }
        _ => {
            out.push_str(value.raw());
            out.push(' ');
        }
    }
}

fn comments(document: &JsonDocument<'_>) -> Vec<String> {
    let text = |(start, end): &(usize, usize)| document.text()[*start..*end].trim_end().to_owned();
    let mut texts: Vec<String> = document.comments().iter().map(text).collect();
    texts.sort();
    texts
}

/// Text between two tokens. `#` is replaced by a number that makes comments distinct.
const GAPS: [&str; 12] = [
    "",
    "",
    " ",
    "\n",
    "\n\n  \n",
    "\t",
    " // #\n",
    "// # \r\n\n",
    "/* # */",
    "\n  /* # */ ",
    " /* #\n, */\n",
    "\n\n// # {[\"\n",
];

#[derive(Debug, Clone)]
enum Tree {
    Scalar(&'static str),
    List(Vec<Tree>),
    Object(Vec<Tree>),
}

fn trees() -> impl Strategy<Value = Tree> {
    let scalars = prop::sample::select(vec![
        "1",
        "-0.50e1",
        "true",
        "null",
        "\"\"",
        "\"a // b\"",
        "\"/* é */\"",
        "\"\\\",\\u0041\"",
    ]);
    let long = Just(Tree::Scalar("\"a text that is so long that not many of its kind fit on one line of the page\""));
    let leaf = prop_oneof![5 => scalars.prop_map(Tree::Scalar), 1 => long];
    leaf.prop_recursive(6, 60, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Tree::List),
            prop::collection::vec(inner, 0..5).prop_map(Tree::Object),
        ]
    })
}

/// Writes a tree with a gap between tokens.
fn write(tree: &Tree, gap: &mut dyn FnMut() -> String) -> String {
    let mut out = gap();
    match tree {
        Tree::Scalar(text) => out.push_str(text),
        Tree::List(items) | Tree::Object(items) => {
            let is_object = matches!(tree, Tree::Object(_));
            out.push(if is_object { '{' } else { '[' });
            for (at, item) in items.iter().enumerate() {
                out.push_str(if at > 0 { "," } else { "" });
                if is_object {
                    let key = if at == 0 { "all_tools".to_owned() } else { format!("key {at}") };
                    out.push_str(&format!("{}\"{key}\"{}:", gap(), gap()));
                }
                out.push_str(&write(item, gap));
            }
            if items.is_empty() {
                out.push_str(&gap());
            }
            out.push(if is_object { '}' } else { ']' });
        }
    }
    out.push_str(&gap());
    out
}

fn texts() -> impl Strategy<Value = String> {
    let gaps = prop_oneof![Just(vec![" "]), prop::collection::vec(prop::sample::select(GAPS.to_vec()), 1..80)];
    (trees(), gaps).prop_map(|(tree, gaps)| {
        let mut count = 0;
        let mut gap = || {
            count += 1;
            gaps[count % gaps.len()].replace('#', &count.to_string())
        };
        write(&tree, &mut gap)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn formatting_is_idempotent(text in texts()) {
        let once = json(&text);
        prop_assert_eq!(&json(&once), &once);
        prop_assert!(once.ends_with('\n') && !once.ends_with("\n\n") && !once.contains("\n\n\n"));
    }

    #[test]
    fn neither_a_value_nor_a_comment_is_lost_or_changed(text in texts()) {
        let laid_out = json(&text);
        let (before, _) = read_with_comments(text.as_bytes(), &JsonLimits::DOCUMENT).expect("the text");
        let (after, _) = read_with_comments(laid_out.as_bytes(), &JsonLimits::DOCUMENT).expect("the layout");
        let (mut bones_before, mut bones_after) = (String::new(), String::new());
        write_compact(before.root(), &mut bones_before);
        write_compact(after.root(), &mut bones_after);
        prop_assert_eq!(bones_before, bones_after);
        prop_assert_eq!(comments(&before), comments(&after));
    }
}
