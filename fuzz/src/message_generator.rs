//! Generates messages from choices: mostly valid, sometimes wrong in one place.
//!
//! Random bytes are refused at the first byte; almost valid messages reach the code after that.

use crate::choice_reader::ChoiceReader;

const METHODS: &[&str] = &[
    "tools/call",
    "tools/list",
    "resources/read",
    "prompts/get",
    "completion/complete",
    "tasks/get",
    "initialize",
    "server/discover",
    "subscriptions/listen",
    "vendor/x",
    "notifications/cancelled",
    "notifications/progress",
    "notifications/initialized",
    "notifications/message",
    "sampling/createMessage",
    "Tools/Call",
    "tools/call ",
    "tools//call",
];

const KEYS: &[&str] = &[
    "a",
    "b",
    "name",
    "uri",
    "arguments",
    "_meta",
    "cursor",
    "taskId",
    "requestId",
    "progressToken",
    "ref",
    "argument",
    "type",
    "code",
    "message",
    "data",
    "Name",
    "na\\u006de",
    "nаme",
    "name\\u200b",
    "ＮＡＭＥ",
    "meta",
    "task_id",
    "é",
    "io.modelcontextprotocol/protocolVersion",
    "",
    " ",
    "\\ud83d\\ude00",
];

const STRINGS: &[&str] = &[
    "",
    "x",
    "ref/prompt",
    "ref/resource",
    "2026-07-28",
    "\\n",
    "\\u2028",
    "\u{2028}",
    "\u{85}",
    "\\u0000",
    "\\/",
    "é",
    "😀",
    "\\ud83d\\ude00",
    "\\\"",
    "\\\\",
    "{\\\"id\\\":1}",
    "\\ud800",
    "\\udc00",
    "\\x",
    "\u{200b}",
];

const NUMBERS: &[&str] = &[
    "0",
    "1",
    "-0",
    "-1",
    "1.0",
    "1.10",
    "1e2",
    "1E+2",
    "1e-400",
    "0e999",
    "9007199254740993",
    "18446744073709551616",
    "1e308",
    "1e309",
    "01",
    "1.",
    "-",
    "NaN",
    "123456789012345678901234567890",
];

const TOKENS: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"",
    "\\",
    "\n",
    "\r\n",
    " ",
    "null",
    "true",
    "false",
    "\u{feff}",
    "\u{2028}",
    "\0",
    "//",
    "/* */",
    "\"id\":1,",
    "\"method\":\"tools/call\",",
    "\"result\":{},",
    "\"error\":{\"code\":1,\"message\":\"x\"},",
    "\"params\":{},",
    "\"jsonrpc\":\"2.0\",",
    "1e999",
    "\\ud800",
    "\\u0000",
    "\"ID\":2,",
    "\"Params\":{},",
];

/// Generates a text: a new message or a seed, possibly with a few mutations.
pub fn generate_text(tape: &mut ChoiceReader<'_>, seeds: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = match (tape.is_one_in(3), seeds.len()) {
        (true, 1..) => seeds.get(tape.number_below(seeds.len())).cloned().unwrap_or_default(),
        _ => generate_message(tape).into_bytes(),
    };
    while tape.is_one_in(3) && bytes.len() < 10_000 {
        mutate(tape, &mut bytes);
    }
    bytes
}

fn generate_message(tape: &mut ChoiceReader<'_>) -> String {
    let mut members = vec!["\"jsonrpc\":\"2.0\"".to_owned()];
    if !tape.is_one_in(5) {
        members.push(format!("\"id\":{}", generate_id(tape)));
    }
    match tape.number_below(8) {
        0 => members.push(format!("\"result\":{}", generate_object(tape, 3))),
        1 => {
            members.push(format!("\"error\":{{\"code\":{},\"message\":{}}}", generate_id(tape), generate_string(tape)))
        }
        _ => {
            members.push(format!("\"method\":\"{}\"", tape.pick(METHODS)));
            members.push(format!("\"params\":{}", generate_params(tape)));
        }
    }
    if tape.is_one_in(4) {
        members.push(format!("\"{}\":{}", tape.pick(KEYS), generate_value(tape, 2)));
    }
    if tape.is_one_in(10) {
        members.push(members.get(tape.number_below(members.len())).cloned().unwrap_or_default());
    }
    let turn = tape.number_below(members.len());
    members.rotate_left(turn);
    join_members(tape, "{", &members, "}")
}

fn generate_params(tape: &mut ChoiceReader<'_>) -> String {
    if tape.is_one_in(10) {
        return generate_value(tape, 3);
    }
    let mut members = Vec::new();
    for key in ["name", "uri", "taskId", "requestId", "progressToken", "cursor"] {
        if tape.is_one_in(3) {
            members.push(format!("\"{key}\":{}", generate_id(tape)));
        }
    }
    if tape.is_one_in(2) {
        members.push(format!(
            "\"arguments\":{}",
            if tape.is_one_in(6) { generate_value(tape, 2) } else { generate_object(tape, 4) }
        ));
    }
    if tape.is_one_in(3) {
        members.push(format!(
            "\"_meta\":{{\"progressToken\":{},\"k\":{}}}",
            generate_id(tape),
            generate_value(tape, 2)
        ));
    }
    if tape.is_one_in(6) {
        let reference = format!("{{\"type\":{},\"name\":{}}}", generate_string(tape), generate_string(tape));
        members.push(format!("\"ref\":{reference},\"argument\":{{}}"));
    }
    if tape.is_one_in(6) {
        members.push(format!("\"{}\":{}", tape.pick(KEYS), generate_value(tape, 2)));
    }
    join_members(tape, "{", &members, "}")
}

fn generate_id(tape: &mut ChoiceReader<'_>) -> String {
    if tape.is_one_in(8) {
        return generate_value(tape, 1);
    }
    match tape.number_below(3) {
        0 => tape.next_byte().to_string(),
        1 => format!("\"c-{}\"", tape.next_byte()),
        _ => "\"\\u0063\"".to_owned(),
    }
}

fn generate_value(tape: &mut ChoiceReader<'_>, depth: usize) -> String {
    match tape.number_below(if depth == 0 { 5 } else { 7 }) {
        0 => generate_string(tape),
        1 => (*tape.pick(NUMBERS)).to_owned(),
        2 => "null".to_owned(),
        3 => "true".to_owned(),
        4 => "false".to_owned(),
        5 => generate_object(tape, depth - 1),
        _ => {
            let count = tape.number_below(4);
            let elements: Vec<_> = (0..count).map(|_| generate_value(tape, depth - 1)).collect();
            join_members(tape, "[", &elements, "]")
        }
    }
}

fn generate_object(tape: &mut ChoiceReader<'_>, depth: usize) -> String {
    let count = tape.number_below(5);
    // Numbered keys keep most objects free of duplicates.
    let mut members = Vec::new();
    for number in 0..count {
        let number = if tape.is_one_in(30) { String::new() } else { number.to_string() };
        members.push(format!("\"{}{number}\":{}", tape.pick(KEYS), generate_value(tape, depth)));
    }
    join_members(tape, "{", &members, "}")
}

fn generate_string(tape: &mut ChoiceReader<'_>) -> String {
    // The last few strings are invalid and should be rare.
    let sound = STRINGS.len() - 4;
    let choices = if tape.is_one_in(30) { STRINGS } else { STRINGS.get(..sound).unwrap_or(STRINGS) };
    format!("\"{}{}\"", tape.pick(choices), tape.pick(choices))
}

fn join_members(tape: &mut ChoiceReader<'_>, open: &str, parts: &[String], close: &str) -> String {
    let gap = if tape.is_one_in(4) { tape.pick(&[" ", "\n", "\r\n", "\t"]) } else { "" };
    format!("{open}{gap}{}{gap}{close}", parts.join(&format!("{gap},{gap}")))
}

/// Changes a text in one place: a byte, a token, or a range that is removed, duplicated or moved.
pub fn mutate(tape: &mut ChoiceReader<'_>, bytes: &mut Vec<u8>) {
    let at = tape.number_below(bytes.len() + 1);
    let to = (at + tape.number_below(16)).min(bytes.len());
    match tape.number_below(6) {
        0 => drop(bytes.drain(at..to)),
        1 => drop(bytes.splice(at..at, tape.pick(TOKENS).bytes())),
        2 => drop(bytes.splice(at..to, tape.pick(TOKENS).bytes())),
        3 => {
            let byte = tape.next_byte();
            drop(bytes.splice(at..(at + 1).min(to), [byte]));
        }
        4 => {
            let piece: Vec<u8> = bytes.get(at..to).unwrap_or_default().to_vec();
            let other = tape.number_below(bytes.len() + 1);
            drop(bytes.splice(other..other, piece));
        }
        _ => bytes.truncate(at),
    }
}
