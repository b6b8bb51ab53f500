//! Reasons in words. They name the facts that the answer rests on, and say why it is not a neighbour.

mod fact;

use gatelodge_policy::Category;

use crate::classify::{quoted, word};
use crate::decide::Verdict;
use crate::features::{Feature, Found};
use crate::lexicon::Group;
use crate::rulebook::Rulebook;
use crate::server::Server;
use crate::tool::Tool;
use fact::{deciding, fact};

/// More facts than these are not told.
const MOST_FACTS: usize = 6;
/// So many of them are told in the rationale.
const FEW_FACTS: usize = 2;

/// The facts that an answer rests on, the weightiest first.
pub(crate) fn evidence(
    tool: &Tool<'_>,
    found: &Found<'_>,
    features: &[Feature<'_>],
    verdict: &Verdict,
    server: &Server,
    book: &Rulebook,
) -> Vec<String> {
    let mut evidence = facts(found, features, verdict, book);
    evidence.truncate(MOST_FACTS);
    evidence.extend(siblings(tool, found, verdict, server, book));
    let claims = tool.annotations;
    let claim = |name: &str, value: Option<bool>| value.map(|value| format!("the server claims `{name}: {value}`"));
    evidence.extend(claim("readOnlyHint", claims.read_only));
    evidence.extend(claim("destructiveHint", claims.destructive));
    if tool.description.is_none() {
        evidence.push("it has no description".to_owned());
    }
    evidence
}

/// Why this category and not its neighbours.
pub(crate) fn rationale(
    tool: &Tool<'_>,
    found: &Found<'_>,
    features: &[Feature<'_>],
    verdict: &Verdict,
    server: &Server,
    book: &Rulebook,
) -> String {
    let facts = facts(found, features, verdict, book);
    let because = facts.iter().take(FEW_FACTS).cloned().collect::<Vec<_>>().join(", and ");
    let mut sentences = vec![what_it_is(verdict.category, &because)];
    if let Some(beside) = siblings(tool, found, verdict, server, book) {
        sentences.push(format!("{}.", capital(&beside)));
    }
    sentences.push(not_its_neighbours(found, verdict, book));
    sentences.extend(doubts(tool, verdict));
    sentences.join(" ")
}

fn what_it_is(category: Category, because: &str) -> String {
    let what = match category {
        Category::Read => "It gives data and changes nothing",
        Category::Write => "It adds or changes something that can be changed back",
        Category::Execute => "It runs something, and what happens is decided by what it is given",
        Category::Destructive => "What it takes away or writes over is gone for good",
        Category::Financial => "It commits money",
        Category::Unknown => "Nothing in its definition says for certain what it does",
    };
    if because.is_empty() { format!("{what}.") } else { format!("{what}: {because}.") }
}

fn not_its_neighbours(found: &Found<'_>, verdict: &Verdict, book: &Rulebook) -> String {
    let takes_away = fact::takes_away(found, book);
    let not_read = not_read(found, verdict, book);
    match verdict.category {
        Category::Read => match takes_away {
            Some(own) => format!("Not Write or Destructive: {own} is spoken of, but not as what a call does."),
            None => "Not Write: nothing in it speaks of a change that a call makes.".to_owned(),
        },
        Category::Write => {
            let gone = match takes_away {
                Some(own) => format!("Not Destructive: {own} alone does not say that something is gone for good."),
                None => "Not Destructive: nothing in it is said to be gone for good.".to_owned(),
            };
            format!("{not_read} {gone} Not Execute: the tool decides what happens, not its arguments.")
        }
        Category::Execute => {
            format!(
                "{not_read} Not Write: what it sets off may do more. Not Destructive: removing is not what it is for."
            )
        }
        Category::Destructive => "Not Write: what it does cannot simply be changed back.".to_owned(),
        Category::Financial => "Not Write: money that has moved is not changed back by another call.".to_owned(),
        Category::Unknown if verdict.is_cut => {
            "Not Read: its description is too long to be read whole, and what was not read is not known to be harmless."
                .to_owned()
        }
        Category::Unknown => format!("{not_read} What is not understood is not taken for harmless."),
    }
}

/// Why it is not Read, by the rule that decided.
fn not_read(found: &Found<'_>, verdict: &Verdict, book: &Rulebook) -> String {
    let changes = found.name.group(&book.lexicon).is_some_and(|group| group.harm() > Group::Think.harm());
    match (&verdict.hindrance, found.name.verb()) {
        _ if verdict.raised => "Not Read: the server itself says that it does more.".to_owned(),
        (_, Some((verb, _))) if changes => format!("Not Read: {} does more than look.", quoted(verb)),
        (Some(hindrance), _) => format!("Not Read: {}.", hindrance.why),
        (None, _) => "Not Read: nothing says for certain that it only looks.".to_owned(),
    }
}

fn doubts(tool: &Tool<'_>, verdict: &Verdict) -> Vec<String> {
    let mut doubts = Vec::new();
    if verdict.raised {
        doubts
            .push("The server's own claim makes it riskier than its words do; the riskier reading counts.".to_owned());
    }
    if tool.annotations.read_only == Some(true) && verdict.category != Category::Read {
        doubts.push("The server claims that it only reads; a claim does not lower what the words say.".to_owned());
    }
    if tool.description.is_none() {
        doubts.push("There is no description, so this is less sure.".to_owned());
    }
    let shares = [(Category::Read, verdict.shares.read), (Category::Destructive, verdict.shares.destroy)];
    for (other, share) in shares {
        if other != verdict.category && share > 0.25 {
            doubts.push(format!("It could also be {}; of two readings the riskier one counts.", word(other)));
        }
    }
    doubts
}

fn facts(found: &Found<'_>, features: &[Feature<'_>], verdict: &Verdict, book: &Rulebook) -> Vec<String> {
    let mut told: Vec<String> = Vec::new();
    for feature in deciding(features, verdict, book) {
        if let Some(fact) = fact(feature, found).filter(|fact| !told.contains(fact)) {
            told.push(fact);
        }
    }
    told
}

/// What siblings confirm.
fn siblings(tool: &Tool<'_>, found: &Found<'_>, verdict: &Verdict, server: &Server, book: &Rulebook) -> Option<String> {
    let list = |names: &[&str]| names.iter().map(|name| quoted(name)).collect::<Vec<_>>().join(", ");
    let runs = found.name.group(&book.lexicon) == Some(Group::Run);
    if verdict.category == Category::Execute && runs {
        let runners = server.code_runners(&tool.name);
        if !runners.is_empty() {
            return Some(format!("its sibling {} says that this server runs code", list(&runners)));
        }
    }
    let kin = server.kin(&tool.name, found.name);
    if !kin.is_empty() {
        return Some(format!("its siblings {} are about the same thing, so the verb tells them apart", list(&kin)));
    }
    let namesakes = server.namesakes(&tool.name, found.name);
    (!namesakes.is_empty()).then(|| format!("its siblings {} share its verb", list(&namesakes)))
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}
