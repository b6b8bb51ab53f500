//! The page about a server.

use gatelodge_policy::Category;

use super::page_document::{InlineTextRun, InlineTextRuns, PageBlock, PageDocument, code_run, paragraph, text_run};
use super::{StaticSite, count_text, grouped_number, page_paths};
use crate::classification_rationale::is_about_name;
use crate::classify::{Classification, RiskLevel, category_name};
use crate::package_index::index_file_format::CATEGORIES_BY_NUMBER;
use crate::package_index::{IndexedServer, ServerCatalogueEntry, ToolChange, ToolChangeKind};
use crate::precheck::precheck_indexed;
use crate::server_grade::grade_server;
use crate::starter_policy::{StarterPolicyStrictness, starter_policy};
use crate::tool_spec::ToolSpec;

/// Maximum number of dangerous tools shown at the top of the page.
const MAX_DANGEROUS_TOOLS: usize = 6;
/// Maximum number of changes to list. This is enough for all changes that one index update records for a server.
const MAX_LISTED_CHANGES: usize = 60;

/// Returns the display name of a server.
pub(super) fn server_display_name(server: &IndexedServer<'_>) -> String {
    crate::escape_for_display(server.package())
}

/// Counts tools by category.
pub(super) fn category_counts(categories: impl Iterator<Item = Category> + Clone) -> Vec<(&'static str, usize)> {
    let count = |wanted: Category| categories.clone().filter(|own| *own == wanted).count();
    let all = CATEGORIES_BY_NUMBER.iter().map(|own| (category_name(*own), count(*own)));
    all.filter(|(name, count)| *count > 0 || *name != "Unknown").collect()
}

/// Builds the page about a server.
pub(super) fn server_page(
    site: &StaticSite<'_>,
    server: &IndexedServer<'_>,
    known: &ServerCatalogueEntry,
    tools: &[(ToolSpec<'_>, Classification)],
) -> PageDocument {
    let (own, folder) = (server_display_name(server), page_paths::server_path(server));
    let grade = grade_server(&known.tools);
    let advice = precheck_indexed(server, &known.tools);
    let before = format!("{}: {}", advice.verdict.as_str(), advice.reasons.join("; "));
    let level = server.tools().map(|tool| tool.level()).max().unwrap_or(RiskLevel::Low);
    let reads = known.tools.iter().filter(|tool| tool.category == Category::Read).count();
    let date = server.date().map_or_else(|| "not known".to_owned(), crate::escape_for_display);
    let mut blocks = vec![
        PageBlock::Paragraph(vec![
            InlineTextRun::Badge(level),
            text_run(format!(
                " {}: {} can change, run, destroy or spend, {reads} only read.",
                count_text(known.tools.len(), "tool"),
                known.tools.len() - reads
            )),
        ]),
        PageBlock::Facts(vec![
            ("Package", vec![code_run(&format!("{}:{}", server.source().as_str(), server.package()))]),
            ("Indexed version", vec![text_run(crate::escape_for_display(server.version()))]),
            ("Published", vec![text_run(date)]),
            ("Before connecting", super::page_document::parse_backticks(&before)),
            (
                "Tokens of its tool list, without descriptions",
                vec![text_run(format!("about {}", grouped_number(known.estimated_tokens())))],
            ),
        ]),
        PageBlock::CategoryBar(category_counts(known.tools.iter().map(|tool| tool.category))),
        PageBlock::Grade(grade.letter, grade.reasons),
    ];
    let places = page_paths::tool_paths(server);
    blocks.extend(dangerous_tools_section(tools, &places));
    blocks.extend(policies_section(&known.name, tools));
    blocks.push(PageBlock::Heading("tools", vec![text_run("All tools")]));
    let rows = tools.iter().zip(&places).map(|((tool, own), place)| tool_row(tool, own, place));
    blocks.push(PageBlock::Table(vec!["tool", "risk", "category", "confidence", "offered"], rows.collect()));
    blocks.extend(changes_section(site, server));
    PageDocument {
        path: format!("{folder}/index"),
        title: own.clone(),
        summary: format!(
            "{own}: grade {}, {}, and three policies for it.",
            grade.letter,
            count_text(known.tools.len(), "tool")
        ),
        breadcrumbs: vec![
            ("Catalogue".to_owned(), "index".to_owned()),
            ("Servers".to_owned(), "servers/index".to_owned()),
        ],
        blocks,
    }
}

/// Lists the changes since the server was first indexed, latest date first, and within each date the most serious
/// first.
fn changes_section(site: &StaticSite<'_>, server: &IndexedServer<'_>) -> Vec<PageBlock> {
    let own = site.history.get(&(server.source(), server.package().to_owned()));
    let days = own.map(|own| own.chunk_by(|one, next| one.0 == next.0).rev());
    let latest = days.into_iter().flatten().flatten().take(MAX_LISTED_CHANGES);
    let items: Vec<InlineTextRuns> = latest.map(|(date, change)| change_line(date, change)).collect();
    let none = "No changes are known. The index keeps a hash of each tool's definition, and lists differences in later versions here.";
    let list = if items.is_empty() { paragraph(none) } else { PageBlock::List(items) };
    vec![
        PageBlock::Heading("", vec![text_run("Changes")]),
        list,
        paragraph("The gateway itself blocks a tool whose definition changed until a person accepts it."),
    ]
}

/// Describes one change to a tool, or a summary of remaining changes.
fn change_line(date: &str, change: &ToolChange) -> InlineTextRuns {
    let day = text_run(format!("{}: ", crate::escape_for_display(date)));
    if change.kind != ToolChangeKind::MoreChanges {
        return vec![day, code_run(&change.tool), text_run(format!(" {}", change.kind.description()))];
    }
    let each = change.counts.iter().map(|(kind, count)| {
        let noun = if *count == 1 { "tool" } else { "tools" };
        format!("{} {noun} {}", grouped_number(*count), kind.description_for_count(*count))
    });
    vec![day, text_run(format!("and {}", each.collect::<Vec<_>>().join(", ")))]
}

fn tool_row(tool: &ToolSpec<'_>, own: &Classification, place: &str) -> Vec<InlineTextRuns> {
    vec![
        vec![InlineTextRun::CodeLink(crate::escape_for_display(&tool.name), place.to_owned())],
        vec![InlineTextRun::Badge(own.level)],
        vec![text_run(own.qualified_category_name())],
        vec![text_run(format!("{:.2}", own.confidence))],
        vec![text_run(if own.optional { "only under a setting" } else { "by default" })],
    ]
}

fn dangerous_tools_section(tools: &[(ToolSpec<'_>, Classification)], places: &[String]) -> Vec<PageBlock> {
    let mut worst: Vec<_> = tools.iter().zip(places).filter(|((_, own), _)| own.level >= RiskLevel::High).collect();
    worst.sort_by_key(|((tool, own), _)| (std::cmp::Reverse(own.level), tool.name.clone()));
    if worst.is_empty() {
        return Vec::new();
    }
    let items = worst.into_iter().take(MAX_DANGEROUS_TOOLS).map(|((tool, own), place)| {
        // Other facts have weight as well, but do not say what is dangerous.
        let why = own.evidence.iter().find(|fact| is_about_name(fact)).map(|fact| format!(": {fact}"));
        let mut line = vec![
            InlineTextRun::CodeLink(crate::escape_for_display(&tool.name), place.clone()),
            text_run(" "),
            InlineTextRun::Badge(own.level),
            text_run(format!(" {}", own.qualified_category_name())),
        ];
        line.extend(super::page_document::parse_backticks(&why.unwrap_or_default()));
        line
    });
    vec![PageBlock::Heading("", vec![text_run("Most dangerous tools")]), PageBlock::List(items.collect())]
}

fn policies_section(name: &str, tools: &[(ToolSpec<'_>, Classification)]) -> Vec<PageBlock> {
    let tools: Vec<_> = tools.iter().map(|(tool, own)| (tool, own)).collect();
    let mut blocks = vec![
        PageBlock::Heading("policies", vec![text_run("Three recommended policies")]),
        paragraph(
            "Each is a complete policy. It names every tool, allows harmless ones, and refuses tools that are added later.",
        ),
    ];
    for strictness in StarterPolicyStrictness::ALL {
        let title = format!("{}: {}", strictness.as_str(), strictness.description().trim_end_matches('.'));
        match starter_policy(name, &tools, strictness) {
            Ok(policy) => blocks.push(PageBlock::CollapsedCode(title, policy)),
            Err(error) => blocks.push(paragraph(error.to_string())),
        }
    }
    blocks
}
