//! Imports Intercept's YAML policies, and adds a note wherever the meaning of a policy changes.
//!
//! The imported policy never allows a call that the source denies, except for numbers that Intercept cannot
//! distinguish: it compares floats, while this crate compares exactly. A note marks where that can matter. A rule that
//! cannot be expressed becomes a denial.

mod go_regex;
mod intercept_condition_import;
mod intercept_counter_import;
mod intercept_field_import;
mod intercept_rule_import;
mod rule_block_json_builder;

use std::collections::BTreeMap;
use std::ops::Range;

use gatelodge_json::quote_into;

use crate::compile::compiled_policy::DefaultAction;
use crate::compile::policy_parser::parse;
use crate::string_enum::string_enum;
use crate::syntax::diagnostic::{Diagnostic, DiagnosticCode, push_bounded, sorted_for_display};
use crate::syntax::syntax_tree::{self, DocumentFormat, SyntaxMapEntry, SyntaxNode};
use crate::tools::format::{comments_of_yaml, format};
use rule_block_json_builder::RuleBlockJsonBuilder;

/// An imported policy.
#[derive(Debug, Clone)]
pub struct ImportedPolicy {
    /// The policy as JSON in canonical layout. It always loads.
    pub policy: String,
    /// Notes about the import, sorted by their position in the Intercept policy.
    pub notes: Vec<ImportNote>,
}

/// A note about how one part of the Intercept policy was imported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportNote {
    /// How the import affects the meaning of this part.
    pub kind: ImportNoteKind,
    /// Byte range of the part in the Intercept policy.
    pub span: Range<usize>,
    /// What changed, and what to do about it.
    pub message: String,
}

string_enum! {
    /// Import outcome of one part of the Intercept policy.
    ImportNoteKind {
        /// The imported policy allows calls that the source denies; the message says which.
        Looser = "looser",
        /// The meaning differs, but no call is allowed that the source denies.
        Changed = "changed",
        /// The part is left out of the imported policy.
        Dropped = "dropped",
        /// The part is written differently but means the same.
        Exact = "exact",
    }
}

/// Imports an Intercept policy.
///
/// # Errors
/// Returns all diagnostics about the source, in document order.
///
/// # Examples
/// ```
/// use gatelodge_policy::import_intercept;
///
/// let source = br#"
/// version: "1"
/// default: deny
/// tools:
///   search:
///     rules: []
/// "#;
/// let imported = import_intercept(source).expect("an Intercept policy");
/// assert!(imported.policy.contains(r#""search": {}"#));
/// ```
pub fn import_intercept(text: &[u8]) -> Result<ImportedPolicy, Vec<Diagnostic>> {
    let (root, repeats) = syntax_tree::read(text, DocumentFormat::Yaml)
        .map_err(|diagnostic| sorted_for_display(vec![diagnostic.with_help_if_empty(EMPTY_SOURCE_HELP)]))?;
    let mut importer = InterceptImporter { diagnostics: repeats, ..InterceptImporter::default() };
    let policy = importer.convert_policy(&root);
    importer.check_references();
    importer.note_comments(comments_of_yaml(text, &root));
    let InterceptImporter { diagnostics, mut notes, .. } = importer;
    if !diagnostics.is_empty() {
        return Err(sorted_for_display(diagnostics));
    }
    let policy = format(policy.as_bytes(), DocumentFormat::Json).map_err(as_result_diagnostics)?.text;
    // Guards against bugs in the importer: a policy that does not load is never returned.
    parse(policy.as_bytes(), DocumentFormat::Json).map_err(as_result_diagnostics)?;
    notes.sort_by_key(|note| note.span.start);
    Ok(ImportedPolicy { policy, notes })
}

/// Converts diagnostics about the imported policy. Their spans are dropped, because they do not refer to the source.
fn as_result_diagnostics(diagnostics: Vec<Diagnostic>) -> Vec<Diagnostic> {
    let convert = |diagnostic: Diagnostic| {
        let message = format!("the imported policy would not load: {}", diagnostic.message);
        Diagnostic { span: 0..0, message, related: None, ..diagnostic }
    };
    diagnostics.into_iter().map(convert).collect()
}

/// Help text for an empty Intercept policy.
const EMPTY_SOURCE_HELP: &str = "write an Intercept policy: `version`, `default` and `tools`";

const SOURCE_FIELDS: [&str; 6] = ["version", "description", "default", "hide", "tools", "approvals"];

/// Key in an Intercept policy for the rules that apply to all tools.
const WILDCARD_TOOL_KEY: &str = "*";

/// State of the import.
#[derive(Default)]
struct InterceptImporter {
    diagnostics: Vec<Diagnostic>,
    notes: Vec<ImportNote>,
    /// Counters that a rule increments, keyed by scope and name as in Intercept, with their spans.
    counted_keys: BTreeMap<String, Range<usize>>,
    /// Counters that a condition reads, with their spans.
    counter_references: Vec<(String, Range<usize>)>,
}

impl InterceptImporter {
    fn report(&mut self, diagnostic: Diagnostic) {
        push_bounded(&mut self.diagnostics, diagnostic);
    }

    fn add_note(&mut self, kind: ImportNoteKind, span: &Range<usize>, message: impl Into<String>) {
        self.notes.push(ImportNote { kind, span: span.clone(), message: message.into() });
    }

    /// Adds a note, unless there is already one with the same message. Used for notes that would otherwise be repeated
    /// in many places.
    fn add_note_once(&mut self, kind: ImportNoteKind, span: &Range<usize>, message: &str) {
        if !self.notes.iter().any(|note| note.message == message) {
            self.add_note(kind, span, message);
        }
    }

    fn convert_policy(&mut self, root: &SyntaxNode) -> String {
        let fields = self.read_entries(root, "a policy");
        self.check_field_names(fields, &SOURCE_FIELDS, "a policy");
        self.check_version(root);
        let default = self.convert_default(root);
        let mut members = vec![json_member("version", &quoted("1"))];
        if let Some(text) = self.read_text(root, "description") {
            members.push(json_member("description", &quoted(&text)));
        }
        members.push(json_member("default", &quoted(default.as_str())));
        if let Some(hide) = root.get("hide") {
            members.push(json_member("hide", &self.convert_hide(hide)));
        }
        if let Some(tools) = root.get("tools") {
            members.extend(self.convert_tools(tools, default));
        }
        if let Some(approvals) = root.get("approvals") {
            let message = "`approvals` is not imported; approvers are configured in the gateway";
            self.add_note(ImportNoteKind::Dropped, &key_span(fields, "approvals", approvals), message);
        }
        format!("{{\n{}\n}}", members.join(",\n"))
    }

    fn check_version(&mut self, root: &SyntaxNode) {
        match self.read_text(root, "version").as_deref() {
            Some("1") => {}
            Some(other) => {
                let span = root.get("version").unwrap_or(root).span.clone();
                let diagnostic =
                    Diagnostic::error(DiagnosticCode::UnknownWord, span, format!("unknown version `{other}`"));
                self.report(diagnostic.with_help("write `version: \"1\"`"));
            }
            None => self.report_missing(root, "version", "write `version: \"1\"`"),
        }
    }

    /// Converts `default`.
    fn convert_default(&mut self, root: &SyntaxNode) -> DefaultAction {
        let Some((node, word)) = root.get("default").zip(self.read_text(root, "default")) else {
            let span = root.span.start..root.span.start;
            let message = "without `default`, tools that are not listed are allowed; the import states that explicitly: consider `deny`";
            self.add_note(ImportNoteKind::Exact, &span, message);
            return DefaultAction::Allow;
        };
        let found = self.read_word(node, &word, "default", DefaultAction::WORDS, DefaultAction::from_word);
        if found == Some(DefaultAction::Deny) {
            let message = "`default: deny` applied to tools only; here it also refuses resources, prompts and other \
                           methods that are not listed: add `resources`, `prompts` and `methods` for what should be allowed";
            self.add_note(ImportNoteKind::Changed, &node.span, message);
        }
        found.unwrap_or(DefaultAction::Deny)
    }

    fn convert_hide(&mut self, node: &SyntaxNode) -> String {
        let mut names: Vec<String> = Vec::new();
        for item in self.read_list(node, "hide") {
            let Some(name) = self.read_scalar(item, "an entry of `hide`") else { continue };
            if name.trim().is_empty() {
                let diagnostic =
                    Diagnostic::error(DiagnosticCode::EmptyText, item.span.clone(), "an entry of `hide` is empty");
                self.report(diagnostic.with_help("remove it, or write the name of a tool"));
            }
            if names.contains(&quoted(&name)) {
                let diagnostic = Diagnostic::error(
                    DiagnosticCode::RepeatedKey,
                    item.span.clone(),
                    format!("`{name}` is hidden twice"),
                );
                self.report(diagnostic.with_help("keep one of the two"));
            }
            if name.contains('*') && name != WILDCARD_TOOL_KEY {
                let message = format!("`{name}` was matched literally; here it hides all tools that match the glob");
                self.add_note(ImportNoteKind::Changed, &item.span, message);
            }
            names.push(quoted(&name));
        }
        format!("[{}]", names.join(", "))
    }

    /// Converts `tools`, and returns the members `all_tools` and `tools` of the new policy.
    fn convert_tools(&mut self, node: &SyntaxNode, default: DefaultAction) -> Vec<String> {
        let (mut all_tools, mut tools) = (None, Vec::new());
        for entry in self.read_entries(node, "`tools`") {
            if entry.key == WILDCARD_TOOL_KEY {
                let message =
                    "the rules of `*` become `all_tools`; as before, they do not allow tools that are not listed";
                self.add_note(ImportNoteKind::Exact, &entry.key_span, message);
                all_tools = Some(json_member("all_tools", &self.convert_tool(entry, "_global").to_json()));
            } else if entry.key.contains('*') && default == DefaultAction::Deny {
                self.drop_glob(entry);
            } else {
                if entry.key.contains('*') {
                    let message = format!(
                        "`{}` was matched literally; here it applies to all tools that match the glob",
                        entry.key
                    );
                    self.add_note(ImportNoteKind::Changed, &entry.key_span, message);
                }
                tools.push(json_member(&entry.key, &self.convert_tool(entry, &entry.key).to_json()));
            }
        }
        let tools = format!("{{\n{}\n}}", tools.join(",\n"));
        all_tools.into_iter().chain([json_member("tools", &tools)]).collect()
    }

    /// Leaves out a tool whose name contains `*`. In Intercept, such a name is compared literally and matches no tool.
    /// In the imported policy it would be a glob, which could allow tools that `default: deny` should deny.
    fn drop_glob(&mut self, entry: &SyntaxMapEntry) {
        let note_count = self.notes.len();
        self.convert_tool(entry, &entry.key);
        self.notes.truncate(note_count);
        let message = format!(
            "`{}` was matched literally and matched no tool; as a glob it would allow tools: add it by hand if that is \
             intended",
            entry.key
        );
        self.add_note(ImportNoteKind::Dropped, &entry.key_span, message);
    }

    fn convert_tool(&mut self, entry: &SyntaxMapEntry, scope: &str) -> RuleBlockJsonBuilder {
        let mut block = RuleBlockJsonBuilder::default();
        if self.is_null(&entry.value) {
            return block;
        }
        let fields = self.read_entries(&entry.value, "a tool");
        self.check_field_names(fields, &["rules"], "a tool");
        if let Some(rules) = entry.value.get("rules") {
            for rule in self.read_list(rules, "rules") {
                intercept_rule_import::convert_rule(self, rule, scope, &mut block);
            }
        }
        block
    }

    /// Reports conditions on counters that no rule increments.
    fn check_references(&mut self) {
        for (key, span) in std::mem::take(&mut self.counter_references) {
            if !self.counted_keys.contains_key(&key) {
                let diagnostic =
                    Diagnostic::error(DiagnosticCode::BadPath, span, format!("no rule increments `state.{key}`"));
                self.report(diagnostic.with_help("add a `state` block for it, or remove the condition"));
            }
        }
    }

    fn note_comments(&mut self, count: usize) {
        let what = match count {
            0 => return,
            1 => "a comment is".to_owned(),
            count => format!("{count} comments are"),
        };
        self.add_note(
            ImportNoteKind::Dropped,
            &(0..0),
            format!("{what} not imported; copy what you want to keep by hand"),
        );
    }
}

fn key_span(fields: &[SyntaxMapEntry], name: &str, value: &SyntaxNode) -> Range<usize> {
    fields.iter().find(|field| field.key == name).map_or_else(|| value.span.clone(), |field| field.key_span.clone())
}

fn quoted(text: &str) -> String {
    let mut out = String::new();
    quote_into(text, &mut out);
    out
}

fn json_member(name: &str, value: &str) -> String {
    format!("{}: {value}", quoted(name))
}
