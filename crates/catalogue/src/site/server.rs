//! The page of a server.

use gatelodge_policy::Category;

use super::doc::{Block, Doc, Inline, Line, code, paragraph, text};
use super::{Site, counted, grouped, place};
use crate::classification_rationale::is_about_name;
use crate::classify::{Classification, RiskLevel, category_name};
use crate::package_index::format::CATEGORIES_BY_NUMBER;
use crate::package_index::{CataloguedServer, IndexedServer, ToolChange, ToolChangeKind};
use crate::precheck::precheck_indexed;
use crate::server_grade::grade_server;
use crate::starter_policy::{Strictness, starter_policy};
use crate::tool_spec::ToolSpec;

/// So many of the most dangerous are shown above the others.
const MOST_DANGEROUS: usize = 6;
/// Older changes are not told. One update has fewer of a server.
const MOST_CHANGES: usize = 60;

/// A server's name for people.
pub(super) fn name(server: &IndexedServer<'_>) -> String {
    crate::escape_for_display(server.package())
}

/// How many tools of which category.
pub(super) fn counts(categories: impl Iterator<Item = Category> + Clone) -> Vec<(&'static str, usize)> {
    let count = |wanted: Category| categories.clone().filter(|own| *own == wanted).count();
    let all = CATEGORIES_BY_NUMBER.iter().map(|own| (category_name(*own), count(*own)));
    all.filter(|(name, count)| *count > 0 || *name != "Unknown").collect()
}

/// Writes the page of a server.
pub(super) fn page(
    site: &Site<'_>,
    server: &IndexedServer<'_>,
    known: &CataloguedServer,
    tools: &[(ToolSpec<'_>, Classification)],
) -> Doc {
    let (own, folder) = (name(server), place::server(server));
    let grade = grade_server(&known.tools);
    let advice = precheck_indexed(server, &known.tools);
    let before = format!("{}: {}", advice.verdict.as_str(), advice.reasons.join("; "));
    let level = server.tools().map(|tool| tool.level()).max().unwrap_or(RiskLevel::Low);
    let reads = known.tools.iter().filter(|tool| tool.category == Category::Read).count();
    let date = server.date().map_or_else(|| "not known".to_owned(), crate::escape_for_display);
    let mut blocks = vec![
        Block::Paragraph(vec![
            Inline::Badge(level),
            text(format!(
                " {}: {} can change, run, destroy or spend, {reads} only read.",
                counted(known.tools.len(), "tool"),
                known.tools.len() - reads
            )),
        ]),
        Block::Facts(vec![
            ("Package", vec![code(&format!("{}:{}", server.source().as_str(), server.package()))]),
            ("Version that was read", vec![text(crate::escape_for_display(server.version()))]),
            ("Published", vec![text(date)]),
            ("Before connecting", super::doc::marked(&before)),
            (
                "Tokens of its list, without descriptions",
                vec![text(format!("about {}", grouped(known.estimated_tokens())))],
            ),
        ]),
        Block::Bar(counts(known.tools.iter().map(|tool| tool.category))),
        Block::Grade(grade.letter, grade.reasons),
    ];
    let places = place::tools(server);
    blocks.extend(dangerous(tools, &places));
    blocks.extend(policies(&known.name, tools));
    blocks.push(Block::Heading("tools", vec![text("All tools")]));
    let rows = tools.iter().zip(&places).map(|((tool, own), place)| row(tool, own, place));
    blocks.push(Block::Table(vec!["tool", "risk", "category", "confidence", "offered"], rows.collect()));
    blocks.extend(changes(site, server));
    Doc {
        path: format!("{folder}/index"),
        title: own.clone(),
        summary: format!(
            "{own}: grade {}, {}, and three policies for it.",
            grade.letter,
            counted(known.tools.len(), "tool")
        ),
        trail: vec![("Catalogue".to_owned(), "index".to_owned()), ("Servers".to_owned(), "servers/index".to_owned())],
        blocks,
    }
}

/// What changed since it is in the index: the latest day first, of a day the gravest.
fn changes(site: &Site<'_>, server: &IndexedServer<'_>) -> Vec<Block> {
    let own = site.history.get(&(server.source(), server.package().to_owned()));
    let days = own.map(|own| own.chunk_by(|one, next| one.0 == next.0).rev());
    let latest = days.into_iter().flatten().flatten().take(MOST_CHANGES);
    let told: Vec<Line> = latest.map(|(date, change)| event(date, change)).collect();
    let none = "None is known. The index keeps a hash of what was read of each tool, and what differs in a later version is told here.";
    let list = if told.is_empty() { paragraph(none) } else { Block::List(told) };
    vec![
        Block::Heading("", vec![text("Changes")]),
        list,
        paragraph("The gateway itself holds a tool whose definition changed, until somebody has accepted it."),
    ]
}

/// One change, or how many more there are.
fn event(date: &str, change: &ToolChange) -> Line {
    let day = text(format!("{}: ", crate::escape_for_display(date)));
    if change.kind != ToolChangeKind::MoreChanges {
        return vec![day, code(&change.tool), text(format!(" {}", change.kind.description()))];
    }
    let each = change.counts.iter().map(|(kind, count)| {
        let noun = if *count == 1 { "tool" } else { "tools" };
        format!("{} {noun} {}", grouped(*count), kind.description_for_count(*count))
    });
    vec![day, text(format!("and {}", each.collect::<Vec<_>>().join(", ")))]
}

fn row(tool: &ToolSpec<'_>, own: &Classification, place: &str) -> Vec<Line> {
    vec![
        vec![Inline::CodeLink(crate::escape_for_display(&tool.name), place.to_owned())],
        vec![Inline::Badge(own.level)],
        vec![text(own.qualified_category_name())],
        vec![text(format!("{:.2}", own.confidence))],
        vec![text(if own.optional { "only under a setting" } else { "by default" })],
    ]
}

fn dangerous(tools: &[(ToolSpec<'_>, Classification)], places: &[String]) -> Vec<Block> {
    let mut worst: Vec<_> = tools.iter().zip(places).filter(|((_, own), _)| own.level >= RiskLevel::High).collect();
    worst.sort_by_key(|((tool, own), _)| (std::cmp::Reverse(own.level), tool.name.clone()));
    if worst.is_empty() {
        return Vec::new();
    }
    let told = worst.into_iter().take(MOST_DANGEROUS).map(|((tool, own), place)| {
        // Other facts weigh as well, and do not say what is dangerous.
        let why = own.evidence.iter().find(|fact| is_about_name(fact)).map(|fact| format!(": {fact}"));
        let mut line = vec![
            Inline::CodeLink(crate::escape_for_display(&tool.name), place.clone()),
            text(" "),
            Inline::Badge(own.level),
            text(format!(" {}", own.qualified_category_name())),
        ];
        line.extend(super::doc::marked(&why.unwrap_or_default()));
        line
    });
    vec![Block::Heading("", vec![text("Most dangerous tools")]), Block::List(told.collect())]
}

fn policies(name: &str, tools: &[(ToolSpec<'_>, Classification)]) -> Vec<Block> {
    let tools: Vec<_> = tools.iter().map(|(tool, own)| (tool, own)).collect();
    let mut blocks = vec![
        Block::Heading("policies", vec![text("Three ready policies")]),
        paragraph(
            "Each is a whole document. It names every tool, keeps what is harmless working, and refuses what comes later.",
        ),
    ];
    for posture in Strictness::ALL {
        let title = format!("{}: {}", posture.as_str(), posture.description().trim_end_matches('.'));
        match starter_policy(name, &tools, posture) {
            Ok(policy) => blocks.push(Block::Folded(title, policy)),
            Err(error) => blocks.push(paragraph(error.to_string())),
        }
    }
    blocks
}
