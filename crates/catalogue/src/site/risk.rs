//! What the levels mean, and who has tools of each.

use gatelodge_policy::Category;

use super::doc::{Block, Doc, Inline, code, link, marked, paragraph, text};
use super::{Site, counted, grouped, place, server, tool};
use crate::attack_pattern::attack_patterns;
use crate::classify::RiskLevel;
use crate::recommendation::{recommendation_effect, recommended_policy};

/// So many servers with the most tools of a level are named.
const MOST_SERVERS: usize = 100;

pub(super) fn pages(site: &Site<'_>) -> Vec<Doc> {
    let counts: Vec<(RiskLevel, usize)> = RiskLevel::ALL
        .iter()
        .rev()
        .map(|level| (*level, site.index.tools().filter(|tool| tool.level() == *level).count()))
        .collect();
    let rows = counts.iter().map(|(level, count)| {
        vec![
            vec![Inline::Badge(*level)],
            vec![link(format!("{} risk", level.as_str()), format!("risk/{}", level.as_str().to_lowercase()))],
            vec![text(grouped(*count))],
            marked(says(*level)),
        ]
    });
    let mut docs = vec![Doc {
        path: "risk/index".to_owned(),
        title: "Risk".to_owned(),
        summary: "Four levels, by how far a call can be taken back.".to_owned(),
        trail: vec![("Catalogue".to_owned(), "index".to_owned())],
        blocks: vec![
            paragraph(
                "The level of a tool follows from its category: how far what a call does can be taken back. Of two readings the riskier one counts.",
            ),
            Block::Bar(server::counts(site.index.tools().map(|tool| tool.category()).collect::<Vec<_>>().into_iter())),
            Block::Table(vec!["level", "page", "tools", "means"], rows.collect()),
        ],
    }];
    docs.extend(counts.iter().map(|(level, count)| page(site, *level, *count)));
    docs
}

fn says(level: RiskLevel) -> &'static str {
    match level {
        RiskLevel::Low => "It gives data and changes nothing. What is left is cost, and where the data goes.",
        RiskLevel::Medium => "It adds or changes what can be changed back.",
        RiskLevel::High => "It runs something and the arguments decide what; or nobody can tell what it does.",
        RiskLevel::Critical => "Something is gone for good, or paid.",
    }
}

fn page(site: &Site<'_>, level: RiskLevel, count: usize) -> Doc {
    let categories: &[Category] = match level {
        RiskLevel::Low => &[Category::Read],
        RiskLevel::Medium => &[Category::Write],
        RiskLevel::High => &[Category::Execute, Category::Unknown],
        RiskLevel::Critical => &[Category::Destructive, Category::Financial],
    };
    let mut blocks = vec![
        Block::Paragraph(vec![Inline::Badge(level), text(format!(" {}", says(level)))]),
        paragraph(format!("{} of {} in the index.", grouped(count), counted(site.index.metadata().tools, "tool"))),
    ];
    for category in categories {
        let name = crate::classify::category_name(*category);
        let policy = serde_json::to_string_pretty(&recommended_policy("the_tool", *category)).unwrap_or_default();
        blocks.push(Block::Heading("", vec![text(format!("{name}: the rule that fits"))]));
        let article = tool::article(name);
        blocks.push(Block::Code(format!("policy.json for {article} {name} tool"), policy));
        blocks.push(Block::Paragraph(marked(recommendation_effect(*category))));
    }
    let served = attack_patterns().iter().filter(|own| {
        own.conditions
            .iter()
            .any(|line| categories.iter().any(|category| line.contains(&format!("category:{}", category.as_str()))))
    });
    let served: Vec<_> = served
        .map(|own| vec![link(own.name.clone(), format!("attacks/{}", own.slug)), text(format!(": {}", own.summary))])
        .collect();
    if !served.is_empty() {
        blocks.push(Block::Heading("", vec![text("Attack patterns that such tools serve")]));
        blocks.push(Block::List(served));
    }
    blocks.extend(most(site, level));
    let word = level.as_str();
    Doc {
        path: format!("risk/{}", word.to_lowercase()),
        title: format!("{word} risk"),
        summary: says(level).to_owned(),
        trail: vec![("Catalogue".to_owned(), "index".to_owned()), ("Risk".to_owned(), "risk/index".to_owned())],
        blocks,
    }
}

/// The servers with the most tools of a level.
fn most(site: &Site<'_>, level: RiskLevel) -> Vec<Block> {
    let mut servers: Vec<_> = site
        .servers
        .iter()
        .map(|server| (server.tools().filter(|tool| tool.level() == level).count(), server))
        .filter(|(count, _)| *count > 0)
        .collect();
    servers.sort_by(|one, other| other.0.cmp(&one.0).then(one.1.package().cmp(other.1.package())));
    if servers.is_empty() {
        return Vec::new();
    }
    let rows = servers.into_iter().take(MOST_SERVERS).map(|(count, server)| {
        let first = server.tools().find(|tool| tool.level() == level);
        vec![
            vec![Inline::CodeLink(server::name(server), format!("{}/index", place::server(server)))],
            vec![text(count.to_string())],
            first.map(|tool| vec![code(tool.name())]).unwrap_or_default(),
        ]
    });
    vec![
        Block::Heading("", vec![text("Servers with the most")]),
        Block::Table(vec!["server", "tools of this level", "for example"], rows.collect()),
    ]
}
