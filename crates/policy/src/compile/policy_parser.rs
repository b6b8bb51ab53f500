//! Parses a document into a [`Policy`], reporting all errors at once.

mod counter_conflicts;
mod limit_parser;
mod predicate_parser;
mod rule_block_parser;

use std::collections::HashMap;
use std::sync::Arc;

use jiff::tz::{TimeZone, TimeZoneDatabase};

use crate::call::Category;
use crate::call::call_path::CallPath;
use crate::compile::compiled_policy::{
    BlockAction, CategoryRule, ClientRequestKind, DefaultAction, HideList, MethodRule, MethodTable, Policy,
    RuleBlockTable,
};
use crate::compile::glob::Glob;
use crate::compile::method_names::{ALWAYS_ALLOWED, METHODS_DECIDED_BY_TARGET, TASK_METHOD_PREFIX};
use crate::operators::RegexBudget;
use crate::syntax::diagnostic::{Diagnostic, DiagnosticCode, DiagnosticSink, Severity, sorted_for_display};
use crate::syntax::field_reader::{check_field_names, json_pointer, read_entries, read_list, read_text, read_word};
use crate::syntax::syntax_tree::{self, DocumentFormat, SyntaxMapEntry, SyntaxNode, SyntaxNodeValue};
pub(crate) use limit_parser::{LIMIT_FIELDS, RATE_LIMIT_FIELDS};
pub(crate) use predicate_parser::{CONDITION_FIELDS, PREDICATE_FIELDS};
pub(crate) use rule_block_parser::BLOCK_FIELDS;
use rule_block_parser::{RuleBlockKind, read_block};

/// The top-level fields of a policy.
pub(crate) const POLICY_FIELDS: [&str; 12] = [
    "version",
    "description",
    "$schema",
    "default",
    "hide",
    "all_tools",
    "categories",
    "tools",
    "resources",
    "prompts",
    "methods",
    "client_requests",
];
pub(crate) const TIME_ZONE_FIELD: &str = "time_zone";

/// Maximum number of globs in one map. There is a maximum because all pairs of globs are compared.
const MAX_GLOBS: usize = 5_000;

/// Help text for an empty document.
const EMPTY_POLICY_HELP: &str = r#"the smallest policy is {"version": "1", "default": "deny"}"#;

/// Parses and compiles a policy document.
///
/// # Errors
/// Returns all diagnostics in document order.
///
/// # Examples
/// ```
/// use gatelodge_policy::{DiagnosticCode, DocumentFormat, parse};
///
/// assert!(parse(br#"{"version": "1", "default": "deny"}"#, DocumentFormat::Json).is_ok());
///
/// let errors = parse(b"version: '1'\ndefalt: deny\n", DocumentFormat::Yaml).unwrap_err();
/// assert!(errors.iter().any(|error| error.code == DiagnosticCode::UnknownField));
/// ```
pub fn parse(text: &[u8], format: DocumentFormat) -> Result<Policy, Vec<Diagnostic>> {
    read(text, format).map(|(policy, _)| policy)
}

/// Parses a policy and also returns its syntax tree, for callers that need spans.
pub(crate) fn read(text: &[u8], format: DocumentFormat) -> Result<(Policy, SyntaxNode), Vec<Diagnostic>> {
    let (root, diagnostics) = syntax_tree::read(text, format)
        .map_err(|diagnostic| vec![diagnostic.with_help_if_empty(EMPTY_POLICY_HELP).with_default_help()])?;
    Ok((compile(&root, diagnostics)?, root))
}

/// Compiles a syntax tree. `diagnostics` are the ones reported while it was read.
pub(crate) fn compile(root: &SyntaxNode, diagnostics: Vec<Diagnostic>) -> Result<Policy, Vec<Diagnostic>> {
    let mut parser = PolicyParser { diagnostics, regex_budget: RegexBudget::default(), paths: HashMap::new() };
    let policy = parser.read_policy(root);
    let mut diagnostics = parser.diagnostics;
    counter_conflicts::check_counters(&policy, &mut diagnostics);
    if diagnostics.iter().any(|diagnostic| diagnostic.severity == Severity::Error) {
        return Err(sorted_for_display(diagnostics));
    }
    Ok(policy)
}

/// The state of the parser.
pub(crate) struct PolicyParser {
    pub diagnostics: Vec<Diagnostic>,
    pub regex_budget: RegexBudget,
    /// The paths in conditions, keyed by their text, so that equal paths are shared.
    pub paths: HashMap<Box<str>, Arc<CallPath>>,
}

impl DiagnosticSink for PolicyParser {
    fn report(&mut self, diagnostic: Diagnostic) {
        self.diagnostics.report(diagnostic);
    }
}

impl PolicyParser {
    fn read_policy(&mut self, root: &SyntaxNode) -> Policy {
        let fields = read_entries(root, "a policy", self);
        let known: Vec<&str> = POLICY_FIELDS.iter().copied().chain([TIME_ZONE_FIELD]).collect();
        check_field_names(fields, &known, "a policy", self);
        self.check_version(root);
        let default = self.read_default(root);
        let mut policy = Policy {
            default,
            default_pointer: "/default".into(),
            hide: HideList::default(),
            all_tools: None,
            categories: Vec::new(),
            tools: RuleBlockTable::default(),
            resources: RuleBlockTable::default(),
            prompts: RuleBlockTable::default(),
            methods: None,
            client_requests: None,
            time_zone: TimeZone::UTC,
        };
        for field in fields {
            let value = &field.value;
            match field.key.as_str() {
                "description" | "$schema" => {
                    read_text(value, &field.key, self);
                }
                "hide" => policy.hide = self.read_hide(value),
                "all_tools" => {
                    policy.all_tools = Some(read_block(field, "/all_tools".into(), RuleBlockKind::AllTools, self))
                }
                "categories" => policy.categories = self.read_categories(value),
                "tools" => policy.tools = self.read_table(field, RuleBlockKind::Tool),
                "resources" => policy.resources = self.read_table(field, RuleBlockKind::Resource),
                "prompts" => policy.prompts = self.read_table(field, RuleBlockKind::Prompt),
                "methods" => policy.methods = Some(self.read_methods(value)),
                "client_requests" => policy.client_requests = Some(self.read_client_requests(value)),
                TIME_ZONE_FIELD => policy.time_zone = self.read_time_zone(value),
                _ => {}
            }
        }
        policy
    }

    fn check_version(&mut self, root: &SyntaxNode) {
        let help = r#"write "version": "1""#;
        match root.get("version") {
            None => self.report_missing(root, "version", help),
            Some(node) => match &node.value {
                SyntaxNodeValue::Text(version) if version == "1" => {}
                SyntaxNodeValue::Text(version) => {
                    let message = format!("unknown version `{version}`");
                    self.report(
                        Diagnostic::error(DiagnosticCode::UnknownWord, node.span.clone(), message).with_help(help),
                    );
                }
                _ => {
                    let message = format!("`version` must be a string, not {}", node.kind().with_article());
                    self.report(
                        Diagnostic::error(DiagnosticCode::WrongType, node.span.clone(), message).with_help(help),
                    );
                }
            },
        }
    }

    fn read_default(&mut self, root: &SyntaxNode) -> DefaultAction {
        let help = r#"write "default": "deny", and list what may be called"#;
        match root.get("default") {
            None => self.report_missing(root, "default", help),
            Some(node) => {
                return read_word(node, "default", DefaultAction::WORDS, DefaultAction::from_word, self)
                    .unwrap_or(DefaultAction::Deny);
            }
        }
        DefaultAction::Deny
    }

    fn report_missing(&mut self, node: &SyntaxNode, name: &str, help: &str) {
        // A root that is not an object has already been reported.
        let SyntaxNodeValue::Map(_) = node.value else { return };
        // Only the opening bracket: underlining a whole block does not help the reader.
        let span = node.span.start..(node.span.start + 1).min(node.span.end);
        self.report(
            Diagnostic::error(DiagnosticCode::MissingField, span, format!("`{name}` is missing")).with_help(help),
        );
    }

    fn read_hide(&mut self, node: &SyntaxNode) -> HideList {
        let mut hidden = HideList::default();
        for (at, item) in read_list(node, "hide", self).iter().enumerate() {
            let Some(name) = read_text(item, "an entry of `hide`", self) else { continue };
            let pointer: Arc<str> = format!("/hide/{at}").into();
            match Glob::new(name) {
                Some(glob) => hidden.globs.push((at, glob, pointer)),
                None => {
                    hidden.exact.entry(name.into()).or_insert((at, pointer));
                }
            }
        }
        self.refuse_too_many_globs(hidden.globs.len(), node);
        hidden
    }

    fn read_categories(&mut self, node: &SyntaxNode) -> Vec<(Category, CategoryRule)> {
        let fields = read_entries(node, "`categories`", self);
        check_field_names(fields, Category::WORDS, "`categories`", self);
        let mut rules = Vec::new();
        for field in fields {
            let Some(category) = Category::from_word(&field.key) else { continue };
            let pointer = json_pointer("/categories", &field.key);
            rules.push((category, self.read_category_rule(field, pointer)));
        }
        rules
    }

    fn read_category_rule(&mut self, entry: &SyntaxMapEntry, pointer: Arc<str>) -> CategoryRule {
        let node = &entry.value;
        let SyntaxNodeValue::Text(text) = &node.value else {
            return CategoryRule::Block(read_block(entry, pointer, RuleBlockKind::Category, self));
        };
        if text == "hide" {
            return CategoryRule::Hide(pointer);
        }
        let words: Vec<&str> = BlockAction::WORDS.iter().copied().chain(["hide"]).collect();
        let action =
            read_word(node, "a category's rule", &words, BlockAction::from_word, self).unwrap_or(BlockAction::Deny);
        CategoryRule::Block(rule_block_parser::empty_block(pointer, entry.key_span.clone(), action))
    }

    fn read_table(&mut self, field: &SyntaxMapEntry, place: RuleBlockKind) -> RuleBlockTable {
        let mut table = RuleBlockTable::default();
        let mut written = Vec::new();
        for entry in read_entries(&field.value, &format!("`{}`", field.key), self) {
            let pointer = json_pointer(&format!("/{}", field.key), &entry.key);
            let block = read_block(entry, pointer, place, self);
            match Glob::new(&entry.key) {
                Some(glob) => {
                    written.push((glob.literal_count(), glob.clone(), entry));
                    table.globs.push((glob, block));
                }
                None => {
                    table.exact.insert(entry.key.as_str().into(), block);
                }
            }
        }
        self.refuse_too_many_globs(written.len(), &field.value);
        self.refuse_tied_globs(&written);
        table.globs.sort_by_key(|(glob, _)| std::cmp::Reverse(glob.literal_count()));
        table
    }

    fn refuse_too_many_globs(&mut self, globs: usize, node: &SyntaxNode) {
        if globs > MAX_GLOBS {
            let message = format!("more than {MAX_GLOBS} globs in one place");
            let diagnostic = Diagnostic::error(DiagnosticCode::TooLarge, node.span.start..node.span.start, message);
            self.report(diagnostic.with_help("write whole names, or fewer globs with more stars"));
        }
    }

    fn refuse_tied_globs(&mut self, globs: &[(usize, Glob, &SyntaxMapEntry)]) {
        let globs = globs.get(..MAX_GLOBS).unwrap_or(globs);
        for (at, (count, glob, entry)) in globs.iter().enumerate() {
            let ties = |(other_count, other, _): &&(usize, Glob, &SyntaxMapEntry)| {
                count == other_count && glob.can_overlap(other)
            };
            let Some((_, _, earlier)) = globs.iter().take(at).find(ties) else { continue };
            let message =
                format!("`{}` and `{}` can match the same name, and neither is more specific", earlier.key, entry.key);
            let diagnostic = Diagnostic::error(DiagnosticCode::TiedGlobs, entry.key_span.clone(), message);
            let diagnostic = diagnostic.with_related(earlier.key_span.clone(), "the other one");
            self.report(diagnostic.with_help("make one of them more specific"));
        }
    }

    fn read_methods(&mut self, node: &SyntaxNode) -> MethodTable {
        let mut methods = MethodTable::default();
        for entry in read_entries(node, "`methods`", self) {
            let allows =
                read_word(&entry.value, "a method's rule", DefaultAction::WORDS, DefaultAction::from_word, self)
                    == Some(DefaultAction::Allow);
            let rule = MethodRule { allows, pointer: json_pointer("/methods", &entry.key) };
            if let Err(why) = check_method_name(&entry.key) {
                let diagnostic = Diagnostic::error(
                    DiagnosticCode::BadMethod,
                    entry.key_span.clone(),
                    format!("`{}` cannot be named here", entry.key),
                );
                self.report(diagnostic.with_help(why));
                continue;
            }
            match entry.key.strip_suffix('*') {
                Some(prefix) => methods.prefixes.push((prefix.into(), rule)),
                None => {
                    methods.exact.insert(entry.key.as_str().into(), rule);
                }
            }
        }
        methods.prefixes.sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.len()));
        methods
    }

    fn read_client_requests(&mut self, node: &SyntaxNode) -> Vec<(ClientRequestKind, MethodRule)> {
        let fields = read_entries(node, "`client_requests`", self);
        check_field_names(fields, ClientRequestKind::WORDS, "`client_requests`", self);
        let mut requests = Vec::new();
        for field in fields {
            let Some(request) = ClientRequestKind::from_word(&field.key) else { continue };
            let allows = read_word(&field.value, &field.key, DefaultAction::WORDS, DefaultAction::from_word, self)
                == Some(DefaultAction::Allow);
            requests.push((request, MethodRule { allows, pointer: json_pointer("/client_requests", &field.key) }));
        }
        requests
    }

    fn read_time_zone(&mut self, node: &SyntaxNode) -> TimeZone {
        let Some(name) = read_text(node, TIME_ZONE_FIELD, self) else { return TimeZone::UTC };
        let database = TimeZoneDatabase::bundled();
        // The lookup ignores case; a policy must use the exact name.
        let is_name = database.available().any(|known| known.as_str() == name);
        match database.get(name) {
            Ok(zone) if is_name => zone,
            _ => {
                let diagnostic = Diagnostic::error(
                    DiagnosticCode::BadTimeZone,
                    node.span.clone(),
                    format!("`{name}` is not a time zone"),
                );
                self.report(diagnostic.with_help("write the exact IANA name, such as `Europe/Berlin`"));
                TimeZone::UTC
            }
        }
    }
}

/// Checks that a method may be listed under `methods`. The error says why it must not be.
fn check_method_name(method: &str) -> Result<(), &'static str> {
    if ALWAYS_ALLOWED.contains(&method) {
        return Err("this method is always allowed; lists are filtered by the other parts of the policy");
    }
    if METHODS_DECIDED_BY_TARGET.contains(&method) {
        return Err("this method is decided by `tools`, `resources` or `prompts`");
    }
    if method.starts_with(TASK_METHOD_PREFIX) {
        return Err("tasks follow the rule of the call that created them");
    }
    if ClientRequestKind::of_method(method).is_some() {
        return Err("write `sampling`, `elicitation` or `roots` under `client_requests`");
    }
    match method.find('*') {
        None if !method.is_empty() => Ok(()),
        Some(at) if method.len() > 2 && at == method.len() - 1 && method.ends_with("/*") => Ok(()),
        _ => Err("write a method's whole name, or `x/*` for all methods that begin with `x/`"),
    }
}
