//! Implements the tools of the catalogue's MCP server, all of which are read-only. Errors are returned as tool results
//! that tell the model what to do.

use std::cmp::Reverse;
use std::path::PathBuf;

use gatelodge_catalogue::{
    IndexQuery, IndexedServer, PackageIndex, PackageReference, RiskLevel, RiskSignalKind, ServerCatalogueEntry,
    ServerStackMember, StarterPolicyStrictness, ToolFacts, category_name, grade_server, summarize_stack,
};
use gatelodge_policy::Category;
use serde_json::{Map, Value, json};

use super::super::{classification_io, index_access, index_change_feed, search_index, show_package};
use crate::diagnostic_report::escape_for_terminal;

/// Maximum number of list items in one response.
const MAX_ITEMS: u64 = 100;
/// Number of tools returned when `limit` is not given.
const DEFAULT_TOOL_LIMIT: u64 = 25;
/// Maximum length of a policy in a response; a longer one would fill the model's context.
const MAX_POLICY_BYTES: usize = 12_000;

/// The tool definitions that `tools/list` returns.
pub const TOOL_DEFINITIONS: &str = r#"[
{"name":"check_mcp_server","title":"Check a server","description":"Describes what a published MCP server lets an agent do, before it is added: verdict (proceed, connect-with-rule, ask-first) with reasons, grade, its tools with the riskiest first, and a policy if it is short. Long tool lists are paged: `tool_count` is the total, and `next_skip` is the `skip` for the next page. A server that is not in the index is ask-first.","inputSchema":{"type":"object","properties":{"server":{"type":"string","description":"A package, such as `npm:@scope/name@1.2.3` or `pypi:name==1.2.3`; source and version are optional."},"skip":{"type":"integer","minimum":0,"description":"Number of tools to skip, riskiest first."},"limit":{"type":"integer","minimum":1,"maximum":100}},"required":["server"],"additionalProperties":false},"annotations":{"readOnlyHint":true,"openWorldHint":false}},
{"name":"search_registry","title":"Search servers and tools","description":"Finds servers and tools of the index by parts of their names, by category, level or signal.","inputSchema":{"type":"object","properties":{"query":{"type":"string","description":"Parts of names, separated by spaces."},"category":{"type":"string","enum":["read","write","execute","destructive","financial","unknown"]},"level":{"type":"string","enum":["low","medium","high","critical"]},"signal":{"type":"string","description":"A risk signal in a tool definition, such as `takes_code`."},"limit":{"type":"integer","minimum":1,"maximum":100}},"additionalProperties":false},"annotations":{"readOnlyHint":true,"openWorldHint":false}},
{"name":"check_tool","title":"Check a tool","description":"Returns one tool's category, level, confidence, reasons, signals, attack patterns, OWASP classes and recommended rule; and for its server the indexed version, and `verdict` with `reasons` as in `check_mcp_server`.","inputSchema":{"type":"object","properties":{"server":{"type":"string","description":"The package that has the tool."},"tool":{"type":"string","description":"Name of the tool."}},"required":["server","tool"],"additionalProperties":false},"annotations":{"readOnlyHint":true,"openWorldHint":false}},
{"name":"check_mcp_stack","title":"Check servers together","description":"Describes what several servers add up to for one agent: the highest level, tools by category, servers that are not in the index, and combinations of tools that give access to private data, expose the agent to untrusted text and can send data out.","inputSchema":{"type":"object","properties":{"servers":{"type":"array","items":{"type":"string"},"minItems":1,"maxItems":100,"description":"Packages."}},"required":["servers"],"additionalProperties":false},"annotations":{"readOnlyHint":true,"openWorldHint":false}},
{"name":"get_change_events","title":"What changed","description":"Lists changes of tools between the indexes that were in use here, in order: raised level, added, lost claims, changed definitions, removed. For a server with many changes, the most severe are listed and the others counted (`more_changes`). Pass the last cursor to get later events; `left_out` is the number of older events that are no longer stored.","inputSchema":{"type":"object","properties":{"cursor":{"type":"integer","minimum":0},"level":{"type":"string","enum":["low","medium","high","critical"],"description":"Only tools of this level or higher."},"limit":{"type":"integer","minimum":1,"maximum":100}},"additionalProperties":false},"annotations":{"readOnlyHint":true,"openWorldHint":false}}
]"#;

/// Data that the MCP server's tools read.
pub struct CatalogueMcpServer {
    pub index: PackageIndex,
    /// Path of the change feed; `None` if there is no data directory.
    pub change_log: Option<PathBuf>,
    /// Whether the index was chosen with `--index`, in which case the change feed belongs to a different index.
    pub is_custom_index: bool,
}

/// Calls a tool. Returns `None` if there is no tool with this name.
pub fn call_tool(catalogue: &CatalogueMcpServer, name: &str, arguments: &Value) -> Option<Result<Value, String>> {
    let given = CatalogueToolArguments::of(arguments);
    let called = match name {
        "check_mcp_server" => given
            .reject_unknown(&["server", "skip", "limit"])
            .and_then(|given| check_server(catalogue, &given.required_text("server")?, &given)),
        "search_registry" => given
            .reject_unknown(&["query", "category", "level", "signal", "limit"])
            .and_then(|given| search_index(catalogue, &given)),
        "check_tool" => given
            .reject_unknown(&["server", "tool"])
            .and_then(|given| check_tool(catalogue, &given.required_text("server")?, &given.required_text("tool")?)),
        "check_mcp_stack" => given.reject_unknown(&["servers"]).and_then(|given| check_stack(catalogue, &given)),
        "get_change_events" => {
            given.reject_unknown(&["cursor", "level", "limit"]).and_then(|given| change_events(catalogue, &given))
        }
        _ => return None,
    };
    Some(called)
}

/// Arguments of a tool call.
struct CatalogueToolArguments<'a>(Option<&'a Map<String, Value>>);

impl<'a> CatalogueToolArguments<'a> {
    fn of(arguments: &'a Value) -> Self {
        Self(arguments.as_object())
    }

    /// Returns an error for unknown arguments, so that a misspelled filter is not silently ignored.
    fn reject_unknown(self, names: &[&str]) -> Result<Self, String> {
        match self.0.into_iter().flatten().find(|(name, _)| !names.contains(&name.as_str())) {
            Some((name, _)) => Err(format!(
                "there is no argument `{}`; the arguments are {}",
                escape_for_terminal(name),
                names.join(", ")
            )),
            None => Ok(self),
        }
    }

    fn get(&self, name: &str) -> Option<&'a Value> {
        self.0?.get(name)
    }

    fn find_text(&self, name: &str) -> Result<Option<String>, String> {
        match self.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(_) => Err(format!("`{name}` must be a string")),
        }
    }

    fn required_text(&self, name: &str) -> Result<String, String> {
        self.find_text(name)?.ok_or_else(|| format!("`{name}` is missing"))
    }

    fn number_or(&self, name: &str, usual: u64) -> Result<u64, String> {
        match self.get(name) {
            None | Some(Value::Null) => Ok(usual),
            Some(value) => value.as_u64().ok_or_else(|| format!("`{name}` must be a whole number")),
        }
    }

    fn parse_word<T>(&self, name: &str, read: impl Fn(&str) -> Option<T>) -> Result<Option<T>, String> {
        let Some(text) = self.find_text(name)? else { return Ok(None) };
        read(&text.to_ascii_lowercase()).map(Some).ok_or_else(|| format!("`{name}` is not one of the known values"))
    }

    fn level(&self) -> Result<Option<RiskLevel>, String> {
        self.parse_word("level", |word| {
            RiskLevel::ALL.into_iter().find(|level| level.as_str().eq_ignore_ascii_case(word))
        })
    }
}

fn find_server<'i>(
    catalogue: &'i CatalogueMcpServer,
    text: &str,
) -> Result<(PackageReference, Option<IndexedServer<'i>>), String> {
    let named = PackageReference::read(text)
        .ok_or("name the server by its package: `npm:@scope/name` or `pypi:name`; the index has no URLs")?;
    let server = catalogue.index.find(named.source, &named.name);
    Ok((named, server))
}

fn check_server(
    catalogue: &CatalogueMcpServer,
    text: &str,
    given: &CatalogueToolArguments<'_>,
) -> Result<Value, String> {
    let (named, server) = find_server(catalogue, text)?;
    let Some(server) = server else {
        let advice = index_access::advise_unknown(&catalogue.index, &named);
        return Ok(
            json!({"server": escape_for_terminal(text), "is_known": false, "verdict": advice.verdict, "reasons": advice.reasons}),
        );
    };
    let known = ServerCatalogueEntry::of(&server);
    let (grade, advice) =
        (grade_server(&known.tools), index_access::advise(&catalogue.index, &named, &server, &known.tools));
    let skip = usize::try_from(given.number_or("skip", 0)?).unwrap_or(usize::MAX);
    let limit = given.number_or("limit", DEFAULT_TOOL_LIMIT)?.clamp(1, MAX_ITEMS) as usize;
    let mut tools: Vec<&ToolFacts> = known.tools.iter().collect();
    tools.sort_by_key(|tool| Reverse(RiskLevel::of(tool.category)));
    let part: Vec<Value> = tools.iter().skip(skip).take(limit).map(|tool| tool_row_json(tool)).collect();
    let next = skip.saturating_add(part.len());
    let mut result = search_index::server_json(&server);
    if let Value::Object(result) = &mut result {
        let more = json!({"is_known": true, "verdict": advice.verdict, "reasons": advice.reasons, "grade_reasons": grade.reasons,
            "tokens": known.estimated_tokens(), "tools": part, "index_date": catalogue.index.metadata().date});
        result.extend(more.as_object().cloned().unwrap_or_default());
        if next < tools.len() {
            result.insert("next_skip".to_owned(), next.into());
        }
        if skip == 0 {
            result.insert("policy".to_owned(), short_policy(&server, &known));
        }
    }
    Ok(result)
}

/// Converts a tool to the short JSON form that is used in lists of tools.
fn tool_row_json(tool: &ToolFacts) -> Value {
    json!({"name": escape_for_terminal(&tool.name), "category": category_name(tool.category), "level": RiskLevel::of(tool.category),
        "confidence": tool.confidence, "optional": tool.optional})
}

/// Returns the recommended policy or, if it is too long for a model's context, a message with the command that prints
/// it.
fn short_policy(server: &IndexedServer<'_>, known: &ServerCatalogueEntry) -> Value {
    let policy = show_package::server_policy(known, StarterPolicyStrictness::Recommended).ok();
    match policy {
        Some(policy) if policy.len() > MAX_POLICY_BYTES => {
            let package = format!("{}:{}", server.source().as_str(), escape_for_terminal(server.package()));
            format!(
                "The policy has {} bytes. `gatelodge catalogue show {package} --policy recommended` prints it; `check_tool` gives the rule of one tool.",
                policy.len()
            )
            .into()
        }
        policy => policy.into(),
    }
}

fn search_index(catalogue: &CatalogueMcpServer, given: &CatalogueToolArguments<'_>) -> Result<Value, String> {
    let mut query = IndexQuery::from_words(&given.find_text("query")?.unwrap_or_default());
    query.category = given.parse_word("category", Category::from_word)?;
    query.level = given.level()?;
    query.signal = given.parse_word("signal", RiskSignalKind::from_word)?;
    let limit = given.number_or("limit", 20)?.clamp(1, MAX_ITEMS) as usize;
    let found = catalogue.index.search(&query, 0, limit);
    Ok(json!({
        "servers": found.servers.iter().map(search_index::server_json).collect::<Vec<_>>(), "server_count": found.server_count,
        "tools": found.tools.iter().map(search_index::tool_json).collect::<Vec<_>>(), "tool_count": found.tool_count,
    }))
}

fn check_tool(catalogue: &CatalogueMcpServer, server: &str, name: &str) -> Result<Value, String> {
    let (named, server) = find_server(catalogue, server)?;
    let server = server.ok_or_else(|| {
        let reasons = index_access::advise_unknown(&catalogue.index, &named).reasons.join("; ");
        format!("{reasons}; `search_registry` finds packages by parts of their names")
    })?;
    let known = ServerCatalogueEntry::of(&server);
    let advice = index_access::advise(&catalogue.index, &named, &server, &known.tools);
    known.with_classifications(|tools| {
        let found = tools.iter().find(|(tool, _)| tool.name == name);
        let (tool, own) = found.ok_or("the server has no such tool; `check_mcp_server` lists its tools")?;
        let mut result =
            classification_io::classification_json(server.package(), tool, own).map_err(|error| error.to_string())?;
        if let Value::Object(result) = &mut result {
            let more = json!({"source": server.source(), "version": escape_for_terminal(server.version()),
                "verdict": advice.verdict, "reasons": advice.reasons});
            result.extend(more.as_object().cloned().unwrap_or_default());
        }
        Ok(result)
    })
}

fn check_stack(catalogue: &CatalogueMcpServer, given: &CatalogueToolArguments<'_>) -> Result<Value, String> {
    let names = given.get("servers").and_then(Value::as_array).ok_or("`servers` must be a list of strings")?;
    if names.len() as u64 > MAX_ITEMS {
        return Err(format!("at most {MAX_ITEMS} servers can be checked together"));
    }
    let (mut members, mut verdicts, mut has_incident) = (Vec::new(), Vec::new(), false);
    for name in names {
        let name = name.as_str().ok_or("`servers` must be a list of strings")?;
        let (named, server) = find_server(catalogue, name)?;
        let tools = server.map(|server| server.facts().tools);
        has_incident |= named.incidents(server.as_ref()).iter().any(|own| own.is_affected);
        verdicts.push(match (server, &tools) {
            (Some(server), Some(tools)) => index_access::advise(&catalogue.index, &named, &server, tools),
            _ => index_access::advise_unknown(&catalogue.index, &named),
        });
        members.push(ServerStackMember { name: escape_for_terminal(name), tools, is_package_guessed: false });
    }
    let servers = members.iter().zip(verdicts).map(|(member, advice)| {
        json!({"server": member.name, "is_known": member.tools.is_some(), "verdict": advice.verdict, "level": member.level(),
            "grade": member.grade().map(|grade| grade.letter), "reasons": advice.reasons})
    });
    let mut sum = summarize_stack(&members);
    sum.level = sum.overall_level(sum.combination_count > 0, has_incident);
    Ok(json!({"stack": sum, "servers": servers.collect::<Vec<_>>()}))
}

fn change_events(catalogue: &CatalogueMcpServer, given: &CatalogueToolArguments<'_>) -> Result<Value, String> {
    let cursor = given.number_or("cursor", 0)?;
    let limit = given.number_or("limit", MAX_ITEMS)?.clamp(1, MAX_ITEMS) as usize;
    let least = given.level()?.unwrap_or(RiskLevel::Low);
    if catalogue.is_custom_index {
        return Err("changes are not recorded for an index that is named with `--index`".to_owned());
    }
    let Some(log) = catalogue.change_log.as_deref() else {
        return Ok(json!({"events": [], "cursor": cursor, "has_more": false, "left_out": 0}));
    };
    let page = index_change_feed::events_after(log, cursor, least, limit)
        .map_err(|error| format!("cannot read the changes: {error}"))?;
    let page = page.map_err(|ahead| ahead.to_string())?;
    Ok(json!({"events": page.events, "cursor": page.cursor, "has_more": page.has_more, "left_out": page.left_out}))
}
