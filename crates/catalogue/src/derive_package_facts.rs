//! Derives the facts about a release from the tools extracted from it.

use std::collections::{HashMap, HashSet};

use data_encoding::HEXLOWER;
use gatelodge_json::{JsonLimits, read};
use serde_json::Value as Json;
use sha2::{Digest, Sha256};

use crate::classify::{RiskLevel, classify};
use crate::extracted_tool::ExtractedTool;
use crate::package_index::{IndexedToolParameter, PackageFacts, PackageRegistry, ToolFacts, ToolHints};
use crate::server_context::ServerContext;
use crate::tool_spec::ToolSpec;

/// Maximum number of tools per package. Only packages that generate their tools have more.
const MAX_TOOLS_PER_PACKAGE: usize = 4_000;
/// Maximum number of parameters per tool.
const MAX_PARAMETERS_PER_TOOL: usize = 256;
/// Maximum length of a name in the index.
const MAX_NAME_BYTES: usize = 256;

/// The release that the tools were extracted from.
#[derive(Debug, Clone)]
pub struct PackageRelease {
    /// Registry that the package is published in.
    pub source: PackageRegistry,
    /// Name in the registry.
    pub package: String,
    /// Indexed version.
    pub version: String,
    /// Release date of the version.
    pub date: Option<String>,
}

/// Derives the facts about a package. Descriptions written by its authors are not included. If several definitions
/// share a name, the riskiest one is used, because it is unknown which one runs. If one of them cannot be classified,
/// the tool is left out.
///
/// ```
/// use gatelodge_catalogue::{ExtractedTool, PackageRegistry, PackageRelease, derive_facts, grade_server};
/// use gatelodge_policy::Category;
///
/// let release = PackageRelease { source: PackageRegistry::Npm, package: "notes".into(), version: "1.0.0".into(), date: None };
/// let delete = ExtractedTool {
///     name: "delete_note".into(),
///     description: Some("Deletes a note permanently.".into()),
///     input_schema: serde_json::json!({"type": "object", "properties": {"id": {"type": "string"}}}),
///     annotations: serde_json::Map::new(),
///     optional: false,
/// };
/// let facts = derive_facts(&release, &[delete]);
/// assert_eq!(facts.tools[0].category, Category::Destructive);
/// assert_eq!(grade_server(&facts.tools).reasons, ["one tool is Destructive or Financial"]);
/// ```
pub fn derive_facts(release: &PackageRelease, tools: &[ExtractedTool]) -> PackageFacts {
    let mut seen = HashSet::new();
    let names =
        tools.iter().map(|tool| tool.name.as_str()).filter(|name| seen.insert(*name)).take(MAX_TOOLS_PER_PACKAGE);
    let names: Vec<&str> = names.collect();
    let server = ServerContext::new(&release.package, None, names.iter().copied());
    let mut by_name: HashMap<&str, Option<ToolFacts>> = HashMap::new();
    for tool in tools.iter().filter(|tool| (1..=MAX_NAME_BYTES).contains(&tool.name.len())) {
        let own = derive_tool_facts(tool, &server);
        let worst = match by_name.remove(tool.name.as_str()) {
            Some(known) => known.zip(own).map(|(known, own)| riskier_tool(known, own)),
            None => own,
        };
        by_name.insert(&tool.name, worst);
    }
    PackageFacts {
        source: release.source,
        package: release.package.clone(),
        version: release.version.clone(),
        date: release.date.clone(),
        tools: names.into_iter().filter_map(|name| by_name.remove(name).flatten()).collect(),
    }
}

/// Returns the riskier of two tools with the same name. The result is marked as optional only if both tools are.
fn riskier_tool(known: ToolFacts, own: ToolFacts) -> ToolFacts {
    let optional = known.optional && own.optional;
    let worse = if RiskLevel::of(own.category) > RiskLevel::of(known.category) { own } else { known };
    ToolFacts { optional, ..worse }
}

fn derive_tool_facts(found: &ExtractedTool, server: &ServerContext) -> Option<ToolFacts> {
    // Where a tool is registered is not part of its definition.
    let text = serde_json::to_string(&ExtractedTool { optional: false, ..found.clone() }).ok()?;
    let document = read(text.as_bytes(), &JsonLimits::REPLY).ok()?;
    let tool = ToolSpec::of(document.root()).ok()?;
    let known = classify(&tool, server);
    let mut signals: Vec<_> = known.signals.iter().map(|signal| signal.kind).collect();
    signals.dedup();
    let hint = |name: &str| found.annotations.get(name).and_then(Json::as_bool);
    Some(ToolFacts {
        name: found.name.clone(),
        parameters: parameter_facts(&found.input_schema),
        claims: ToolHints {
            read_only: hint("readOnlyHint"),
            destructive: hint("destructiveHint"),
            idempotent: hint("idempotentHint"),
            open_world: hint("openWorldHint"),
        },
        category: known.category,
        confidence: known.confidence,
        signals,
        flow: known.flow,
        hash: HEXLOWER.encode(Sha256::digest(&text).get(..8).unwrap_or_default()),
        optional: found.optional,
    })
}

fn parameter_facts(schema: &Json) -> Vec<IndexedToolParameter> {
    let Some(properties) = schema.get("properties").and_then(Json::as_object) else { return Vec::new() };
    let required = schema.get("required").and_then(Json::as_array);
    let is_required = |name: &str| required.is_some_and(|all| all.iter().any(|one| one == name));
    let all = properties.iter().take(MAX_PARAMETERS_PER_TOOL);
    // Parameters with empty or extremely long names are left out.
    let all = all.filter(|(name, _)| !name.is_empty() && name.len() <= MAX_NAME_BYTES);
    all.map(|(name, schema)| IndexedToolParameter {
        name: name.clone(),
        kind: json_type(schema),
        required: is_required(name),
    })
    .collect()
}

/// Returns the JSON type that a schema specifies, or the first known one if it specifies several.
fn json_type(schema: &Json) -> String {
    const JSON_TYPES: [&str; 6] = ["string", "integer", "number", "boolean", "array", "object"];
    let known = |word: &str| JSON_TYPES.contains(&word).then(|| word.to_owned());
    match schema.get("type") {
        Some(Json::String(word)) => return known(word).unwrap_or_default(),
        Some(Json::Array(words)) => {
            return words.iter().filter_map(Json::as_str).find_map(known).unwrap_or_default();
        }
        _ => {}
    }
    let inner = ["anyOf", "oneOf", "allOf"].iter().find_map(|name| schema.get(name)).and_then(Json::as_array);
    inner.into_iter().flatten().map(json_type).find(|kind| !kind.is_empty()).unwrap_or_default()
}
