//! Pages about attack patterns: mechanism, signs and mitigations.

use super::page_document::{PageBlock, PageDocument, code_run, link_run, paragraph, parse_backticks, text_run};
use crate::attack_pattern::{AttackPattern, attack_patterns};
use crate::incident::incidents;

pub(super) fn attack_pages() -> Vec<PageDocument> {
    let rows = attack_patterns().iter().map(|own| {
        vec![
            vec![link_run(own.name.clone(), format!("attacks/{}", own.slug))],
            parse_backticks(&own.summary),
            vec![text_run(own.owasp.join(", "))],
        ]
    });
    let mut docs = vec![PageDocument {
        path: "attacks/index".to_owned(),
        title: "Attack patterns".to_owned(),
        summary: "How agents and their tools are abused, and what limits it.".to_owned(),
        breadcrumbs: vec![("Catalogue".to_owned(), "index".to_owned())],
        blocks: vec![
            paragraph("How agents and their tools are abused, the signs of it, and which controls limit it."),
            PageBlock::Table(vec!["pattern", "what it is", "OWASP"], rows.collect()),
        ],
    }];
    docs.extend(attack_patterns().iter().map(attack_page));
    docs
}

fn attack_page(own: &AttackPattern) -> PageDocument {
    let mut blocks = vec![
        PageBlock::Paragraph(parse_backticks(&own.summary)),
        PageBlock::Heading("", vec![text_run("How it works")]),
        PageBlock::Paragraph(parse_backticks(&own.mechanism)),
        PageBlock::Heading("", vec![text_run("Signs")]),
        PageBlock::Paragraph(parse_backticks(&own.signs)),
        paragraph("The catalogue links it to tools with:"),
        PageBlock::List(own.conditions.iter().map(|line| vec![code_run(&line.replace(':', " "))]).collect()),
        PageBlock::Heading("", vec![text_run("What limits it")]),
        PageBlock::List(own.mitigations.iter().map(|bound| parse_backticks(bound)).collect()),
        PageBlock::Code("For example".to_owned(), own.policy.trim().to_owned()),
    ];
    let cases: Vec<_> = incidents().iter().filter(|case| case.attacks.contains(&own.slug)).collect();
    if !cases.is_empty() {
        blocks.push(PageBlock::Heading("", vec![text_run("Where it happened")]));
        let items = cases.iter().map(|case| {
            vec![text_run(format!("{}: ", case.date)), link_run(case.title.clone(), format!("incidents/{}", case.slug))]
        });
        blocks.push(PageBlock::List(items.collect()));
    }
    blocks.push(paragraph(format!("OWASP: {}.", own.owasp.join(", "))));
    PageDocument {
        path: format!("attacks/{}", own.slug),
        title: own.name.clone(),
        summary: own.summary.clone(),
        breadcrumbs: vec![
            ("Catalogue".to_owned(), "index".to_owned()),
            ("Attacks".to_owned(), "attacks/index".to_owned()),
        ],
        blocks,
    }
}
