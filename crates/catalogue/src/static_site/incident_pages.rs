//! Pages about incidents.

use super::page_document::{PageBlock, PageDocument, code_run, link_run, paragraph, parse_backticks, text_run};
use crate::attack_pattern::attack_patterns;
use crate::incident::{Incident, incidents};

pub(super) fn incident_pages() -> Vec<PageDocument> {
    let rows = incidents().iter().map(|own| {
        vec![
            vec![text_run(own.date.clone())],
            vec![link_run(own.title.clone(), format!("incidents/{}", own.slug))],
            vec![text_run(own.source.clone())],
        ]
    });
    let mut docs = vec![PageDocument {
        path: "incidents/index".to_owned(),
        title: "Incidents".to_owned(),
        summary: "Public incidents by date, with the lesson of each.".to_owned(),
        breadcrumbs: vec![("Catalogue".to_owned(), "index".to_owned())],
        blocks: vec![
            paragraph("Public incidents, the latest first, summarized, with the source."),
            PageBlock::Table(vec!["made public", "case", "source"], rows.collect()),
        ],
    }];
    docs.extend(incidents().iter().map(incident_page));
    docs
}

fn incident_page(own: &Incident) -> PageDocument {
    let shown = attack_patterns().iter().filter(|pattern| own.attacks.contains(&pattern.slug));
    let shown = shown.map(|own| {
        vec![link_run(own.name.clone(), format!("attacks/{}", own.slug)), text_run(format!(": {}", own.summary))]
    });
    let mut facts =
        vec![("Made public", vec![text_run(own.date.clone())]), ("Source", vec![text_run(own.source.clone())])];
    facts.extend(own.packages.iter().map(|package| {
        let name = code_run(&format!("{}:{}", package.source.as_str(), package.name));
        ("Package", vec![name, text_run(format!(", {}", package.versions_text()))])
    }));
    PageDocument {
        path: format!("incidents/{}", own.slug),
        title: own.title.clone(),
        summary: own.summary.clone(),
        breadcrumbs: vec![
            ("Catalogue".to_owned(), "index".to_owned()),
            ("Incidents".to_owned(), "incidents/index".to_owned()),
        ],
        blocks: vec![
            PageBlock::Facts(facts),
            PageBlock::Heading("", vec![text_run("What happened")]),
            PageBlock::Paragraph(parse_backticks(&own.summary)),
            PageBlock::Heading("", vec![text_run("What follows")]),
            PageBlock::Paragraph(parse_backticks(&own.lesson)),
            PageBlock::Heading("", vec![text_run("Patterns in this case")]),
            PageBlock::List(shown.collect()),
        ],
    }
}
