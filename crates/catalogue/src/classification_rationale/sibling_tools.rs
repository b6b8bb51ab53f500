//! What siblings confirm.

use gatelodge_policy::Category;

use super::RationaleContext;
use crate::classify::backtick_quoted;
use crate::lexicon::VerbGroup;
use crate::tool_name_words::ToolNameWords;

/// What the names beside it say of a tool.
pub(super) fn explain_siblings(case: &RationaleContext<'_, '_>) -> Option<String> {
    let (own, name, server) = (&*case.tool.name, case.parsed.name, case.server);
    let runs = name.verb_group(&case.data.lexicon) == Some(VerbGroup::Run);
    if case.decision.category == Category::Execute && runs {
        let runners = server.code_runners(own);
        if !runners.is_empty() {
            let say = if runners.len() == 1 { "says" } else { "say" };
            return Some(format!("{} {say} that this server runs code", tool_names_text(&runners)));
        }
    }
    let kin = server.related_tools(own, name);
    if !kin.is_empty() {
        return Some(related_tools_text(case, &kin));
    }
    let namesakes = server.same_verb_tools(own, name);
    let share = if namesakes.len() == 1 { "shares" } else { "share" };
    (!namesakes.is_empty()).then(|| format!("{} {share} its verb", tool_names_text(&namesakes)))
}

/// Tools about the same thing: where one of them changes it, they are its life cycle.
fn related_tools_text(case: &RationaleContext<'_, '_>, kin: &[&str]) -> String {
    let lexicon = &case.data.lexicon;
    let changes = |name: &ToolNameWords| {
        name.verb_group(lexicon).is_some_and(|group| group.harm_rank() > VerbGroup::Compute.harm_rank())
    };
    let is_cycle = changes(case.parsed.name)
        || kin.iter().any(|sibling| changes(&ToolNameWords::of(sibling, case.server.name_prefix(), lexicon)));
    let thing = backtick_quoted(&case.parsed.name.object_words().replace('_', " "));
    match (is_cycle, kin.len()) {
        (true, _) => {
            format!("{} and it are the life cycle of {thing}, so the verb tells what it does", tool_names_text(kin))
        }
        (false, 1) => format!("{} is about {thing} as well", tool_names_text(kin)),
        (false, _) => format!("{} are about {thing} as well", tool_names_text(kin)),
    }
}

fn tool_names_text(names: &[&str]) -> String {
    let all = names.iter().map(|name| backtick_quoted(name)).collect::<Vec<_>>().join(", ");
    if names.len() == 1 { format!("its sibling {all}") } else { format!("its siblings {all}") }
}
