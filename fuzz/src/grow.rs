//! Messages grown from a tape of choices: mostly sound, sometimes wrong in one place.
//!
//! Random bytes are refused at the first of them; what is almost right reaches the code behind.

use crate::tape::Tape;

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

/// Grows one text: a message of its own or one of the seeds, then a few changes by hand, or none.
pub fn text(tape: &mut Tape<'_>, seeds: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = match (tape.one_in(3), seeds.len()) {
        (true, 1..) => seeds.get(tape.below(seeds.len())).cloned().unwrap_or_default(),
        _ => message(tape).into_bytes(),
    };
    while tape.one_in(3) && bytes.len() < 10_000 {
        change(tape, &mut bytes);
    }
    bytes
}

fn message(tape: &mut Tape<'_>) -> String {
    let mut members = vec!["\"jsonrpc\":\"2.0\"".to_owned()];
    if !tape.one_in(5) {
        members.push(format!("\"id\":{}", id(tape)));
    }
    match tape.below(8) {
        0 => members.push(format!("\"result\":{}", object(tape, 3))),
        1 => members.push(format!("\"error\":{{\"code\":{},\"message\":{}}}", id(tape), string(tape))),
        _ => {
            members.push(format!("\"method\":\"{}\"", tape.pick(METHODS)));
            members.push(format!("\"params\":{}", params(tape)));
        }
    }
    if tape.one_in(4) {
        members.push(format!("\"{}\":{}", tape.pick(KEYS), value(tape, 2)));
    }
    if tape.one_in(10) {
        members.push(members.get(tape.below(members.len())).cloned().unwrap_or_default());
    }
    let turn = tape.below(members.len());
    members.rotate_left(turn);
    join(tape, "{", &members, "}")
}

fn params(tape: &mut Tape<'_>) -> String {
    if tape.one_in(10) {
        return value(tape, 3);
    }
    let mut members = Vec::new();
    for key in ["name", "uri", "taskId", "requestId", "progressToken", "cursor"] {
        if tape.one_in(3) {
            members.push(format!("\"{key}\":{}", id(tape)));
        }
    }
    if tape.one_in(2) {
        members.push(format!("\"arguments\":{}", if tape.one_in(6) { value(tape, 2) } else { object(tape, 4) }));
    }
    if tape.one_in(3) {
        members.push(format!("\"_meta\":{{\"progressToken\":{},\"k\":{}}}", id(tape), value(tape, 2)));
    }
    if tape.one_in(6) {
        let reference = format!("{{\"type\":{},\"name\":{}}}", string(tape), string(tape));
        members.push(format!("\"ref\":{reference},\"argument\":{{}}"));
    }
    if tape.one_in(6) {
        members.push(format!("\"{}\":{}", tape.pick(KEYS), value(tape, 2)));
    }
    join(tape, "{", &members, "}")
}

fn id(tape: &mut Tape<'_>) -> String {
    if tape.one_in(8) {
        return value(tape, 1);
    }
    match tape.below(3) {
        0 => tape.byte().to_string(),
        1 => format!("\"c-{}\"", tape.byte()),
        _ => "\"\\u0063\"".to_owned(),
    }
}

fn value(tape: &mut Tape<'_>, depth: usize) -> String {
    match tape.below(if depth == 0 { 5 } else { 7 }) {
        0 => string(tape),
        1 => (*tape.pick(NUMBERS)).to_owned(),
        2 => "null".to_owned(),
        3 => "true".to_owned(),
        4 => "false".to_owned(),
        5 => object(tape, depth - 1),
        _ => {
            let count = tape.below(4);
            let elements: Vec<_> = (0..count).map(|_| value(tape, depth - 1)).collect();
            join(tape, "[", &elements, "]")
        }
    }
}

fn object(tape: &mut Tape<'_>, depth: usize) -> String {
    let count = tape.below(5);
    // Numbered keys keep most objects free of repeats.
    let mut members = Vec::new();
    for number in 0..count {
        let number = if tape.one_in(30) { String::new() } else { number.to_string() };
        members.push(format!("\"{}{number}\":{}", tape.pick(KEYS), value(tape, depth)));
    }
    join(tape, "{", &members, "}")
}

fn string(tape: &mut Tape<'_>) -> String {
    // The last few of the list are faults and should be rare.
    let sound = STRINGS.len() - 4;
    let choices = if tape.one_in(30) { STRINGS } else { STRINGS.get(..sound).unwrap_or(STRINGS) };
    format!("\"{}{}\"", tape.pick(choices), tape.pick(choices))
}

fn join(tape: &mut Tape<'_>, open: &str, parts: &[String], close: &str) -> String {
    let gap = if tape.one_in(4) { tape.pick(&[" ", "\n", "\r\n", "\t"]) } else { "" };
    format!("{open}{gap}{}{gap}{close}", parts.join(&format!("{gap},{gap}")))
}

/// Changes a text in one place: a byte, a token, a piece taken out, doubled or moved.
pub fn change(tape: &mut Tape<'_>, bytes: &mut Vec<u8>) {
    let at = tape.below(bytes.len() + 1);
    let to = (at + tape.below(16)).min(bytes.len());
    match tape.below(6) {
        0 => drop(bytes.drain(at..to)),
        1 => drop(bytes.splice(at..at, tape.pick(TOKENS).bytes())),
        2 => drop(bytes.splice(at..to, tape.pick(TOKENS).bytes())),
        3 => {
            let byte = tape.byte();
            drop(bytes.splice(at..(at + 1).min(to), [byte]));
        }
        4 => {
            let piece: Vec<u8> = bytes.get(at..to).unwrap_or_default().to_vec();
            let other = tape.below(bytes.len() + 1);
            drop(bytes.splice(other..other, piece));
        }
        _ => bytes.truncate(at),
    }
}
