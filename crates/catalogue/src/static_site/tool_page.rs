//! The page about a tool.

use gatelodge_policy::Category;

use super::page_document::{
    InlineTextRun, InlineTextRuns, PageBlock, PageDocument, code_run, link_run, paragraph, parse_backticks, text_run,
};
use super::{page_paths, server_page};
use crate::attack_pattern::attack_patterns;
use crate::classify::{Classification, RiskLevel};
use crate::package_index::{IndexedServer, ServerCatalogueEntry, ToolFacts};
use crate::recommendation::{RecommendedAction, recommendation_effect};
use crate::risk_signals::RiskSignalKind;
use crate::tool_spec::ToolSpec;

/// Maximum number of related tools to list.
const MAX_RELATED_LINKS: usize = 8;

const OPTIONAL_TOOL_NOTE: &str =
    "It is available only under a setting: by default it is off, or in another program of the package.";

/// The data that a tool's page is built from.
struct ToolPageContext<'p> {
    name: String,
    server: String,
    server_path: String,
    classification: &'p Classification,
    facts: &'p ToolFacts,
}

/// Builds the page about a tool.
pub(super) fn tool_page(
    own: &IndexedServer<'_>,
    known: &ServerCatalogueEntry,
    tools: &[(ToolSpec<'_>, Classification)],
    places: &[String],
    at: usize,
    path: &str,
) -> Option<PageDocument> {
    let (facts, (_, answer)) = (known.tools.get(at)?, tools.get(at)?);
    let about = ToolPageContext {
        name: crate::escape_for_display(&facts.name),
        server: server_page::server_display_name(own),
        server_path: format!("{}/index", page_paths::server_path(own)),
        classification: answer,
        facts,
    };
    let level = RiskLevel::as_str(answer.level);
    let mut blocks = vec![
        PageBlock::Paragraph(vec![
            InlineTextRun::Badge(answer.level),
            text_run(" "),
            link_run(format!("{level} risk"), format!("risk/{}", level.to_lowercase())),
            text_run(format!(" · {} tool of ", answer.qualified_category_name())),
            link_run(about.server.clone(), about.server_path.clone()),
            text_run(" · "),
            link_run("How to control it ↓", "#control"),
        ]),
        paragraph(if facts.signals.contains(&RiskSignalKind::NoDescription) {
            "It has no description of its own."
        } else {
            "Its own description was read to classify it, and is not stored."
        }),
    ];
    if facts.optional {
        blocks.push(paragraph(OPTIONAL_TOOL_NOTE));
    }
    blocks.extend(purpose_section(&about));
    blocks.extend(risk_section(&about));
    blocks.extend(control_section(&about, own));
    blocks.extend(parameters_section(&about));
    blocks.extend(related_tools_section(known, tools, places, at));
    blocks.extend(further_reading_section(&about));
    blocks.extend(questions_section(&about));
    Some(PageDocument {
        path: path.to_owned(),
        title: about.name.clone(),
        summary: format!(
            "{} on {}: {}, {level} risk, and the recommended rule.",
            about.name,
            about.server,
            tool_kind_text(answer)
        ),
        breadcrumbs: vec![
            ("Catalogue".to_owned(), "index".to_owned()),
            ("Servers".to_owned(), "servers/index".to_owned()),
            (about.server.clone(), about.server_path.clone()),
        ],
        blocks,
    })
}

/// Returns the indefinite article for a category's name.
pub(super) fn indefinite_article(category: &str) -> &'static str {
    if category.starts_with(['E', 'U']) { "an" } else { "a" }
}

/// Describes the tool's category, including the confidence if the category is uncertain.
fn tool_kind_text(known: &Classification) -> String {
    let category = known.category_name();
    match known.is_uncertain() {
        true => {
            format!(
                "{} {} {category} tool (confidence {:.2})",
                known.certainty_word(),
                indefinite_article(category),
                known.confidence
            )
        }
        false => format!("{} {category} tool", indefinite_article(category)),
    }
}

fn purpose_section(about: &ToolPageContext<'_>) -> Vec<PageBlock> {
    let server = &about.server;
    let does = match about.classification.category {
        Category::Read => format!(
            "Agents call it to look something up in {server}, mostly at the beginning of a task. A call changes nothing there. Its result goes to the model, and may go from there to other tools."
        ),
        Category::Write => format!(
            "Agents use it to add or change something in {server}, mostly as the step after reading. Each call changes real data there."
        ),
        Category::Execute => format!(
            "Agents use it to start something in {server}. The arguments decide what happens, and the effect often goes beyond the call: code runs, jobs start, messages are sent."
        ),
        Category::Destructive => format!(
            "Agents use it to remove something from {server}, or to overwrite it. A second call does not restore it."
        ),
        Category::Financial => {
            format!("Agents use it to commit money through {server}. Another call does not undo a payment or an order.")
        }
        Category::Unknown => format!(
            "Its definition does not say clearly what it does in {server}. A tool that is not understood is treated as risky."
        ),
    };
    let does = match about.classification.is_uncertain() {
        true => format!("It is {}; this is what such tools do. {does}", tool_kind_text(about.classification)),
        false => does,
    };
    vec![
        PageBlock::Heading(
            "",
            vec![text_run("What "), code_run(&about.facts.name), text_run(format!(" does on {server}"))],
        ),
        paragraph(does),
    ]
}

fn risk_section(about: &ToolPageContext<'_>) -> Vec<PageBlock> {
    let known = about.classification;
    let mut sentence = vec![InlineTextRun::Badge(known.level), text_run(" ")];
    sentence.extend(
        known.uncertainty_note().map(|doubt| text_run(format!("{doubt} (confidence {:.2}). ", known.confidence))),
    );
    sentence.extend(parse_backticks(&known.rationale));
    let mut blocks = vec![
        PageBlock::Heading("", vec![text_run("Why "), code_run(&about.facts.name), text_run(" needs a policy")]),
        PageBlock::Paragraph(sentence),
        paragraph(format!(
            "Confidence {:.2}: of a hundred tools with this number, the category of about {:.0} is right.",
            known.confidence,
            known.confidence * 100.0
        )),
        PageBlock::Subheading(vec![text_run("From the tool's definition")]),
        PageBlock::List(known.evidence.iter().map(|fact| parse_backticks(fact)).collect()),
    ];
    if !known.signals.is_empty() {
        blocks.push(PageBlock::Subheading(vec![text_run("Risk signals")]));
        let items = known.signals.iter().map(|signal| {
            let mut line = match &signal.parameter {
                Some(parameter) => vec![InlineTextRun::Code(parameter.clone()), text_run(" ")],
                None => vec![text_run("It ")],
            };
            line.push(text_run(signal.kind.description()));
            line
        });
        blocks.push(PageBlock::List(items.collect()));
    }
    let served: Vec<InlineTextRuns> = attack_patterns()
        .iter()
        .filter(|pattern| known.attacks.contains(&pattern.slug.as_str()))
        .map(|own| {
            vec![link_run(own.name.clone(), format!("attacks/{}", own.slug)), text_run(format!(": {}", own.summary))]
        })
        .collect();
    blocks.push(PageBlock::Subheading(vec![text_run("Attack patterns that it can be used for")]));
    blocks.push(if served.is_empty() {
        paragraph("None of the known patterns depends on what this tool does.")
    } else {
        PageBlock::List(served)
    });
    blocks
}

fn control_section(about: &ToolPageContext<'_>, own: &IndexedServer<'_>) -> Vec<PageBlock> {
    let name = &about.name;
    let policy = super::policy_text(&about.classification.recommended);
    let package = format!("{}:{}", own.source().as_str(), about.server);
    let mut blocks = vec![
        PageBlock::Heading("control", vec![text_run("How to control "), code_run(&about.facts.name)]),
        paragraph(format!(
            "A gateway is between your agents and {}, and forwards only calls that the rules allow. This is the recommended rule:",
            about.server
        )),
        PageBlock::Code("policy.json".to_owned(), policy),
        PageBlock::Paragraph(parse_backticks(&format!(
            "{} Every other tool of the server is refused unless you allow it.",
            recommendation_effect(about.classification.category)
        ))),
    ];
    blocks.push(PageBlock::NumberedList(vec![
        vec![
            text_run("Register the server: "),
            InlineTextRun::Code("gatelodge server add".to_owned()),
            text_run(", or "),
            InlineTextRun::Code("gatelodge init".to_owned()),
            text_run(" for servers that your clients already have."),
        ],
        vec![
            text_run(format!("Put {name} into its policy as above, or start with one for the whole server: ")),
            InlineTextRun::Code(format!("gatelodge catalogue show {package} --policy recommended")),
            text_run("."),
        ],
        vec![
            text_run("Point your client at the gateway: "),
            InlineTextRun::Code("gatelodge connect CLIENT".to_owned()),
            text_run("."),
        ],
    ]));
    blocks
}

fn parameters_section(about: &ToolPageContext<'_>) -> Vec<PageBlock> {
    let all = &about.facts.parameters;
    let required = all.iter().filter(|own| own.required).count();
    let mut blocks = vec![PageBlock::Heading("", vec![text_run("Parameters")])];
    if all.is_empty() {
        blocks.push(paragraph("It takes none."));
        return blocks;
    }
    blocks.push(paragraph(format!("{}, {required} of them required.", all.len())));
    let rows = all.iter().map(|own| {
        let kind = if own.kind.is_empty() { "not said" } else { &own.kind };
        vec![vec![code_run(&own.name)], vec![text_run(kind)], vec![text_run(if own.required { "yes" } else { "no" })]]
    });
    blocks.push(PageBlock::Table(vec!["name", "type", "required"], rows.collect()));
    blocks
}

/// Lists other tools on the same server: first those in the same category, then the riskiest.
fn related_tools_section(
    known: &ServerCatalogueEntry,
    tools: &[(ToolSpec<'_>, Classification)],
    places: &[String],
    at: usize,
) -> Vec<PageBlock> {
    let own = tools.get(at).map(|(_, own)| own.category);
    let mut others: Vec<(usize, &ToolFacts)> =
        known.tools.iter().enumerate().filter(|(other, _)| *other != at).collect();
    others.sort_by_key(|(at, facts)| {
        (Some(facts.category) != own, std::cmp::Reverse(RiskLevel::of(facts.category)), *at)
    });
    if others.is_empty() {
        return Vec::new();
    }
    let items = others.into_iter().take(MAX_RELATED_LINKS).filter_map(|(at, facts)| {
        let path = places.get(at)?.clone();
        Some(vec![
            InlineTextRun::CodeLink(crate::escape_for_display(&facts.name), path),
            text_run(" "),
            InlineTextRun::Badge(RiskLevel::of(facts.category)),
        ])
    });
    vec![PageBlock::Heading("", vec![text_run("Related tools")]), PageBlock::List(items.collect())]
}

fn further_reading_section(about: &ToolPageContext<'_>) -> Vec<PageBlock> {
    let level = RiskLevel::as_str(about.classification.level);
    vec![
        PageBlock::Heading("", vec![text_run("Go deeper")]),
        PageBlock::List(vec![
            vec![link_run(
                format!("All tools of {}, its grade and three policies", about.server),
                about.server_path.clone(),
            )],
            vec![link_run(format!("What {level} risk means"), format!("risk/{}", level.to_lowercase()))],
            vec![link_run("What servers add up to", "stack")],
        ]),
    ]
}

fn questions_section(about: &ToolPageContext<'_>) -> Vec<PageBlock> {
    let (name, server, known) = (&about.name, &about.server, about.classification);
    let category = known.category_name();
    let could = if known.is_uncertain() { "such tools can" } else { "so it can" };
    let (can, advice) = match known.category {
        Category::Read => ("look things up", "Allow reads, and consider where the results go."),
        Category::Write => ("add or change things", "Limit the rate, so that a loop cannot make hundreds of changes."),
        Category::Execute => ("run or start something", "Limit the rate, and check the arguments against the schema."),
        Category::Destructive => ("remove things permanently", "Hide it, or let a person approve each call."),
        Category::Financial => ("commit money", "Let a person approve each call."),
        Category::Unknown => ("do something unknown", "Let a person approve each call until its effect is known."),
    };
    let rate = match RecommendedAction::of(known.category) {
        RecommendedAction::RateLimit(max) => max,
        RecommendedAction::Allow | RecommendedAction::Approve | RecommendedAction::Hide => 10,
    };
    let all = vec![
        (
            format!("What does {name} do?"),
            parse_backticks(&format!("It is {} of {server}, {could} {can}. {advice}", tool_kind_text(known))),
        ),
        (
            format!("How do I enforce a policy on {name}?"),
            parse_backticks(
                "Register the server with the gateway, put a rule for the tool into its policy (allow, deny, limit, or require approval), and point the client at the gateway's URL. The rule is applied to each call before it reaches the server.",
            ),
        ),
        (
            format!("What risk level is {name}?"),
            parse_backticks(&format!(
                "{}. {category} tools are {} risk: the level follows from how far a call can be undone.",
                RiskLevel::as_str(known.level),
                RiskLevel::as_str(known.level)
            )),
        ),
        (
            format!("Can I rate-limit {name}?"),
            parse_backticks(&format!(
                "Yes: `\"rate_limit\": \"{rate}/minute\"` in its rule, or `limits` with a counter of your own. Calls are counted for each grant, exactly, also across restarts; a refusal says when the limit resets."
            )),
        ),
        (
            format!("How do I block {name} completely?"),
            parse_backticks(
                "`\"action\": \"deny\"` with a `reason` refuses each call and gives the agent the reason; its name under `hide` hides it from the agent.",
            ),
        ),
        (
            format!("Which MCP server provides {name}?"),
            parse_backticks(&format!("{server}, and perhaps others. The gateway is a proxy in front of it.")),
        ),
    ];
    vec![
        PageBlock::Heading("", vec![text_run("Questions about "), code_run(&about.facts.name)]),
        PageBlock::Questions(all),
    ]
}
