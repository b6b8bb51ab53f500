//! What siblings confirm.

use gatelodge_policy::Category;

use super::Case;
use crate::classify::backtick_quoted;
use crate::lexicon::VerbGroup;
use crate::tool_name_words::ToolNameWords;

/// What the names beside it say of a tool.
pub(super) fn siblings(case: &Case<'_, '_>) -> Option<String> {
    let (own, name, server) = (&*case.tool.name, case.found.name, case.server);
    let runs = name.verb_group(&case.book.lexicon) == Some(VerbGroup::Run);
    if case.verdict.category == Category::Execute && runs {
        let runners = server.code_runners(own);
        if !runners.is_empty() {
            let say = if runners.len() == 1 { "says" } else { "say" };
            return Some(format!("{} {say} that this server runs code", list(&runners)));
        }
    }
    let kin = server.related_tools(own, name);
    if !kin.is_empty() {
        return Some(of_kin(case, &kin));
    }
    let namesakes = server.same_verb_tools(own, name);
    let share = if namesakes.len() == 1 { "shares" } else { "share" };
    (!namesakes.is_empty()).then(|| format!("{} {share} its verb", list(&namesakes)))
}

/// Tools about the same thing: where one of them changes it, they are its life cycle.
fn of_kin(case: &Case<'_, '_>, kin: &[&str]) -> String {
    let lexicon = &case.book.lexicon;
    let changes = |name: &ToolNameWords| {
        name.verb_group(lexicon).is_some_and(|group| group.harm_rank() > VerbGroup::Compute.harm_rank())
    };
    let is_cycle = changes(case.found.name)
        || kin.iter().any(|sibling| changes(&ToolNameWords::of(sibling, case.server.name_prefix(), lexicon)));
    let thing = backtick_quoted(&case.found.name.object_words().replace('_', " "));
    match (is_cycle, kin.len()) {
        (true, _) => format!("{} and it are the life cycle of {thing}, so the verb tells what it does", list(kin)),
        (false, 1) => format!("{} is about {thing} as well", list(kin)),
        (false, _) => format!("{} are about {thing} as well", list(kin)),
    }
}

fn list(names: &[&str]) -> String {
    let all = names.iter().map(|name| backtick_quoted(name)).collect::<Vec<_>>().join(", ");
    if names.len() == 1 { format!("its sibling {all}") } else { format!("its siblings {all}") }
}
