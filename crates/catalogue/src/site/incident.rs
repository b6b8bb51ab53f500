//! Public cases.

use super::doc::{Block, Doc, code, link, marked, paragraph, text};
use crate::attack_pattern::attack_patterns;
use crate::incident::{Incident, incidents};

pub(super) fn pages() -> Vec<Doc> {
    let rows = incidents().iter().map(|own| {
        vec![
            vec![text(own.date.clone())],
            vec![link(own.title.clone(), format!("incidents/{}", own.slug))],
            vec![text(own.source.clone())],
        ]
    });
    let mut docs = vec![Doc {
        path: "incidents/index".to_owned(),
        title: "Incidents".to_owned(),
        summary: "Public cases, dated, with what follows from each.".to_owned(),
        trail: vec![("Catalogue".to_owned(), "index".to_owned())],
        blocks: vec![
            paragraph("Public cases, the latest first, in our own words; the source is named."),
            Block::Table(vec!["made public", "case", "source"], rows.collect()),
        ],
    }];
    docs.extend(incidents().iter().map(page));
    docs
}

fn page(own: &Incident) -> Doc {
    let shown = attack_patterns().iter().filter(|pattern| own.attacks.contains(&pattern.slug));
    let shown = shown
        .map(|own| vec![link(own.name.clone(), format!("attacks/{}", own.slug)), text(format!(": {}", own.summary))]);
    let mut facts = vec![("Made public", vec![text(own.date.clone())]), ("Source", vec![text(own.source.clone())])];
    facts.extend(own.packages.iter().map(|package| {
        let name = code(&format!("{}:{}", package.source.as_str(), package.name));
        ("Package", vec![name, text(format!(", {}", package.versions_text()))])
    }));
    Doc {
        path: format!("incidents/{}", own.slug),
        title: own.title.clone(),
        summary: own.summary.clone(),
        trail: vec![
            ("Catalogue".to_owned(), "index".to_owned()),
            ("Incidents".to_owned(), "incidents/index".to_owned()),
        ],
        blocks: vec![
            Block::Facts(facts),
            Block::Heading("", vec![text("What happened")]),
            Block::Paragraph(marked(&own.summary)),
            Block::Heading("", vec![text("What follows")]),
            Block::Paragraph(marked(&own.lesson)),
            Block::Heading("", vec![text("Patterns that it shows")]),
            Block::List(shown.collect()),
        ],
    }
}
