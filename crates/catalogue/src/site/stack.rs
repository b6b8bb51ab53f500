//! What servers add up to together.

use std::cmp::Reverse;

use super::doc::{Block, Doc, Inline, link, marked, paragraph, text};
use super::{Site, list};
use crate::package_index::IndexedServer;
use crate::server_grade::grade_server;
use crate::server_stack::has_all_flows;

/// So many servers are named.
const MOST: usize = 50;

pub(super) fn page(site: &Site<'_>) -> Doc {
    let all = |server: &&IndexedServer<'_>| has_all_flows(server.tools().flat_map(|tool| tool.flow()));
    let mut complete: Vec<_> = site.servers.iter().filter(all).collect();
    // The worst first, of those the largest.
    complete.sort_by_cached_key(|own| Reverse((grade_server(&own.facts().tools).letter, own.tools().len())));
    let rows = complete.iter().take(MOST).map(|own| list::row(own));
    let mut blocks = vec![
        paragraph(
            "An agent has all its servers at once. What one reads, another can send; so the question is what they add up to.",
        ),
        Block::Heading("", vec![text("See your own")]),
        Block::Steps(vec![
            vec![
                text("Everything that the clients on this machine have: "),
                Inline::Code("gatelodge stack".to_owned()),
            ],
            vec![
                text("One client, with a policy file for each server: "),
                Inline::Code("gatelodge stack --client cursor --policies policies".to_owned()),
            ],
            vec![
                text("In a pull request: "),
                Inline::Code("gatelodge stack .mcp.json --format markdown --fail-on high".to_owned()),
            ],
        ]),
        paragraph(
            "Nothing leaves the machine, and no argument, address, variable or header enters the report. What does: names of servers, of packages as the index spells them, versions that are plain numbers, and for code scanning files below the folder that it runs in, with lines.",
        ),
        Block::Heading("", vec![text("The three that leak")]),
        Block::Paragraph(vec![
            text(
                "Private data, text of strangers, and a way out: where tools of one agent have all three, a text can have the data carried away. ",
            ),
            link("How it works, and what bounds it", "attacks/lethal-trifecta"),
            text("."),
        ]),
        Block::List(vec![
            marked("`reads_private`: it gives data that is somebody's own"),
            marked("`reads_untrusted`: it gives content that strangers can write"),
            marked("`sends_outward`: it carries something to others"),
        ]),
    ];
    if !complete.is_empty() {
        blocks.push(Block::Heading("", vec![text("Servers that have all three by themselves")]));
        blocks.push(paragraph(format!(
            "{} of the servers here; those with the worst grades and the most tools:",
            super::grouped(complete.len())
        )));
        blocks.push(Block::Table(vec!["server", "grade", "worst tool", "tools"], rows.collect()));
    }
    Doc {
        path: "stack".to_owned(),
        title: "What servers add up to".to_owned(),
        summary: "Everything an agent could call, and which combinations leak.".to_owned(),
        trail: vec![("Catalogue".to_owned(), "index".to_owned())],
        blocks,
    }
}
