//! Attack patterns: how each works, its signs, what bounds it.

use super::doc::{Block, Doc, code, link, marked, paragraph, text};
use crate::attack_pattern::{AttackPattern, attack_patterns};
use crate::incident::incidents;

pub(super) fn pages() -> Vec<Doc> {
    let rows = attack_patterns().iter().map(|own| {
        vec![
            vec![link(own.name.clone(), format!("attacks/{}", own.slug))],
            marked(&own.summary),
            vec![text(own.owasp.join(", "))],
        ]
    });
    let mut docs = vec![Doc {
        path: "attacks/index".to_owned(),
        title: "Attack patterns".to_owned(),
        summary: "How agents and their tools are abused, and what bounds it.".to_owned(),
        trail: vec![("Catalogue".to_owned(), "index".to_owned())],
        blocks: vec![
            paragraph("How agents and their tools are abused, what it can be seen by, and which controls bound it."),
            Block::Table(vec!["pattern", "what it is", "OWASP"], rows.collect()),
        ],
    }];
    docs.extend(attack_patterns().iter().map(page));
    docs
}

fn page(own: &AttackPattern) -> Doc {
    let mut blocks = vec![
        Block::Paragraph(marked(&own.summary)),
        Block::Heading("", vec![text("How it works")]),
        Block::Paragraph(marked(&own.mechanism)),
        Block::Heading("", vec![text("Signs")]),
        Block::Paragraph(marked(&own.signs)),
        paragraph("The catalogue links it to tools with:"),
        Block::List(own.conditions.iter().map(|line| vec![code(&line.replace(':', " "))]).collect()),
        Block::Heading("", vec![text("What bounds it")]),
        Block::List(own.mitigations.iter().map(|bound| marked(bound)).collect()),
        Block::Code("For example".to_owned(), own.policy.trim().to_owned()),
    ];
    let cases: Vec<_> = incidents().iter().filter(|case| case.attacks.contains(&own.slug)).collect();
    if !cases.is_empty() {
        blocks.push(Block::Heading("", vec![text("Where it happened")]));
        let told = cases.iter().map(|case| {
            vec![text(format!("{}: ", case.date)), link(case.title.clone(), format!("incidents/{}", case.slug))]
        });
        blocks.push(Block::List(told.collect()));
    }
    blocks.push(paragraph(format!("OWASP: {}.", own.owasp.join(", "))));
    Doc {
        path: format!("attacks/{}", own.slug),
        title: own.name.clone(),
        summary: own.summary.clone(),
        trail: vec![("Catalogue".to_owned(), "index".to_owned()), ("Attacks".to_owned(), "attacks/index".to_owned())],
        blocks,
    }
}
