//! The lists of all servers.

use std::collections::BTreeMap;

use super::doc::{Block, Doc, Inline, Line, link, marked, text};
use super::server::name;
use super::{Site, counted, grouped, place};
use crate::classify::RiskLevel;
use crate::package_index::IndexedServer;
use crate::server_grade::grade_server;

/// More servers on one page are more than a browser likes, or a person.
const MOST_ON_PAGE: usize = 500;
/// Words that nearly every name begins with.
const COMMON: [&str; 2] = ["mcp", "server"];

/// The pages of all servers, by the first letters of their names.
pub(super) fn pages(site: &Site<'_>) -> Vec<Doc> {
    let mut by_letter: BTreeMap<char, Vec<(String, &IndexedServer<'_>)>> = BTreeMap::new();
    for server in &site.servers {
        let own = telling(server.package());
        let first = own.chars().next().filter(char::is_ascii_alphabetic).unwrap_or(OTHER);
        by_letter.entry(first).or_default().push((own, server));
    }
    let links = by_letter.iter().map(|(letter, servers)| {
        vec![link(title(*letter), path(*letter, 0)), text(format!(" {}", counted(servers.len(), "server")))]
    });
    let mut docs = vec![Doc {
        path: "servers/index".to_owned(),
        title: "Servers".to_owned(),
        summary: "All servers of the catalogue, by their first letters.".to_owned(),
        trail: trail().into_iter().take(1).collect(),
        blocks: vec![
            Block::Paragraph(marked(&format!(
                "{}, by the first letter of their names; scopes, and `mcp` and `server` in front, are left out.",
                counted(site.servers.len(), "server")
            ))),
            Block::List(links.collect()),
            Block::Paragraph(vec![
                text("To look for parts of names: "),
                Inline::Code("gatelodge catalogue search WORDS".to_owned()),
            ]),
        ],
    }];
    for (letter, mut servers) in by_letter {
        servers.sort_by(|one, other| one.0.cmp(&other.0));
        let parts: Vec<_> = servers.chunks(MOST_ON_PAGE).collect();
        docs.extend(parts.iter().enumerate().map(|(at, part)| page(letter, at, &parts, part)));
    }
    docs
}

/// What stands for all that begin with no letter.
const OTHER: char = '#';

type Named<'s> = (String, &'s IndexedServer<'s>);

fn page(letter: char, at: usize, parts: &[&[Named<'_>]], own: &[Named<'_>]) -> Doc {
    let title = match parts.len() {
        1 => format!("Servers: {}", title(letter)),
        count => format!("Servers: {}, {} of {count}", title(letter), at + 1),
    };
    let mut blocks = Vec::new();
    if parts.len() > 1 {
        let each = parts.iter().enumerate().filter_map(|(number, part)| {
            let (first, last) = (part.first()?, part.last()?);
            let span = text(format!("{} to {}", name(first.1), name(last.1)));
            let number_text = grouped(number + 1);
            let leads = if number == at { text(number_text) } else { link(number_text, path(letter, number)) };
            Some(vec![leads, text(": "), span])
        });
        blocks.push(Block::List(each.collect()));
    }
    let rows = own.iter().map(|(_, server)| row(server));
    blocks.push(Block::Table(vec!["server", "grade", "worst tool", "tools"], rows.collect()));
    Doc {
        path: path(letter, at),
        summary: format!("{title}: servers of the catalogue with their grades."),
        title,
        trail: trail(),
        blocks,
    }
}

fn trail() -> Vec<(String, String)> {
    vec![("Catalogue".to_owned(), "index".to_owned()), ("Servers".to_owned(), "servers/index".to_owned())]
}

fn title(letter: char) -> String {
    if letter == OTHER { "Other".to_owned() } else { letter.to_uppercase().to_string() }
}

fn path(letter: char, at: usize) -> String {
    let own = if letter == OTHER { "other".to_owned() } else { letter.to_string() };
    if at == 0 { format!("servers/{own}") } else { format!("servers/{own}-{}", at + 1) }
}

/// A server in a table.
pub(super) fn row(server: &IndexedServer<'_>) -> Vec<Line> {
    let facts = server.facts();
    let level = server.tools().map(|tool| tool.level()).max().unwrap_or(RiskLevel::Low);
    vec![
        vec![Inline::CodeLink(name(server), format!("{}/index", place::server(server)))],
        vec![text(grade_server(&facts.tools).letter)],
        vec![Inline::Badge(level)],
        vec![text(facts.tools.len().to_string())],
    ]
}

/// The part of a name by which it stands in a list: in small letters, without its scope and what all begin with.
fn telling(package: &str) -> String {
    let whole = package.rsplit('/').next().unwrap_or(package).to_lowercase();
    let mut rest = whole.as_str();
    while let Some((first, behind)) = rest.split_once(['-', '_', '.'])
        && COMMON.contains(&first)
        && !behind.is_empty()
    {
        rest = behind;
    }
    rest.to_owned()
}

#[cfg(test)]
mod tests {
    use super::telling;

    #[test]
    fn names_stand_under_what_tells_them_apart() {
        for (name, expected) in [
            ("mcp-server-git", "git"),
            ("@acme/MCP_files", "files"),
            ("weather-mcp", "weather-mcp"),
            ("mcp", "mcp"),
            ("mcp-server", "server"),
            ("mcp-", "mcp-"),
            ("mcproxy", "mcproxy"),
        ] {
            assert_eq!(telling(name), expected, "{name}");
        }
    }
}
