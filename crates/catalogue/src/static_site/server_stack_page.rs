//! The page about stacks: the combinations of servers that one agent uses.

use std::cmp::Reverse;

use super::page_document::{InlineTextRun, PageBlock, PageDocument, link_run, paragraph, parse_backticks, text_run};
use super::{StaticSite, server_list_pages};
use crate::package_index::IndexedServer;
use crate::server_grade::grade_server;
use crate::server_stack::has_all_flows;

/// Maximum number of servers to list.
const MAX_LISTED_SERVERS: usize = 50;

pub(super) fn stack_page(site: &StaticSite<'_>) -> PageDocument {
    let all = |server: &&IndexedServer<'_>| has_all_flows(server.tools().flat_map(|tool| tool.flow()));
    let mut complete: Vec<_> = site.servers.iter().filter(all).collect();
    // Worst grade first, then by number of tools.
    complete.sort_by_cached_key(|own| Reverse((grade_server(&own.facts().tools).letter, own.tools().len())));
    let rows = complete.iter().take(MAX_LISTED_SERVERS).map(|own| server_list_pages::server_row(own));
    let mut blocks = vec![
        paragraph(
            "An agent has all its servers at once. What one server reads, another can send, so the risk depends on the combination.",
        ),
        PageBlock::Heading("", vec![text_run("See your own")]),
        PageBlock::NumberedList(vec![
            vec![
                text_run("All servers of the clients on this machine: "),
                InlineTextRun::Code("gatelodge stack".to_owned()),
            ],
            vec![
                text_run("One client, with a policy file for each server: "),
                InlineTextRun::Code("gatelodge stack --client cursor --policies policies".to_owned()),
            ],
            vec![
                text_run("In a pull request: "),
                InlineTextRun::Code("gatelodge stack .mcp.json --format markdown --fail-on high".to_owned()),
            ],
        ]),
        paragraph(
            "Nothing leaves the machine. The report contains names of servers, names of packages as the index spells them, plain numeric versions, and for code scanning files below the working directory, with lines. It contains no argument, address, variable or header.",
        ),
        PageBlock::Heading("", vec![text_run("The dangerous combination")]),
        PageBlock::Paragraph(vec![
            text_run(
                "Private data, untrusted content, and a way to send: if the tools of one agent have all three, untrusted content can exfiltrate the data. ",
            ),
            link_run("How it works, and what limits it", "attacks/lethal-trifecta"),
            text_run("."),
        ]),
        PageBlock::List(vec![
            parse_backticks("`reads_private`: it returns private data"),
            parse_backticks("`reads_untrusted`: it returns content that strangers can write"),
            parse_backticks("`sends_outward`: it sends data to others"),
        ]),
    ];
    if !complete.is_empty() {
        blocks.push(PageBlock::Heading("", vec![text_run("Servers that have all three by themselves")]));
        blocks.push(paragraph(format!(
            "{} of the servers here; those with the worst grades and the most tools:",
            super::grouped_number(complete.len())
        )));
        blocks.push(PageBlock::Table(vec!["server", "grade", "worst tool", "tools"], rows.collect()));
    }
    PageDocument {
        path: "stack".to_owned(),
        title: "What servers add up to".to_owned(),
        summary: "Everything an agent can call, and which combinations can leak data.".to_owned(),
        breadcrumbs: vec![("Catalogue".to_owned(), "index".to_owned())],
        blocks,
    }
}
