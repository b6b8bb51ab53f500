//! From the YAML policies of Intercept to policies of ours, with a note on everything that changed meaning.
//!
//! The result never lets a call pass that the source would refuse, but for numbers that Intercept does not tell apart:
//! it compares them as floats, we compare them exactly. A note says where that can matter. What cannot be said here
//! becomes a denial.

mod block_builder;
mod go_regex;
mod intercept_condition;
mod intercept_counter;
mod intercept_field;
mod intercept_rule;

use std::collections::BTreeMap;
use std::ops::Range;

use gatelodge_json::quote_into;

use crate::compiled_policy::Default;
use crate::diagnostic::{Diagnostic, DiagnosticCode, push_bounded, sorted_for_display};
use crate::format::{comments_of_yaml, format};
use crate::limit::string_enum;
use crate::policy_parser::parse;
use crate::syntax_tree::{self, DocumentFormat, MapEntry, SyntaxNode};
use block_builder::BlockBuilder;

/// A policy that was taken over.
#[derive(Debug, Clone)]
pub struct ImportedPolicy {
    /// The policy, JSON in our layout. It loads.
    pub policy: String,
    /// What is to be known about it, in the order of the source.
    pub notes: Vec<ImportNote>,
}

/// Something to know about a part that was taken over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportNote {
    /// How the part fared.
    pub kind: NoteKind,
    /// Byte offsets in the source.
    pub span: Range<usize>,
    /// What happened to it, and what to do about it.
    pub message: String,
}

string_enum! {
    /// How a part of the source fared.
    NoteKind {
        /// It lets calls pass that were refused; which ones, the message says.
        Looser = "looser",
        /// It means something else here, and lets no call pass that was refused.
        Changed = "changed",
        /// It is not in the result.
        Dropped = "dropped",
        /// It is written in another way and means the same.
        Exact = "exact",
    }
}

/// Takes over a policy written for Intercept.
///
/// # Errors
/// All faults of the source, in the order of their places.
pub fn import_intercept(text: &[u8]) -> Result<ImportedPolicy, Vec<Diagnostic>> {
    let (root, repeats) = syntax_tree::read(text, DocumentFormat::Yaml)
        .map_err(|fault| sorted_for_display(vec![fault.with_help_if_empty(EMPTY_SOURCE_HELP)]))?;
    let mut importer = InterceptImporter { diagnostics: repeats, ..InterceptImporter::default() };
    let policy = importer.convert_policy(&root);
    importer.check_references();
    importer.tell_comments(comments_of_yaml(text, &root));
    let InterceptImporter { diagnostics: faults, mut notes, .. } = importer;
    if !faults.is_empty() {
        return Err(sorted_for_display(faults));
    }
    let policy = format(policy.as_bytes(), DocumentFormat::Json).map_err(as_result_diagnostics)?.text;
    // Whatever went wrong above, nobody gets a policy that does not load.
    parse(policy.as_bytes(), DocumentFormat::Json).map_err(as_result_diagnostics)?;
    notes.sort_by_key(|note| note.span.start);
    Ok(ImportedPolicy { policy, notes })
}

/// Tells a fault of the result; its places mean nothing in the source.
fn as_result_diagnostics(faults: Vec<Diagnostic>) -> Vec<Diagnostic> {
    let tell = |fault: Diagnostic| {
        let message = format!("the policy that this becomes would not load: {}", fault.message);
        Diagnostic { span: 0..0, message, related: None, ..fault }
    };
    faults.into_iter().map(tell).collect()
}

/// The way out of an empty text.
const EMPTY_SOURCE_HELP: &str = "name a policy of Intercept: `version`, `default` and `tools`";

const SOURCE_FIELDS: [&str; 6] = ["version", "description", "default", "hide", "tools", "approvals"];

/// The key of the rules for all tools.
const WILDCARD_TOOL_KEY: &str = "*";

/// What is carried along while a source is read.
#[derive(Default)]
struct InterceptImporter {
    diagnostics: Vec<Diagnostic>,
    notes: Vec<ImportNote>,
    /// Every counter that a rule counts, by scope and name as Intercept keys it, and where.
    counted_keys: BTreeMap<String, Range<usize>>,
    /// Every counter that a condition reads, and where.
    counter_references: Vec<(String, Range<usize>)>,
}

impl InterceptImporter {
    fn report(&mut self, fault: Diagnostic) {
        push_bounded(&mut self.diagnostics, fault);
    }

    fn add_note(&mut self, kind: NoteKind, span: &Range<usize>, message: impl Into<String>) {
        self.notes.push(ImportNote { kind, span: span.clone(), message: message.into() });
    }

    /// Notes what is the same for all places at the first of them.
    fn add_note_once(&mut self, kind: NoteKind, span: &Range<usize>, message: &str) {
        if !self.notes.iter().any(|note| note.message == message) {
            self.add_note(kind, span, message);
        }
    }

    fn convert_policy(&mut self, root: &SyntaxNode) -> String {
        let fields = self.read_entries(root, "a policy");
        self.check_field_names(fields, &SOURCE_FIELDS, "a policy");
        self.check_version(root);
        let default = self.convert_default(root);
        let mut members = vec![member("version", &quoted("1"))];
        if let Some(text) = self.read_text(root, "description") {
            members.push(member("description", &quoted(&text)));
        }
        members.push(member("default", &quoted(default.as_str())));
        if let Some(hide) = root.get("hide") {
            members.push(member("hide", &self.hide(hide)));
        }
        if let Some(tools) = root.get("tools") {
            members.extend(self.tools(tools, default));
        }
        if let Some(approvals) = root.get("approvals") {
            let message = "`approvals` is not taken over; who is asked, and how, is set in the gateway";
            self.add_note(NoteKind::Dropped, &key_span(fields, "approvals", approvals), message);
        }
        format!("{{\n{}\n}}", members.join(",\n"))
    }

    fn check_version(&mut self, root: &SyntaxNode) {
        match self.read_text(root, "version").as_deref() {
            Some("1") => {}
            Some(other) => {
                let span = root.get("version").unwrap_or(root).span.clone();
                let fault =
                    Diagnostic::error(DiagnosticCode::UnknownWord, span, format!("version `{other}` is not known"));
                self.report(fault.with_help("write `version: \"1\"`"));
            }
            None => self.report_missing(root, "version", "write `version: \"1\"`"),
        }
    }

    /// The fate of what is not listed.
    fn convert_default(&mut self, root: &SyntaxNode) -> Default {
        let Some((node, word)) = root.get("default").zip(self.read_text(root, "default")) else {
            let span = root.span.start..root.span.start;
            let message = "without `default`, tools that are not listed pass; it is now written out: consider `deny`";
            self.add_note(NoteKind::Exact, &span, message);
            return Default::Allow;
        };
        let found = self.read_word(node, &word, "default", Default::WORDS, Default::from_word);
        if found == Some(Default::Deny) {
            let message = "`default: deny` was about tools only; here it also refuses resources, prompts and other \
                           methods that are not named: write `resources`, `prompts` and `methods` for what should pass";
            self.add_note(NoteKind::Changed, &node.span, message);
        }
        found.unwrap_or(Default::Deny)
    }

    fn hide(&mut self, node: &SyntaxNode) -> String {
        let mut names: Vec<String> = Vec::new();
        for item in self.read_list(node, "hide") {
            let Some(name) = self.read_scalar(item, "an entry of `hide`") else { continue };
            if name.trim().is_empty() {
                let fault =
                    Diagnostic::error(DiagnosticCode::EmptyText, item.span.clone(), "an entry of `hide` is empty");
                self.report(fault.with_help("remove it, or write the name of a tool"));
            }
            if names.contains(&quoted(&name)) {
                let fault = Diagnostic::error(
                    DiagnosticCode::RepeatedKey,
                    item.span.clone(),
                    format!("`{name}` is hidden twice"),
                );
                self.report(fault.with_help("keep one of the two"));
            }
            if name.contains('*') && name != WILDCARD_TOOL_KEY {
                let message = format!("`{name}` was taken for a whole name; here it hides all tools that match");
                self.add_note(NoteKind::Changed, &item.span, message);
            }
            names.push(quoted(&name));
        }
        format!("[{}]", names.join(", "))
    }

    /// The members `all_tools` and `tools`.
    fn tools(&mut self, node: &SyntaxNode, default: Default) -> Vec<String> {
        let (mut all_tools, mut tools) = (None, Vec::new());
        for entry in self.read_entries(node, "`tools`") {
            if entry.key == WILDCARD_TOOL_KEY {
                let message =
                    "the rules of `*` become `all_tools`; as before, they let no tool pass that is not listed";
                self.add_note(NoteKind::Exact, &entry.key_span, message);
                all_tools = Some(member("all_tools", &self.tool(entry, "_global").to_json()));
            } else if entry.key.contains('*') && default == Default::Deny {
                self.drop_glob(entry);
            } else {
                if entry.key.contains('*') {
                    let message =
                        format!("`{}` was taken for a whole name; here it holds for all that match", entry.key);
                    self.add_note(NoteKind::Changed, &entry.key_span, message);
                }
                tools.push(member(&entry.key, &self.tool(entry, &entry.key).to_json()));
            }
        }
        let tools = format!("{{\n{}\n}}", tools.join(",\n"));
        all_tools.into_iter().chain([member("tools", &tools)]).collect()
    }

    /// A name with a star matched no tool. As a glob under `default: deny` it would let tools pass.
    fn drop_glob(&mut self, entry: &MapEntry) {
        let told = self.notes.len();
        self.tool(entry, &entry.key);
        self.notes.truncate(told);
        let message = format!(
            "`{}` was taken for a whole name and matched no tool; as a glob it would let tools pass: list it yourself \
             if that is what it should do",
            entry.key
        );
        self.add_note(NoteKind::Dropped, &entry.key_span, message);
    }

    fn tool(&mut self, entry: &MapEntry, scope: &str) -> BlockBuilder {
        let mut block = BlockBuilder::default();
        if self.is_null(&entry.value) {
            return block;
        }
        let fields = self.read_entries(&entry.value, "a tool");
        self.check_field_names(fields, &["rules"], "a tool");
        if let Some(rules) = entry.value.get("rules") {
            for rule in self.read_list(rules, "rules") {
                intercept_rule::convert_rule(self, rule, scope, &mut block);
            }
        }
        block
    }

    /// A condition on a counter that nobody counts is a mistake of its writer.
    fn check_references(&mut self) {
        for (key, span) in std::mem::take(&mut self.counter_references) {
            if !self.counted_keys.contains_key(&key) {
                let fault = Diagnostic::error(DiagnosticCode::BadPath, span, format!("no rule counts `state.{key}`"));
                self.report(fault.with_help("add a `state` block for it, or remove the condition"));
            }
        }
    }

    fn tell_comments(&mut self, count: usize) {
        let what = match count {
            0 => return,
            1 => "a comment is".to_owned(),
            count => format!("{count} comments are"),
        };
        self.add_note(NoteKind::Dropped, &(0..0), format!("{what} not taken over; copy by hand what should stay"));
    }
}

fn key_span(fields: &[MapEntry], name: &str, value: &SyntaxNode) -> Range<usize> {
    fields.iter().find(|field| field.key == name).map_or_else(|| value.span.clone(), |field| field.key_span.clone())
}

fn quoted(text: &str) -> String {
    let mut out = String::new();
    quote_into(text, &mut out);
    out
}

fn member(name: &str, value: &str) -> String {
    format!("{}: {value}", quoted(name))
}
