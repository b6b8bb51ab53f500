//! Encodes arguments for the image: as a query string or as a JSON body.

use std::fmt::Write;

use gatelodge_json::quote_into;

use crate::arguments::PharoArgument;

/// Returns the path and query of a GET request.
pub(crate) fn request_target(endpoint: &str, arguments: &[(&str, PharoArgument)]) -> String {
    let mut out = endpoint.to_owned();
    for (at, (name, argument)) in arguments.iter().enumerate() {
        out.push(if at == 0 { '?' } else { '&' });
        out.push_str(name);
        out.push('=');
        match argument {
            PharoArgument::Text(text) | PharoArgument::Object(text) => push_encoded(text, &mut out),
            PharoArgument::Flag(flag) => out.push_str(if *flag { "true" } else { "false" }),
        }
    }
    out
}

/// Returns the body of a POST request.
pub(crate) fn json_body(arguments: &[(&str, PharoArgument)]) -> String {
    let mut out = String::from("{");
    for (at, (name, argument)) in arguments.iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        quote_into(name, &mut out);
        out.push(':');
        match argument {
            PharoArgument::Text(text) => quote_into(text, &mut out),
            PharoArgument::Flag(flag) => out.push_str(if *flag { "true" } else { "false" }),
            PharoArgument::Object(raw) => out.push_str(raw),
        }
    }
    out.push('}');
    out
}

/// Percent-encodes everything but letters, digits and `-._~`, so that a value cannot become a second parameter or
/// another path.
fn push_encoded(text: &str, out: &mut String) {
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(char::from(byte)),
            b' ' => out.push('+'),
            other => {
                let _ = write!(out, "%{other:02X}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_text_stays_one_value() {
        let text = |text: &str| PharoArgument::Text(text.to_owned());
        let arguments = [("a", text("x&b=1#/../?%2e é\r\n")), ("c", PharoArgument::Flag(true))];
        assert_eq!(request_target("/p", &arguments), "/p?a=x%26b%3D1%23%2F..%2F%3F%252e+%C3%A9%0D%0A&c=true");
        assert_eq!(request_target("/p", &[]), "/p");
        assert_eq!(json_body(&[("code", text("a\"b\\\n"))]), r#"{"code":"a\"b\\\n"}"#);
    }
}
