//! Recognizes the forms in which packages define tools.

use std::collections::HashSet;

use super::expression_evaluation::JsEvaluator;
use super::static_value::{JsFrame, JsFrameOwner, JsValue};
use super::syntax::{JsClassId, JsFileId, JsNode, JsNodeId, JsObjectEntry};
use super::tool_builder::SCHEMA_KEYS;
use gatelodge_catalogue::ExtractedTool;

/// Functions that register a tool, given either the tool's name or an object.
const REGISTER_FUNCTIONS: [&str; 5] = ["registerTool", "tool", "addTool", "registerAppTool", "registerToolTask"];

/// Whether and how a tool definition is registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ToolRegistrationStatus {
    /// The tool is registered, or is in the list that the server returns.
    Enabled,
    /// The tool is registered only under a condition that is false by default.
    Disabled,
    /// The tool is defined, but it is not known where it is registered.
    DefinedOnly,
}

/// A tool definition and its location.
#[derive(Debug)]
pub(super) struct JsToolDefinition {
    pub tool: ExtractedTool,
    pub file: JsFileId,
    pub status: ToolRegistrationStatus,
}

/// Returns all definitions in source order. A tool may occur more than once.
pub(super) fn collect_definitions(evaluator: &mut JsEvaluator<'_>) -> Vec<JsToolDefinition> {
    let syntax = evaluator.syntax;
    let mut found = Vec::new();
    for call in &syntax.calls {
        let before = found.len();
        evaluator.begin_query();
        evaluator.collect_from_call(*call, &mut found);
        evaluator.drop_unreachable(*call, before, &mut found);
    }
    let by_path = loads_files_by_path(evaluator);
    let live = used_files(evaluator, by_path);
    for object in &syntax.named_objects {
        if live.contains(&syntax.file_of(*object)) {
            let before = found.len();
            evaluator.begin_query();
            evaluator.collect_from_object(*object, &mut found);
            evaluator.drop_unreachable(*object, before, &mut found);
        }
    }
    for class in (0..syntax.classes.len()).map(|index| JsClassId(index as u32)) {
        evaluator.begin_query();
        // A class that is never instantiated defines no tools.
        if by_path || evaluator.is_instantiated(class) {
            evaluator.collect_from_class(class, &mut found);
        }
    }
    found
}

/// Returns whether the package finds the files to load by listing its own folders.
fn loads_files_by_path(evaluator: &JsEvaluator<'_>) -> bool {
    let words = ["readdir", "readdirSync", "mcp-framework", "glob"];
    words.iter().any(|word| evaluator.syntax.find_symbol(word).is_some() || evaluator.syntax.has_import_of(word))
}

/// Returns the files that are in use: those that other files import, and those that contain calls. If the package finds
/// its files by path, all files are in use. Definitions in unused files are leftovers that are never registered.
fn used_files(evaluator: &JsEvaluator<'_>, by_path: bool) -> HashSet<JsFileId> {
    let syntax = evaluator.syntax;
    let mut live = evaluator.imported_files();
    live.extend(syntax.calls.iter().map(|call| syntax.file_of(*call)));
    if by_path {
        live.extend((0..syntax.files.len()).map(|index| JsFileId(index as u32)));
    }
    live
}

impl JsEvaluator<'_> {
    /// Drops the definitions found since `before` if their code is never reached. This check comes last because it is
    /// expensive.
    fn drop_unreachable(&mut self, node: JsNodeId, before: usize, found: &mut Vec<JsToolDefinition>) {
        if found.len() > before && self.is_dead(node) {
            found.truncate(before);
        }
        if found.len() > before {
            self.record_tools_found();
        }
    }

    fn collect_from_call(&mut self, call: JsNodeId, found: &mut Vec<JsToolDefinition>) {
        let syntax = self.syntax;
        let JsNode::Call(callee, items) = syntax.node(call) else { return };
        let (word, on_object) = match syntax.node(*callee) {
            JsNode::Member(_, word) => (syntax.symbol_text(*word), true),
            JsNode::Name(word, _) => (syntax.symbol_text(*word), false),
            _ => return,
        };
        match word {
            "setRequestHandler" => self.collect_from_list_handler(call, items, found),
            "Tool" | "McpTool" => self.collect_from_decorator(call, items, found),
            "tool" if !on_object => {
                if let [_, settings] = items.as_ref()
                    && let Ok(settings @ JsValue::Object(_)) = self.evaluate(*settings, &None)
                    && self.raw_member(&settings, "description").is_some()
                {
                    self.collect_from_registration(call, items, true, found);
                }
            }
            word if REGISTER_FUNCTIONS.contains(&word) => self.collect_from_registration(call, items, on_object, found),
            word if is_register_helper(word) && self.ends_in_function(items) => {
                self.collect_from_registration(call, items, on_object, found);
            }
            _ => {}
        }
    }

    fn ends_in_function(&mut self, items: &[JsNodeId]) -> bool {
        let last = items.last().map(|item| self.evaluate(*item, &None));
        items.len() > 2 && matches!(last, Some(Ok(JsValue::Function(..))))
    }

    /// Collects tools from `server.registerTool("name", …)`, `server.tool({ name, … })` and
    /// `registerTool(server, "name", …)`.
    fn collect_from_registration(
        &mut self,
        call: JsNodeId,
        items: &[JsNodeId],
        on_object: bool,
        found: &mut Vec<JsToolDefinition>,
    ) {
        let server_first = !on_object
            && matches!(items.get(1).map(|item| self.evaluate(*item, &None)), Some(Ok(JsValue::Text(_))))
            && !matches!(items.first().map(|item| self.evaluate(*item, &None)), Some(Ok(JsValue::Text(_))));
        let items = if server_first { items.get(1..).unwrap_or_default() } else { items };
        let Some((first, rest)) = items.split_first() else { return };
        for env in self.calling_contexts(&[*first], &None) {
            let tool = match self.evaluate(*first, &env) {
                Ok(JsValue::Text(name)) if !rest.is_empty() => self.tool_from_arguments(&name, rest, &env),
                Ok(value @ (JsValue::Object(_) | JsValue::Instance(..) | JsValue::Opaque(Some(_)))) => {
                    self.tool_from_value(&value)
                }
                _ => None,
            };
            if let Some(tool) = tool {
                let status = if self.is_disabled(call, &env) {
                    ToolRegistrationStatus::Disabled
                } else {
                    ToolRegistrationStatus::Enabled
                };
                found.push(self.definition_at(tool, call, status));
            }
        }
    }

    /// Collects tools from object literals that have the keys of a tool.
    fn collect_from_object(&mut self, node: JsNodeId, found: &mut Vec<JsToolDefinition>) {
        let syntax = self.syntax;
        let JsNode::Object(entries) = syntax.node(node) else { return };
        let has = |wanted: &str| {
            entries
                .iter()
                .any(|entry| matches!(entry, JsObjectEntry::Pair(key, _) if syntax.symbol_text(*key) == wanted))
        };
        let spreads = entries.iter().any(|entry| matches!(entry, JsObjectEntry::Spread(_)));
        let runs = has("execute") || has("handler");
        if !(has("inputSchema") || spreads || (has("parameters") && runs)) {
            return;
        }
        for env in self.calling_contexts(&[node], &None) {
            let Ok(value) = self.evaluate(node, &env) else { continue };
            let has_schema = self.raw_member(&value, "inputSchema").is_some() || (has("parameters") && runs);
            if has_schema && let Some(tool) = self.tool_from_value(&value) {
                found.push(self.definition_at(tool, node, ToolRegistrationStatus::DefinedOnly));
            }
        }
    }

    /// Collects tools from classes whose instances are tools.
    fn collect_from_class(&mut self, id: JsClassId, found: &mut Vec<JsToolDefinition>) {
        let syntax = self.syntax;
        let Some(class) = syntax.class(id) else { return };
        let has = |wanted: &[&str]| {
            class.members.iter().any(|member| !member.is_static && wanted.contains(&syntax.symbol_text(member.key)))
                || class.this_assignments.iter().any(|(key, _)| wanted.contains(&syntax.symbol_text(*key)))
        };
        let runs = has(&["execute", "handler", "call", "run", "invoke", "handle"]) || class.parent.is_some();
        if !(has(&["name"]) && has(&["description"]) && has(&SCHEMA_KEYS) && runs) {
            return;
        }
        let Some(node) = class.members.first().map(|member| member.value) else { return };
        for arguments in self.constructor_arguments(id) {
            let value = JsValue::Instance(id, arguments);
            let tool = self.tool_from_value(&value);
            found.extend(tool.map(|tool| self.definition_at(tool, node, ToolRegistrationStatus::DefinedOnly)));
        }
    }

    /// Collects tools from `setRequestHandler(ListToolsRequestSchema, () => ({ tools: [ … ] }))`.
    fn collect_from_list_handler(&mut self, call: JsNodeId, items: &[JsNodeId], found: &mut Vec<JsToolDefinition>) {
        let [_, handler, ..] = items else { return };
        let Ok(JsValue::Function(function, closure)) = self.evaluate(*handler, &None) else { return };
        let Some(result) = self.syntax.function(function).and_then(|function| function.result) else { return };
        let env = JsFrame::extend(JsFrameOwner::Function(function), vec![JsValue::Opaque(None); 2], &closure);
        for env in self.calling_contexts(&[result], &env) {
            let Ok(result) = self.evaluate(result, &env) else { continue };
            let Ok(tools) = self.evaluate_member(&result, &"tools".into()) else { continue };
            self.record_omission(tools.is_over_limit());
            if let JsValue::List(tools) = tools {
                for tool in tools.iter() {
                    let tool = self.tool_from_value(tool);
                    found.extend(tool.map(|tool| self.definition_at(tool, call, ToolRegistrationStatus::Enabled)));
                }
            }
        }
    }

    /// Collects tools from `@Tool({ name, description, parameters })`.
    fn collect_from_decorator(&mut self, call: JsNodeId, items: &[JsNodeId], found: &mut Vec<JsToolDefinition>) {
        if let [only] = items
            && let Ok(value @ JsValue::Object(_)) = self.evaluate(*only, &None)
        {
            let tool = self.tool_from_value(&value);
            found.extend(tool.map(|tool| self.definition_at(tool, call, ToolRegistrationStatus::Enabled)));
        }
    }

    fn definition_at(&self, tool: ExtractedTool, node: JsNodeId, status: ToolRegistrationStatus) -> JsToolDefinition {
        JsToolDefinition { tool, file: self.syntax.file_of(node), status }
    }
}

/// Returns whether the name looks like that of one of the package's own registration functions, such as `addReadTool`.
fn is_register_helper(word: &str) -> bool {
    ["add", "register", "define", "create"].iter().any(|start| word.starts_with(start)) && word.contains("Tool")
}
