//! Properties of rewriting: the forwarded text parses to the same values, except for those that were replaced.

#![allow(clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use gatelodge_json::{JsonKind, JsonLimits, JsonValue, quote_into, read};
use gatelodge_mcp::{
    ClientMessage, RequestId, RequestRewrite, ServerMessage, ServerResponsePayload, read_client_message,
    read_server_message, to_single_line,
};
use proptest::prelude::*;

/// The values of a text in order, each with its path; numbers as written, strings unescaped.
fn leaves(value: JsonValue<'_>, path: &str, out: &mut Vec<(String, String)>) {
    out.push((path.to_owned(), format!("{:?}", value.kind())));
    match value.kind() {
        JsonKind::Object => {
            for (key, member) in value.members() {
                leaves(member, &format!("{path}/{:?}", key.as_str()), out);
            }
        }
        JsonKind::Array => {
            for (index, element) in value.elements().enumerate() {
                leaves(element, &format!("{path}/{index}"), out);
            }
        }
        JsonKind::String => out.push((path.to_owned(), format!("{:?}", value.as_str()))),
        JsonKind::Number | JsonKind::Bool | JsonKind::Null => out.push((path.to_owned(), value.raw().to_owned())),
    }
}

fn tree(text: &str) -> Vec<(String, String)> {
    let document = read(text.as_bytes(), &JsonLimits::REQUEST).expect(text);
    let mut out = Vec::new();
    leaves(document.root(), "", &mut out);
    out
}

fn json_string() -> impl Strategy<Value = String> {
    any::<String>().prop_map(|text| {
        let mut out = String::new();
        quote_into(&text, &mut out);
        out
    })
}

fn number() -> impl Strategy<Value = String> {
    "-?(0|[1-9][0-9]{0,30})(\\.[0-9]{1,9})?([eE][+-]?[0-9]{1,2})?"
}

fn space() -> impl Strategy<Value = String> {
    "[ \n\r\t]{0,2}"
}

/// Any JSON value with any spacing; a number in each key makes it unique.
fn json() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![json_string(), number(), Just("null".to_owned()), Just("true".to_owned())];
    leaf.prop_recursive(4, 32, 5, |inner| {
        let spaced =
            (space(), inner, space()).prop_map(|(leading, value, trailing)| leading + &value + &trailing).boxed();
        let list = prop::collection::vec(spaced.clone(), 0..5).prop_map(|values| format!("[{}]", values.join(",")));
        let object = prop::collection::vec(("[a-zé.\u{2028}]{0,3}", spaced), 0..5).prop_map(|members| {
            let members = members.iter().enumerate().map(|(n, (key, value))| format!("\"{key}{n}\":{value}"));
            format!("{{{}}}", members.collect::<Vec<_>>().join(","))
        });
        prop_oneof![list, object]
    })
}

fn id() -> impl Strategy<Value = String> {
    prop_oneof![json_string(), "-?[1-9][0-9]{0,40}"]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn a_rewritten_request_differs_only_in_the_replaced_values(
        own in id(), other in id(), token in id(), name in json_string(), renamed in any::<String>(),
        argument in json(), extra in json(), gap in space(),
    ) {
        let name = name.chars().take(200).collect::<String>();
        prop_assume!(RequestId::read(&name).is_some());
        let text = format!(
            "{gap}{{\"vendor 1\":{extra},{gap}\"id\"{gap}:{own},\"params\":{{\"_meta\":{{\"k/1\":{extra},\"progressToken\":\
            {token}{gap}}},\"arguments\":{{\"a\":{argument}}},\"name\":{gap}{name}}},\"jsonrpc\":\"2.0\",\"method\":\"tools/call\"}}{gap}"
        );
        let Ok(ClientMessage::Request(request)) = read_client_message(text.as_bytes(), &JsonLimits::REQUEST) else { panic!("{text}") };
        let id = RequestId::read(&other).expect("an id");
        let rewrite = RequestRewrite { id: &id, target: Some(&renamed), progress_token: Some(&id), trace: None };
        let sent = request.rewrite(&rewrite).expect("written");
        let is_replaced = |path: &str| matches!(
            path, "/Some(\"id\")" | "/Some(\"params\")/Some(\"name\")" | "/Some(\"params\")/Some(\"_meta\")/Some(\"progressToken\")"
        );
        let kept = |text: &str| tree(text).into_iter().filter(|(path, _)| !is_replaced(path)).collect::<Vec<_>>();
        prop_assert_eq!(kept(&text), kept(&sent));
        let Ok(ClientMessage::Request(again)) = read_client_message(sent.as_bytes(), &JsonLimits::REQUEST) else { panic!("{sent}") };
        prop_assert_eq!(again.id(), &id);
        prop_assert_eq!(again.meta().progress_token(), Some(id.clone()));
        if renamed.len() <= 256 {
            prop_assert_eq!(again.tool_call().expect("a call").name, renamed);
        }
        // Rewriting back restores the original text byte for byte.
        let own_token = request.meta().progress_token().expect("a token");
        let back = RequestRewrite { id: request.id(), target: None, progress_token: Some(&own_token), trace: None };
        let there = RequestRewrite { id: &id, target: None, progress_token: Some(&id), trace: None };
        let sent = request.rewrite(&there).expect("written");
        let Ok(ClientMessage::Request(again)) = read_client_message(sent.as_bytes(), &JsonLimits::REQUEST) else { panic!("{sent}") };
        prop_assert_eq!(again.rewrite(&back).expect("written"), text);
    }

    #[test]
    fn a_single_line_has_the_same_values(argument in json(), gap in space()) {
        let text = format!("{gap}{{{gap}\"a\":{argument}{gap}}}{gap}");
        let line = to_single_line(&text);
        let breaks = ['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}'];
        prop_assert!(!line.contains(breaks));
        prop_assert_eq!(tree(&line), tree(&text));
    }

    #[test]
    fn a_response_is_restored_after_its_id_was_changed_twice(own in id(), other in id(), payload in json(), gap in space()) {
        let text = format!("{gap}{{\"jsonrpc\":\"2.0\",\"result\"{gap}:{payload},{gap}\"id\":{own}}}");
        let Ok(ServerMessage::Response(reply)) = read_server_message(text.as_bytes(), &JsonLimits::REPLY) else { panic!("{text}") };
        prop_assert_eq!(reply.payload(), ServerResponsePayload::Result(&payload));
        let sent = reply.with_id(&RequestId::read(&other).expect("an id"));
        let Ok(ServerMessage::Response(again)) = read_server_message(sent.as_bytes(), &JsonLimits::REPLY) else { panic!("{sent}") };
        prop_assert_eq!(again.payload(), ServerResponsePayload::Result(&payload));
        prop_assert_eq!(again.with_id(reply.id().expect("an id")), text);
    }

    #[test]
    fn ids_keep_their_notation_and_equal_themselves(raw in id()) {
        let id = RequestId::read(&raw).expect("an id");
        prop_assert_eq!(id.raw(), &raw);
        prop_assert_eq!(&id.clone().into_owned(), &id);
    }
}
