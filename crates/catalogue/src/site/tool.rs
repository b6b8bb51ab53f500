//! The page of a tool.

use gatelodge_policy::Category;

use super::doc::{Block, Doc, Inline, Line, code, link, marked, paragraph, text};
use super::{place, server};
use crate::attack_pattern::attack_patterns;
use crate::classify::{Classification, RiskLevel};
use crate::package_index::{CataloguedServer, IndexedServer, ToolFacts};
use crate::recommendation::{RecommendedAction, recommendation_effect};
use crate::risk_signals::RiskSignalKind;
use crate::tool_spec::ToolSpec;

/// More tools beside it are not named.
const MOST_RELATED: usize = 8;

const ONLY_UNDER_A_SETTING: &str =
    "It is there only under a setting: by default it is off, or in another program of the package.";

/// What it is on its server, and what is known of it.
struct About<'p> {
    name: String,
    server: String,
    server_place: String,
    known: &'p Classification,
    facts: &'p ToolFacts,
}

/// Writes the page of the tool at a place among its siblings.
pub(super) fn page(
    own: &IndexedServer<'_>,
    known: &CataloguedServer,
    tools: &[(ToolSpec<'_>, Classification)],
    places: &[String],
    at: usize,
    path: &str,
) -> Option<Doc> {
    let (facts, (_, answer)) = (known.tools.get(at)?, tools.get(at)?);
    let about = About {
        name: crate::escape_for_display(&facts.name),
        server: server::name(own),
        server_place: format!("{}/index", place::server(own)),
        known: answer,
        facts,
    };
    let level = RiskLevel::as_str(answer.level);
    let mut blocks = vec![
        Block::Paragraph(vec![
            Inline::Badge(answer.level),
            text(" "),
            link(format!("{level} risk"), format!("risk/{}", level.to_lowercase())),
            text(format!(" · {} tool of ", answer.qualified_category_name())),
            link(about.server.clone(), about.server_place.clone()),
            text(" · "),
            link("How to control it ↓", "#control"),
        ]),
        paragraph(if facts.signals.contains(&RiskSignalKind::NoDescription) {
            "It has no description of its own."
        } else {
            "Its own description was read to classify it, and is not kept."
        }),
    ];
    if facts.optional {
        blocks.push(paragraph(ONLY_UNDER_A_SETTING));
    }
    blocks.extend(what(&about));
    blocks.extend(why(&about));
    blocks.extend(control(&about, own));
    blocks.extend(takes(&about));
    blocks.extend(related(known, tools, places, at));
    blocks.extend(deeper(&about));
    blocks.extend(questions(&about));
    Some(Doc {
        path: path.to_owned(),
        title: about.name.clone(),
        summary: format!(
            "{} on {}: {}, {level} risk, and the rule that fits.",
            about.name,
            about.server,
            a_tool(answer)
        ),
        trail: vec![
            ("Catalogue".to_owned(), "index".to_owned()),
            ("Servers".to_owned(), "servers/index".to_owned()),
            (about.server.clone(), about.server_place.clone()),
        ],
        blocks,
    })
}

/// The article before the name of a category.
pub(super) fn article(category: &str) -> &'static str {
    if category.starts_with(['E', 'U']) { "an" } else { "a" }
}

/// What kind of tool it is, and how sure that is where it is not.
fn a_tool(known: &Classification) -> String {
    let category = known.category_name();
    match known.is_uncertain() {
        true => {
            format!(
                "{} {} {category} tool (confidence {:.2})",
                known.certainty_word(),
                article(category),
                known.confidence
            )
        }
        false => format!("{} {category} tool", article(category)),
    }
}

fn what(about: &About<'_>) -> Vec<Block> {
    let server = &about.server;
    let does = match about.known.category {
        Category::Read => format!(
            "Agents call it to look something up in {server}, mostly at the beginning of a task. A call changes nothing there; what it gives ends up with the model, and from there perhaps elsewhere."
        ),
        Category::Write => format!(
            "Agents use it to add or change something in {server}, mostly as the step that follows from what they have read. Each call changes real data there."
        ),
        Category::Execute => format!(
            "Agents use it to set something off in {server}. What happens is decided by the arguments, and often reaches further than the call: code runs, jobs start, messages go out."
        ),
        Category::Destructive => format!(
            "Agents use it to take something away from {server}, or to write over it. What is gone is gone; a second call does not bring it back."
        ),
        Category::Financial => format!(
            "Agents use it to commit money through {server}. What was paid or ordered is not taken back by another call."
        ),
        Category::Unknown => format!(
            "Nothing in its definition says for certain what it does in {server}. What is not understood is treated as risky."
        ),
    };
    let does = match about.known.is_uncertain() {
        true => format!("It is {}; this is what such tools do. {does}", a_tool(about.known)),
        false => does,
    };
    vec![
        Block::Heading("", vec![text("What "), code(&about.facts.name), text(format!(" does on {server}"))]),
        paragraph(does),
    ]
}

fn why(about: &About<'_>) -> Vec<Block> {
    let known = about.known;
    let mut sentence = vec![Inline::Badge(known.level), text(" ")];
    sentence
        .extend(known.uncertainty_note().map(|doubt| text(format!("{doubt} (confidence {:.2}). ", known.confidence))));
    sentence.extend(marked(&known.rationale));
    let mut blocks = vec![
        Block::Heading("", vec![text("Why "), code(&about.facts.name), text(" needs a policy")]),
        Block::Paragraph(sentence),
        paragraph(format!(
            "Confidence {:.2}: of a hundred tools that are given this figure, about {:.0} are what they are taken for.",
            known.confidence,
            known.confidence * 100.0
        )),
        Block::Small(vec![text("From the tool's definition")]),
        Block::List(known.evidence.iter().map(|fact| marked(fact)).collect()),
    ];
    if !known.signals.is_empty() {
        blocks.push(Block::Small(vec![text("Risk signals")]));
        let told = known.signals.iter().map(|signal| {
            let mut line = match &signal.parameter {
                Some(parameter) => vec![Inline::Code(parameter.clone()), text(" ")],
                None => vec![text("It ")],
            };
            line.push(text(signal.kind.description()));
            line
        });
        blocks.push(Block::List(told.collect()));
    }
    let served: Vec<Line> = attack_patterns()
        .iter()
        .filter(|pattern| known.attacks.contains(&pattern.slug.as_str()))
        .map(|own| vec![link(own.name.clone(), format!("attacks/{}", own.slug)), text(format!(": {}", own.summary))])
        .collect();
    blocks.push(Block::Small(vec![text("Attack patterns that this access serves")]));
    blocks.push(if served.is_empty() {
        paragraph("None of the known patterns rests on what this tool does.")
    } else {
        Block::List(served)
    });
    blocks
}

fn control(about: &About<'_>, own: &IndexedServer<'_>) -> Vec<Block> {
    let name = &about.name;
    let policy = super::laid_out(&about.known.recommended);
    let package = format!("{}:{}", own.source().as_str(), about.server);
    let mut blocks = vec![
        Block::Heading("control", vec![text("How to control "), code(&about.facts.name)]),
        paragraph(format!(
            "A gateway stands between your agents and {}, and nothing reaches the server that the rules do not let through. This is the rule that fits:",
            about.server
        )),
        Block::Code("policy.json".to_owned(), policy),
        Block::Paragraph(marked(&format!(
            "{} Everything else on the server is refused unless you say otherwise.",
            recommendation_effect(about.known.category)
        ))),
    ];
    blocks.push(Block::Steps(vec![
        vec![
            text("Register the server: "),
            Inline::Code("gatelodge server add".to_owned()),
            text(", or "),
            Inline::Code("gatelodge init".to_owned()),
            text(" for what your clients already have."),
        ],
        vec![
            text(format!("Put {name} into its policy as above, or start with one for the whole server: ")),
            Inline::Code(format!("gatelodge catalogue show {package} --policy recommended")),
            text("."),
        ],
        vec![
            text("Point your client at the gateway: "),
            Inline::Code("gatelodge connect CLIENT".to_owned()),
            text("."),
        ],
    ]));
    blocks
}

fn takes(about: &About<'_>) -> Vec<Block> {
    let all = &about.facts.parameters;
    let required = all.iter().filter(|own| own.required).count();
    let mut blocks = vec![Block::Heading("", vec![text("Parameters")])];
    if all.is_empty() {
        blocks.push(paragraph("It takes none."));
        return blocks;
    }
    blocks.push(paragraph(format!("{}, of which {required} must be given.", all.len())));
    let rows = all.iter().map(|own| {
        let kind = if own.kind.is_empty() { "not said" } else { &own.kind };
        vec![vec![code(&own.name)], vec![text(kind)], vec![text(if own.required { "yes" } else { "no" })]]
    });
    blocks.push(Block::Table(vec!["name", "type", "required"], rows.collect()));
    blocks
}

/// Siblings of the same kind first, and then the riskiest.
fn related(
    known: &CataloguedServer,
    tools: &[(ToolSpec<'_>, Classification)],
    places: &[String],
    at: usize,
) -> Vec<Block> {
    let own = tools.get(at).map(|(_, own)| own.category);
    let mut others: Vec<(usize, &ToolFacts)> =
        known.tools.iter().enumerate().filter(|(other, _)| *other != at).collect();
    others.sort_by_key(|(at, facts)| {
        (Some(facts.category) != own, std::cmp::Reverse(RiskLevel::of(facts.category)), *at)
    });
    if others.is_empty() {
        return Vec::new();
    }
    let told = others.into_iter().take(MOST_RELATED).filter_map(|(at, facts)| {
        let path = places.get(at)?.clone();
        Some(vec![
            Inline::CodeLink(crate::escape_for_display(&facts.name), path),
            text(" "),
            Inline::Badge(RiskLevel::of(facts.category)),
        ])
    });
    vec![Block::Heading("", vec![text("Related tools")]), Block::List(told.collect())]
}

fn deeper(about: &About<'_>) -> Vec<Block> {
    let level = RiskLevel::as_str(about.known.level);
    vec![
        Block::Heading("", vec![text("Go deeper")]),
        Block::List(vec![
            vec![link(
                format!("All tools of {}, its grade and three policies", about.server),
                about.server_place.clone(),
            )],
            vec![link(format!("What {level} risk means"), format!("risk/{}", level.to_lowercase()))],
            vec![link("What servers add up to, together", "stack")],
        ]),
    ]
}

fn questions(about: &About<'_>) -> Vec<Block> {
    let (name, server, known) = (&about.name, &about.server, about.known);
    let category = known.category_name();
    let could = if known.is_uncertain() { "such tools can" } else { "so it can" };
    let (can, advice) = match known.category {
        Category::Read => ("look things up", "Reads may pass; mind where the results go."),
        Category::Write => {
            ("add or change things", "Limit how often, so that a loop cannot change things by the hundred.")
        }
        Category::Execute => ("run or set off something", "Limit how often, and hold the arguments to their schema."),
        Category::Destructive => ("remove things for good", "Hide it, or let a person agree to each call."),
        Category::Financial => ("commit money", "Let a person agree to each call."),
        Category::Unknown => ("do what cannot be told", "Let a person agree to each call until it is known."),
    };
    let rate = match RecommendedAction::of(known.category) {
        RecommendedAction::RateLimit(max) => max,
        RecommendedAction::Allow | RecommendedAction::Approve | RecommendedAction::Hide => 10,
    };
    let all = vec![
        (
            format!("What does {name} do?"),
            marked(&format!("It is {} of {server}, {could} {can}. {advice}", a_tool(known))),
        ),
        (
            format!("How do I enforce a policy on {name}?"),
            marked(
                "Register the server with the gateway, put a rule for the tool into its policy (allow, deny, limit, or wait for a person), and point the client at the gateway's URL. The rule holds for each call before it reaches the server.",
            ),
        ),
        (
            format!("What risk level is {name}?"),
            marked(&format!(
                "{}. {category} tools are {} risk: the level follows from how far a call can be taken back.",
                RiskLevel::as_str(known.level),
                RiskLevel::as_str(known.level)
            )),
        ),
        (
            format!("Can I rate-limit {name}?"),
            marked(&format!(
                "Yes: `\"rate_limit\": \"{rate}/minute\"` in its rule, or `limits` with a counter of your own. Calls are counted for each grant, exactly, also across restarts; a refusal says when there is room again."
            )),
        ),
        (
            format!("How do I block {name} completely?"),
            marked(
                "`\"action\": \"deny\"` with a `reason` refuses each call and tells the agent why; its name under `hide` makes it not exist for the agent at all.",
            ),
        ),
        (
            format!("Which MCP server provides {name}?"),
            marked(&format!("{server}, and perhaps others. The gateway stands in front of it, as a proxy.")),
        ),
    ];
    vec![Block::Heading("", vec![text("Questions about "), code(&about.facts.name)]), Block::Questions(all)]
}
