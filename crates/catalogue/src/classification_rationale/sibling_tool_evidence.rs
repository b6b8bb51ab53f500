//! Evidence from other tools on the same server.

use gatelodge_policy::Category;

use super::RationaleContext;
use crate::classify::backtick_quoted;
use crate::lexicon::VerbGroup;
use crate::tool_name_words::ToolNameWords;

/// Describes what the names of the server's other tools suggest about this one.
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
    let related = server.related_tools(own, name);
    if !related.is_empty() {
        return Some(related_tools_text(case, &related));
    }
    let same_verb = server.same_verb_tools(own, name);
    let share = if same_verb.len() == 1 { "shares" } else { "share" };
    (!same_verb.is_empty()).then(|| format!("{} {share} its verb", tool_names_text(&same_verb)))
}

/// Describes the other tools that handle the same object. If this tool or any of the others changes the object, the
/// text says that together they cover the object's life cycle.
fn related_tools_text(case: &RationaleContext<'_, '_>, related: &[&str]) -> String {
    let lexicon = &case.data.lexicon;
    let changes = |name: &ToolNameWords| {
        name.verb_group(lexicon).is_some_and(|group| group.harm_rank() > VerbGroup::Compute.harm_rank())
    };
    let is_cycle = changes(case.parsed.name)
        || related.iter().any(|sibling| changes(&ToolNameWords::of(sibling, case.server.name_prefix(), lexicon)));
    let thing = backtick_quoted(&case.parsed.name.object_words().replace('_', " "));
    match (is_cycle, related.len()) {
        (true, _) => {
            format!(
                "{} and this tool manage the life cycle of {thing}, so the verb says what it does",
                tool_names_text(related)
            )
        }
        (false, 1) => format!("{} is about {thing} as well", tool_names_text(related)),
        (false, _) => format!("{} are about {thing} as well", tool_names_text(related)),
    }
}

fn tool_names_text(names: &[&str]) -> String {
    let all = names.iter().map(|name| backtick_quoted(name)).collect::<Vec<_>>().join(", ");
    if names.len() == 1 { format!("its sibling {all}") } else { format!("its siblings {all}") }
}
