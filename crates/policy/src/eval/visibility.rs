//! Filters lists, so that a grant sees only what its policy makes visible.

use crate::call::{CalledTool, DefinitionStatus};
use crate::compile::compiled_policy::{DefaultAction, Policy, RuleBlock, ToolVisibility};
use crate::compile::glob::Glob;
use crate::eval::decide::refuse_ambiguous_uri;

impl Policy {
    /// Returns whether a tool is shown in lists. Tools that a rule denies are shown. Hidden tools, tools that only
    /// `default` denies, and tools whose definition is new or changed are not shown.
    pub fn is_tool_visible(&self, tool: &CalledTool<'_>) -> bool {
        let may_be_called = match self.tool_visibility(tool) {
            ToolVisibility::Hidden(_) => false,
            ToolVisibility::Listed(_) => true,
            ToolVisibility::Unlisted => self.default == DefaultAction::Allow,
        };
        may_be_called && tool.definition == DefinitionStatus::Accepted
    }

    /// Returns whether a tool's visibility can depend on its category.
    #[must_use]
    pub fn has_category_rules(&self) -> bool {
        !self.categories.is_empty()
    }

    /// Returns the tools that the policy lists by exact name, sorted. Globs are not included.
    pub fn named_tools(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.tools.exact.keys().map(|name| &**name).collect();
        names.sort_unstable();
        names
    }

    /// Returns whether a resource is shown in lists.
    pub fn is_resource_visible(&self, uri: &str) -> bool {
        let is_listed = self.resources.find(uri).is_some() || self.default == DefaultAction::Allow;
        is_listed && refuse_ambiguous_uri(self, uri).is_ok()
    }

    /// Returns whether a resource template is shown in lists, that is, whether at least one of its expansions could be
    /// allowed.
    pub fn is_template_visible(&self, template: &str) -> bool {
        let is_listed = self.default == DefaultAction::Allow || self.find_resource_or_template(template).is_some();
        is_listed && refuse_ambiguous_uri(self, template).is_ok()
    }

    /// Returns whether a prompt is shown in lists.
    pub fn is_prompt_visible(&self, name: &str) -> bool {
        self.prompts.find(name).is_some() || self.default == DefaultAction::Allow
    }

    pub(crate) fn find_resource_or_template(&self, uri: &str) -> Option<&RuleBlock> {
        let template = || self.resources.find_overlapping(&template_glob(uri)?);
        self.resources.find(uri).or_else(template)
    }
}

/// Converts a template to a glob: each `{expression}` becomes `*`, because it can expand to anything. `None` if there
/// is no expression.
fn template_glob(template: &str) -> Option<Glob> {
    let mut pattern = String::new();
    let mut rest = template;
    while let Some((literal, after)) = rest.split_once('{') {
        // A literal star widens the match, which only lists more templates whose expansions are visible anyway.
        pattern.push_str(literal);
        pattern.push('*');
        rest = after.split_once('}').map_or("", |(_, after)| after);
    }
    if pattern.is_empty() {
        return None;
    }
    pattern.push_str(rest);
    Glob::new(&pattern)
}

#[cfg(test)]
mod tests {
    use crate::{CalledTool, Category, DefinitionStatus, DocumentFormat, Policy, parse};

    fn policy(default: &str) -> Policy {
        let text = format!(
            r#"{{"version":"1","default":"{default}","hide":["secret_*"],
                "categories":{{"read":{{}},"destructive":"hide"}},
                "tools":{{"pay":{{"action":"deny"}},"secret_x":{{}}}},
                "resources":{{"note://desk/*":{{}},"file:///a/../b":{{}}}},"prompts":{{"greet*":{{"action":"deny"}}}}}}"#
        );
        parse(text.as_bytes(), DocumentFormat::Json).expect("a policy")
    }

    fn lists(default: &str, name: &str, category: Category, definition: DefinitionStatus) -> bool {
        policy(default).is_tool_visible(&CalledTool { name, category, definition, schema: None })
    }

    #[test]
    fn a_tool_is_listed_if_the_grant_could_call_it() {
        use DefinitionStatus::{Accepted, Changed, New, NotOffered};
        assert!(lists("deny", "pay", Category::Unknown, Accepted), "what is denied stays visible");
        assert!(lists("deny", "x", Category::Read, Accepted));
        assert!(!lists("deny", "x", Category::Write, Accepted));
        assert!(lists("allow", "x", Category::Write, Accepted));
        assert!(!lists("allow", "secret_x", Category::Read, Accepted));
        assert!(!lists("allow", "x", Category::Destructive, Accepted));
        for definition in [New, Changed, NotOffered] {
            assert!(!lists("allow", "pay", Category::Read, definition), "{definition}");
        }
    }

    #[test]
    fn resources_templates_and_prompts_are_listed_likewise() {
        let (deny, allow) = (policy("deny"), policy("allow"));
        assert!(deny.is_resource_visible("note://desk/1") && !deny.is_resource_visible("note://home/1"));
        assert!(deny.is_resource_visible("file:///a/../b") && !deny.is_resource_visible("note://desk/../home"));
        assert!(allow.is_resource_visible("note://home/1") && !allow.is_resource_visible("note://u@home/1"));
        assert!(deny.is_template_visible("note://{place}/1") && deny.is_template_visible("note://desk/{id}"));
        assert!(!deny.is_template_visible("note://home/{id}") && !allow.is_template_visible("note://home/../{id}"));
        assert!(
            deny.is_prompt_visible("greet_all") && !deny.is_prompt_visible("part") && allow.is_prompt_visible("part")
        );
    }
}
