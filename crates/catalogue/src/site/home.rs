//! The first page, and the list for models.

use std::fmt::Write;

use super::doc::{Block, Doc, Inline, link, paragraph, text};
use super::{Site, counted, grouped, place, server};
use crate::attack_pattern::attack_patterns;
use crate::classify::RiskLevel;
use crate::incident::incidents;

/// More servers are not listed for models; the pages lead to the others.
const MOST_LISTED: usize = 2_000;
/// So many cases are named on the first page.
const LATEST: usize = 5;

pub(super) fn page(site: &Site<'_>) -> Doc {
    let about = site.index.metadata();
    let levels = RiskLevel::ALL.into_iter().rev().map(|level| {
        let count = site.index.tools().filter(|tool| tool.level() == level).count();
        vec![
            Inline::Badge(level),
            text(" "),
            link(counted(count, "tool"), format!("risk/{}", level.as_str().to_lowercase())),
        ]
    });
    let cases = incidents()
        .iter()
        .take(LATEST)
        .map(|own| vec![text(format!("{}: ", own.date)), link(own.title.clone(), format!("incidents/{}", own.slug))]);
    let mut blocks = vec![
        paragraph(
            "What MCP servers let an agent do: each tool with its category, its risk, the reasons, the attacks it serves, and the rule that fits.",
        ),
        Block::Facts(vec![
            ("Servers", vec![link(grouped(about.servers), "servers/index")]),
            ("Tools", vec![text(grouped(about.tools))]),
            ("Read on", vec![text(about.date.clone())]),
            ("Attack patterns", vec![link(attack_patterns().len().to_string(), "attacks/index")]),
        ]),
        Block::Bar(server::counts(site.index.tools().map(|tool| tool.category()).collect::<Vec<_>>().into_iter())),
        Block::List(levels.collect()),
        Block::Heading("", vec![text("Where to begin")]),
        Block::List(vec![
            vec![
                link("Servers", "servers/index"),
                text(": by first letter, each with its grade and three ready policies"),
            ],
            vec![link("Risk", "risk/index"), text(": what the four levels mean, and who has tools of each")],
            vec![link("Attack patterns", "attacks/index"), text(": how each works, and which controls bound it")],
            vec![link("What servers add up to", "stack"), text(": the combinations that leak")],
        ]),
        Block::Heading("", vec![text("Latest public cases")]),
        Block::List(cases.collect()),
        Block::Heading("", vec![text("How it is made")]),
        paragraph(
            "Published packages are read without being run. Names, parameters and annotations of their tools are kept, and a hash of what was read of each; no sentence of anybody is. The category is a function of the definition: no model is asked. Of two readings the riskier one counts.",
        ),
    ];
    if !about.outcomes.is_empty() {
        blocks.push(paragraph("Packages that were looked at, by what came of it:"));
        let rows = about.outcomes.iter().map(|(kind, count)| {
            vec![
                vec![text(crate::escape_for_display(kind).replace('_', " "))],
                vec![text(grouped(usize::try_from(*count).unwrap_or(usize::MAX)))],
            ]
        });
        blocks.push(Block::Table(vec!["outcome", "packages"], rows.collect()));
    }
    Doc {
        path: "index".to_owned(),
        title: "A catalogue of MCP servers and their tools".to_owned(),
        summary: "What MCP servers let an agent do, and the rule that fits each tool.".to_owned(),
        trail: Vec::new(),
        blocks,
    }
}

/// `llms.txt`: what is here, in the form that models look for.
pub(super) fn llms(site: &Site<'_>) -> String {
    let about = site.index.metadata();
    let mut out = format!(
        "# A catalogue of MCP servers and their tools\n\n> {} and {}, read on {}: category, risk, reasons, \
         attack patterns, and the policy that fits each. Every page is there as Markdown, with `.md` in place of `.html`.\n\n",
        counted(about.servers, "server"),
        counted(about.tools, "tool"),
        about.date
    );
    out.push_str("## Pages\n\n- [Servers](servers/index.md)\n- [Risk levels](risk/index.md)\n- [What servers add up to](stack.md)\n- [Incidents](incidents/index.md)\n\n## Attack patterns\n\n");
    for own in attack_patterns() {
        let _ = writeln!(out, "- [{}](attacks/{}.md): {}", own.name, own.slug, own.summary);
    }
    out.push_str("\n## Servers\n\n");
    for own in site.servers.iter().take(MOST_LISTED) {
        let name = super::markdown::plain(&server::name(own));
        let _ = writeln!(out, "- [{name}]({}/index.md): {}", place::server(own), counted(own.tools().len(), "tool"));
    }
    if site.servers.len() > MOST_LISTED {
        let _ = writeln!(out, "- and {} more: [by first letter](servers/index.md)", site.servers.len() - MOST_LISTED);
    }
    out
}
