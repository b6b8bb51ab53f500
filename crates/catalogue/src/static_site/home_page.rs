//! The home page, and `llms.txt`.

use std::fmt::Write;

use super::page_document::{InlineTextRun, PageBlock, PageDocument, link_run, paragraph, text_run};
use super::{StaticSite, count_text, grouped_number, page_paths, server_page};
use crate::attack_pattern::attack_patterns;
use crate::classify::RiskLevel;
use crate::incident::incidents;

/// Maximum number of servers in `llms.txt`. If there are more, it refers to the pages that list all servers.
const MAX_LISTED_SERVERS: usize = 2_000;
/// Maximum number of incidents on the home page.
const MAX_LATEST_INCIDENTS: usize = 5;

pub(super) fn home_page(site: &StaticSite<'_>) -> PageDocument {
    let about = site.index.metadata();
    let levels = RiskLevel::ALL.into_iter().rev().map(|level| {
        let count = site.index.tools().filter(|tool| tool.level() == level).count();
        vec![
            InlineTextRun::Badge(level),
            text_run(" "),
            link_run(count_text(count, "tool"), format!("risk/{}", level.as_str().to_lowercase())),
        ]
    });
    let cases = incidents().iter().take(MAX_LATEST_INCIDENTS).map(|own| {
        vec![text_run(format!("{}: ", own.date)), link_run(own.title.clone(), format!("incidents/{}", own.slug))]
    });
    let mut blocks = vec![
        paragraph(
            "What MCP servers let an agent do: each tool with its category, its risk, the reasons, the attacks it can be used for, and the recommended rule.",
        ),
        PageBlock::Facts(vec![
            ("Servers", vec![link_run(grouped_number(about.servers), "servers/index")]),
            ("Tools", vec![text_run(grouped_number(about.tools))]),
            ("Read on", vec![text_run(about.date.clone())]),
            ("Attack patterns", vec![link_run(attack_patterns().len().to_string(), "attacks/index")]),
        ]),
        PageBlock::CategoryBar(server_page::category_counts(
            site.index.tools().map(|tool| tool.category()).collect::<Vec<_>>().into_iter(),
        )),
        PageBlock::List(levels.collect()),
        PageBlock::Heading("", vec![text_run("Where to start")]),
        PageBlock::List(vec![
            vec![
                link_run("Servers", "servers/index"),
                text_run(": by first letter, each with its grade and three recommended policies"),
            ],
            vec![
                link_run("Risk", "risk/index"),
                text_run(": what the four levels mean, and which servers have tools of each"),
            ],
            vec![
                link_run("Attack patterns", "attacks/index"),
                text_run(": how each works, and which controls limit it"),
            ],
            vec![link_run("What servers add up to", "stack"), text_run(": combinations that can leak data")],
        ]),
        PageBlock::Heading("", vec![text_run("Latest public incidents")]),
        PageBlock::List(cases.collect()),
        PageBlock::Heading("", vec![text_run("How it is made")]),
        paragraph(
            "Published packages are read without being run. Names, parameters and annotations of their tools are stored, with a hash of each definition; no text of the authors is stored. The category is a function of the definition: no model is asked. Of two readings the riskier one counts.",
        ),
    ];
    if !about.outcomes.is_empty() {
        blocks.push(paragraph("Packages that were read, by outcome:"));
        let rows = about.outcomes.iter().map(|(kind, count)| {
            vec![
                vec![text_run(crate::escape_for_display(kind).replace('_', " "))],
                vec![text_run(grouped_number(usize::try_from(*count).unwrap_or(usize::MAX)))],
            ]
        });
        blocks.push(PageBlock::Table(vec!["outcome", "packages"], rows.collect()));
    }
    PageDocument {
        path: "index".to_owned(),
        title: "A catalogue of MCP servers and their tools".to_owned(),
        summary: "What MCP servers let an agent do, and the recommended rule for each tool.".to_owned(),
        breadcrumbs: Vec::new(),
        blocks,
    }
}

/// Returns the text of `llms.txt`, an overview of the site in a format intended for language models.
pub(super) fn llms_text(site: &StaticSite<'_>) -> String {
    let about = site.index.metadata();
    let mut out = format!(
        "# A catalogue of MCP servers and their tools\n\n> {} and {}, read on {}: category, risk, reasons, \
         attack patterns, and the policy that fits each. Every page is there as Markdown, with `.md` in place of `.html`.\n\n",
        count_text(about.servers, "server"),
        count_text(about.tools, "tool"),
        about.date
    );
    out.push_str("## Pages\n\n- [Servers](servers/index.md)\n- [Risk levels](risk/index.md)\n- [What servers add up to](stack.md)\n- [Incidents](incidents/index.md)\n\n## Attack patterns\n\n");
    for own in attack_patterns() {
        let _ = writeln!(out, "- [{}](attacks/{}.md): {}", own.name, own.slug, own.summary);
    }
    out.push_str("\n## Servers\n\n");
    for own in site.servers.iter().take(MAX_LISTED_SERVERS) {
        let name = super::markdown_renderer::escape_markdown(&server_page::server_display_name(own));
        let _ = writeln!(
            out,
            "- [{name}]({}/index.md): {}",
            page_paths::server_path(own),
            count_text(own.tools().len(), "tool")
        );
    }
    if site.servers.len() > MAX_LISTED_SERVERS {
        let _ = writeln!(
            out,
            "- and {} more: [by first letter](servers/index.md)",
            site.servers.len() - MAX_LISTED_SERVERS
        );
    }
    out
}
