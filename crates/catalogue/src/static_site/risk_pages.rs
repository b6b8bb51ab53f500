//! Pages about the risk levels and the servers with the most tools at each level.

use gatelodge_policy::Category;

use super::page_document::{
    InlineTextRun, PageBlock, PageDocument, code_run, link_run, paragraph, parse_backticks, text_run,
};
use super::{StaticSite, count_text, grouped_number, page_paths, server_page, tool_page};
use crate::attack_pattern::attack_patterns;
use crate::classify::RiskLevel;
use crate::recommendation::{recommendation_effect, recommended_policy};

/// Maximum number of servers listed per level.
const MAX_LISTED_SERVERS: usize = 100;

pub(super) fn risk_pages(site: &StaticSite<'_>) -> Vec<PageDocument> {
    let counts: Vec<(RiskLevel, usize)> = RiskLevel::ALL
        .iter()
        .rev()
        .map(|level| (*level, site.index.tools().filter(|tool| tool.level() == *level).count()))
        .collect();
    let rows = counts.iter().map(|(level, count)| {
        vec![
            vec![InlineTextRun::Badge(*level)],
            vec![link_run(format!("{} risk", level.as_str()), format!("risk/{}", level.as_str().to_lowercase()))],
            vec![text_run(grouped_number(*count))],
            parse_backticks(level_description(*level)),
        ]
    });
    let mut docs = vec![PageDocument {
        path: "risk/index".to_owned(),
        title: "Risk".to_owned(),
        summary: "Four levels, by how far a call can be undone.".to_owned(),
        breadcrumbs: vec![("Catalogue".to_owned(), "index".to_owned())],
        blocks: vec![
            paragraph(
                "The level of a tool follows from its category: how far a call can be undone. Of two readings the riskier one counts.",
            ),
            PageBlock::CategoryBar(server_page::category_counts(
                site.index.tools().map(|tool| tool.category()).collect::<Vec<_>>().into_iter(),
            )),
            PageBlock::Table(vec!["level", "page", "tools", "means"], rows.collect()),
        ],
    }];
    docs.extend(counts.iter().map(|(level, count)| level_page(site, *level, *count)));
    docs
}

fn level_description(level: RiskLevel) -> &'static str {
    match level {
        RiskLevel::Low => "It returns data and changes nothing. What remains is the cost, and where the data goes.",
        RiskLevel::Medium => "It adds or changes something that can be changed back.",
        RiskLevel::High => "It runs something and the arguments decide what; or it is unknown what it does.",
        RiskLevel::Critical => "It removes something permanently, or pays.",
    }
}

fn level_page(site: &StaticSite<'_>, level: RiskLevel, count: usize) -> PageDocument {
    let categories: &[Category] = match level {
        RiskLevel::Low => &[Category::Read],
        RiskLevel::Medium => &[Category::Write],
        RiskLevel::High => &[Category::Execute, Category::Unknown],
        RiskLevel::Critical => &[Category::Destructive, Category::Financial],
    };
    let mut blocks = vec![
        PageBlock::Paragraph(vec![InlineTextRun::Badge(level), text_run(format!(" {}", level_description(level)))]),
        paragraph(format!(
            "{} of {} in the index.",
            grouped_number(count),
            count_text(site.index.metadata().tools, "tool")
        )),
    ];
    for category in categories {
        let name = crate::classify::category_name(*category);
        let policy = serde_json::to_string_pretty(&recommended_policy("the_tool", *category)).unwrap_or_default();
        blocks.push(PageBlock::Heading("", vec![text_run(format!("{name}: the recommended rule"))]));
        let article = tool_page::indefinite_article(name);
        blocks.push(PageBlock::Code(format!("policy.json for {article} {name} tool"), policy));
        blocks.push(PageBlock::Paragraph(parse_backticks(recommendation_effect(*category))));
    }
    let served = attack_patterns().iter().filter(|own| {
        own.conditions
            .iter()
            .any(|line| categories.iter().any(|category| line.contains(&format!("category:{}", category.as_str()))))
    });
    let served: Vec<_> = served
        .map(|own| {
            vec![link_run(own.name.clone(), format!("attacks/{}", own.slug)), text_run(format!(": {}", own.summary))]
        })
        .collect();
    if !served.is_empty() {
        blocks.push(PageBlock::Heading("", vec![text_run("Attack patterns that such tools can be used for")]));
        blocks.push(PageBlock::List(served));
    }
    blocks.extend(servers_with_most_tools(site, level));
    let word = level.as_str();
    PageDocument {
        path: format!("risk/{}", word.to_lowercase()),
        title: format!("{word} risk"),
        summary: level_description(level).to_owned(),
        breadcrumbs: vec![("Catalogue".to_owned(), "index".to_owned()), ("Risk".to_owned(), "risk/index".to_owned())],
        blocks,
    }
}

/// Lists the servers with the most tools at a risk level.
fn servers_with_most_tools(site: &StaticSite<'_>, level: RiskLevel) -> Vec<PageBlock> {
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
    let rows = servers.into_iter().take(MAX_LISTED_SERVERS).map(|(count, server)| {
        let first = server.tools().find(|tool| tool.level() == level);
        vec![
            vec![InlineTextRun::CodeLink(
                server_page::server_display_name(server),
                format!("{}/index", page_paths::server_path(server)),
            )],
            vec![text_run(count.to_string())],
            first.map(|tool| vec![code_run(tool.name())]).unwrap_or_default(),
        ]
    });
    vec![
        PageBlock::Heading("", vec![text_run("Servers with most tools of this level")]),
        PageBlock::Table(vec!["server", "tools of this level", "for example"], rows.collect()),
    ]
}
