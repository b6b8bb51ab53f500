//! Pages that list all servers.

use std::collections::BTreeMap;

use super::page_document::{
    InlineTextRun, InlineTextRuns, PageBlock, PageDocument, link_run, parse_backticks, text_run,
};
use super::server_page::server_display_name;
use super::{StaticSite, count_text, grouped_number, page_paths};
use crate::classify::RiskLevel;
use crate::package_index::IndexedServer;
use crate::server_grade::grade_server;

/// Maximum number of servers per page.
const MAX_SERVERS_PER_PAGE: usize = 500;
/// Words at the start of many package names, which are ignored when sorting.
const COMMON_NAME_WORDS: [&str; 2] = ["mcp", "server"];

/// Builds the pages that list all servers by first letter.
pub(super) fn server_list_pages(site: &StaticSite<'_>) -> Vec<PageDocument> {
    let mut by_letter: BTreeMap<char, Vec<(String, &IndexedServer<'_>)>> = BTreeMap::new();
    for server in &site.servers {
        let own = sort_name(server.package());
        let first = own.chars().next().filter(char::is_ascii_alphabetic).unwrap_or(OTHER_LETTER);
        by_letter.entry(first).or_default().push((own, server));
    }
    let links = by_letter.iter().map(|(letter, servers)| {
        vec![
            link_run(letter_title(*letter), letter_path(*letter, 0)),
            text_run(format!(" {}", count_text(servers.len(), "server"))),
        ]
    });
    let mut docs = vec![PageDocument {
        path: "servers/index".to_owned(),
        title: "Servers".to_owned(),
        summary: "All servers of the catalogue, by their first letters.".to_owned(),
        breadcrumbs: breadcrumbs().into_iter().take(1).collect(),
        blocks: vec![
            PageBlock::Paragraph(parse_backticks(&format!(
                "{}, by the first letter of their names; scopes, and `mcp` and `server` in front, are left out.",
                count_text(site.servers.len(), "server")
            ))),
            PageBlock::List(links.collect()),
            PageBlock::Paragraph(vec![
                text_run("To look for parts of names: "),
                InlineTextRun::Code("gatelodge catalogue search WORDS".to_owned()),
            ]),
        ],
    }];
    for (letter, mut servers) in by_letter {
        servers.sort_by(|one, other| one.0.cmp(&other.0));
        let parts: Vec<_> = servers.chunks(MAX_SERVERS_PER_PAGE).collect();
        docs.extend(parts.iter().enumerate().map(|(at, part)| letter_page(letter, at, &parts, part)));
    }
    docs
}

/// Key under which names that do not start with a letter are listed.
const OTHER_LETTER: char = '#';

type ServerSortEntry<'s> = (String, &'s IndexedServer<'s>);

fn letter_page(letter: char, at: usize, parts: &[&[ServerSortEntry<'_>]], own: &[ServerSortEntry<'_>]) -> PageDocument {
    let title = match parts.len() {
        1 => format!("Servers: {}", letter_title(letter)),
        count => format!("Servers: {}, {} of {count}", letter_title(letter), at + 1),
    };
    let mut blocks = Vec::new();
    if parts.len() > 1 {
        let each = parts.iter().enumerate().filter_map(|(number, part)| {
            let (first, last) = (part.first()?, part.last()?);
            let span = text_run(format!("{} to {}", server_display_name(first.1), server_display_name(last.1)));
            let number_text = grouped_number(number + 1);
            let leads =
                if number == at { text_run(number_text) } else { link_run(number_text, letter_path(letter, number)) };
            Some(vec![leads, text_run(": "), span])
        });
        blocks.push(PageBlock::List(each.collect()));
    }
    let rows = own.iter().map(|(_, server)| server_row(server));
    blocks.push(PageBlock::Table(vec!["server", "grade", "worst tool", "tools"], rows.collect()));
    PageDocument {
        path: letter_path(letter, at),
        summary: format!("{title}: servers of the catalogue with their grades."),
        title,
        breadcrumbs: breadcrumbs(),
        blocks,
    }
}

fn breadcrumbs() -> Vec<(String, String)> {
    vec![("Catalogue".to_owned(), "index".to_owned()), ("Servers".to_owned(), "servers/index".to_owned())]
}

fn letter_title(letter: char) -> String {
    if letter == OTHER_LETTER { "Other".to_owned() } else { letter.to_uppercase().to_string() }
}

fn letter_path(letter: char, at: usize) -> String {
    let own = if letter == OTHER_LETTER { "other".to_owned() } else { letter.to_string() };
    if at == 0 { format!("servers/{own}") } else { format!("servers/{own}-{}", at + 1) }
}

/// Returns the table row for a server.
pub(super) fn server_row(server: &IndexedServer<'_>) -> Vec<InlineTextRuns> {
    let facts = server.facts();
    let level = server.tools().map(|tool| tool.level()).max().unwrap_or(RiskLevel::Low);
    vec![
        vec![InlineTextRun::CodeLink(
            server_display_name(server),
            format!("{}/index", page_paths::server_path(server)),
        )],
        vec![text_run(grade_server(&facts.tools).letter)],
        vec![InlineTextRun::Badge(level)],
        vec![text_run(facts.tools.len().to_string())],
    ]
}

/// Returns the part of a package name that is used for sorting, in lower case and without the scope and leading common
/// words.
fn sort_name(package: &str) -> String {
    let whole = package.rsplit('/').next().unwrap_or(package).to_lowercase();
    let mut rest = whole.as_str();
    while let Some((first, after)) = rest.split_once(['-', '_', '.'])
        && COMMON_NAME_WORDS.contains(&first)
        && !after.is_empty()
    {
        rest = after;
    }
    rest.to_owned()
}

#[cfg(test)]
mod tests {
    use super::sort_name;

    #[test]
    fn common_words_are_ignored_when_sorting() {
        for (name, expected) in [
            ("mcp-server-git", "git"),
            ("@acme/MCP_files", "files"),
            ("weather-mcp", "weather-mcp"),
            ("mcp", "mcp"),
            ("mcp-server", "server"),
            ("mcp-", "mcp-"),
            ("mcproxy", "mcproxy"),
        ] {
            assert_eq!(sort_name(name), expected, "{name}");
        }
    }
}
