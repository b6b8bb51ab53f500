//! Parses registry pages in HTML, the original page format of package registries. Such a page is a list of links.

use std::collections::HashMap;

use super::PypiFile;

/// A link with its attributes and its text.
#[derive(Debug)]
pub struct HtmlLink {
    attributes: HashMap<String, String>,
    /// The link text.
    pub text: String,
}

/// Returns the links on a page.
pub fn links(page: &str) -> impl Iterator<Item = HtmlLink> {
    let mut rest = page;
    std::iter::from_fn(move || {
        let start = rest.find("<a ")?;
        rest = rest.get(start + 3..)?;
        let end = rest.find("</a>").unwrap_or(rest.len());
        let inside = rest.get(..end)?;
        rest = rest.get(end..)?;
        let (attributes, text) = parse_attributes(inside);
        Some(HtmlLink { attributes, text: decode_entities(text.trim()) })
    })
}

/// Parses the attributes of a tag. Returns them and the text after the tag.
fn parse_attributes(mut rest: &str) -> (HashMap<String, String>, &str) {
    let mut found = HashMap::new();
    loop {
        rest = rest.trim_start();
        if let Some(after) = rest.strip_prefix('>') {
            return (found, after);
        }
        let Some(end) = rest.find(['=', '>', ' ', '\n']) else { return (found, "") };
        let (name, after) = rest.split_at(end);
        let Some(value) = after.strip_prefix('=') else {
            found.insert(name.to_ascii_lowercase(), String::new());
            rest = if name.is_empty() { after.get(1..).unwrap_or_default() } else { after };
            continue;
        };
        let quote = value.chars().next().filter(|quote| matches!(quote, '"' | '\''));
        let value = if quote.is_some() { value.get(1..).unwrap_or_default() } else { value };
        let end = match quote {
            Some(quote) => value.find(quote),
            None => value.find([' ', '>']),
        };
        let Some(end) = end else { return (found, "") };
        let (value, after) = value.split_at(end);
        found.insert(name.to_ascii_lowercase(), decode_entities(value));
        rest = if quote.is_some() { after.get(1..).unwrap_or_default() } else { after };
    }
}

fn decode_entities(text: &str) -> String {
    if !text.contains('&') {
        return text.to_owned();
    }
    let marks = [("&gt;", ">"), ("&lt;", "<"), ("&quot;", "\""), ("&#x27;", "'"), ("&#39;", "'"), ("&amp;", "&")];
    marks.iter().fold(text.to_owned(), |text, (mark, letter)| text.replace(mark, letter))
}

impl HtmlLink {
    /// Converts a link on a package's page to a release file.
    pub fn into_pypi_file(mut self) -> PypiFile {
        let address = self.attributes.remove("href").unwrap_or_default();
        let (url, fragment) = match address.split_once('#') {
            Some((url, fragment)) => (url.to_owned(), fragment.to_owned()),
            None => (address, String::new()),
        };
        let hashes = fragment.split_once('=').map(|(name, hash)| (name.to_owned(), hash.to_owned()));
        let yanked = self.attributes.contains_key("data-yanked");
        PypiFile {
            filename: self.text,
            url,
            hashes: hashes.into_iter().collect(),
            upload_time: self.attributes.remove("data-upload-time"),
            yanked: yanked.into(),
        }
    }
}
