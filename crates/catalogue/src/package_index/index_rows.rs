//! An opened index: rows of numbers, and views that resolve the numbers to names.

use gatelodge_policy::Category;

use super::index_file_format::{FLOWS_BY_BIT, OPTIONAL_BIT, PARAMETER_TYPES_BY_NUMBER, REQUIRED_BIT};
use super::index_metadata::IndexMetadata;
use super::index_search::LowercaseSearchTexts;
use super::package_facts::{IndexedToolParameter, PackageFacts, PackageRegistry, ToolFacts, ToolHints};
use super::string_table::IndexStringTable;
use crate::classify::RiskLevel;
use crate::data_flow_label::DataFlowLabel;
use crate::risk_signals::RiskSignalKind;
use crate::server_grade::grade_server;

/// Facts about published packages and their tools.
#[derive(Debug, Default)]
pub struct PackageIndex {
    pub(super) metadata: IndexMetadata,
    pub(super) packages: IndexStringTable,
    pub(super) versions: IndexStringTable,
    pub(super) dates: IndexStringTable,
    pub(super) tool_names: IndexStringTable,
    pub(super) parameter_names: IndexStringTable,
    pub(super) servers: Vec<IndexServerRow>,
    pub(super) tools: Vec<IndexToolRow>,
    pub(super) parameter_rows: Vec<IndexParameterRow>,
    /// Lower-case package names, for searching.
    pub(super) lowercase_packages: LowercaseSearchTexts,
    pub(super) lowercase_tool_names: LowercaseSearchTexts,
}

#[derive(Debug)]
pub(super) struct IndexServerRow {
    pub source: PackageRegistry,
    pub package: u32,
    pub version: u32,
    pub date: u32,
    pub first_tool: u32,
    pub tool_count: u32,
}

#[derive(Debug)]
pub(super) struct IndexToolRow {
    pub server: u32,
    pub name: u32,
    pub first_parameter: u32,
    pub parameter_count: u32,
    pub claims: u8,
    pub category: Category,
    /// Confidence in hundredths.
    pub confidence: u8,
    pub signals: u32,
    /// Data flows as bits, plus the bit that marks an optional tool.
    pub flow: u8,
    pub hash: u64,
}

#[derive(Debug)]
pub(super) struct IndexParameterRow {
    pub name: u32,
    pub kind: u8,
}

/// A server in the index.
#[derive(Debug, Clone, Copy)]
pub struct IndexedServer<'i> {
    index: &'i PackageIndex,
    row: &'i IndexServerRow,
}

/// A tool in the index.
#[derive(Debug, Clone, Copy)]
pub struct IndexedTool<'i> {
    index: &'i PackageIndex,
    row: &'i IndexToolRow,
}

impl PackageIndex {
    /// Returns the date of the index and statistics about it.
    pub fn metadata(&self) -> &IndexMetadata {
        &self.metadata
    }

    /// Returns all servers, sorted by registry and name.
    pub fn servers(&self) -> impl ExactSizeIterator<Item = IndexedServer<'_>> {
        self.servers.iter().map(|row| IndexedServer { index: self, row })
    }

    /// Returns all tools, sorted by server and name.
    pub fn tools(&self) -> impl ExactSizeIterator<Item = IndexedTool<'_>> {
        self.tools.iter().map(|row| IndexedTool { index: self, row })
    }

    /// Finds a package by name. Case is ignored, and in Python names, `-`, `_` and `.` are equivalent. If no registry
    /// is given, the riskiest package with this name is returned; [`same_name_elsewhere`](Self::same_name_elsewhere)
    /// returns the other one.
    pub fn find(&self, source: Option<PackageRegistry>, package: &str) -> Option<IndexedServer<'_>> {
        let all = [PackageRegistry::Pypi, PackageRegistry::Npm]
            .into_iter()
            .filter(|own| source.is_none_or(|source| source == *own));
        all.filter_map(|own| self.find_in_registry(own, package)).max_by_key(IndexedServer::risk)
    }

    /// Returns the package with the same name in the other registry.
    pub fn same_name_elsewhere(&self, server: &IndexedServer<'_>) -> Option<IndexedServer<'_>> {
        let other = if server.source() == PackageRegistry::Pypi { PackageRegistry::Npm } else { PackageRegistry::Pypi };
        self.find_in_registry(other, server.package())
    }

    fn find_in_registry(&self, source: PackageRegistry, package: &str) -> Option<IndexedServer<'_>> {
        let wanted = normalized_name(package);
        let all = || self.servers().filter(|server| server.source() == source);
        let is_same = |server: &IndexedServer<'_>| match source {
            PackageRegistry::Pypi => normalized_name(server.package()) == wanted,
            PackageRegistry::Npm => server.package().eq_ignore_ascii_case(package),
        };
        all().find(|server| server.package() == package).or_else(|| all().find(is_same))
    }

    pub(super) fn build_search_texts(&mut self) {
        self.lowercase_packages = LowercaseSearchTexts::of(&self.packages);
        self.lowercase_tool_names = LowercaseSearchTexts::of(&self.tool_names);
    }

    pub(super) fn tool_at(&self, at: u32) -> Option<IndexedTool<'_>> {
        self.tools.get(at as usize).map(|row| IndexedTool { index: self, row })
    }

    pub(super) fn server_at(&self, at: u32) -> Option<IndexedServer<'_>> {
        self.servers.get(at as usize).map(|row| IndexedServer { index: self, row })
    }
}

/// Normalizes a Python package name as PyPI does.
pub fn normalized_name(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for letter in name.chars() {
        match letter {
            '-' | '_' | '.' if out.ends_with('-') => {}
            '-' | '_' | '.' => out.push('-'),
            letter => out.push(letter.to_ascii_lowercase()),
        }
    }
    out
}

/// Returns whether two names denote the same package in a registry. If no registry is given, PyPI's rules are used.
pub(crate) fn is_same_package_name(source: Option<PackageRegistry>, one: &str, other: &str) -> bool {
    match source {
        Some(PackageRegistry::Npm) => one.eq_ignore_ascii_case(other),
        Some(PackageRegistry::Pypi) | None => normalized_name(one) == normalized_name(other),
    }
}

impl<'i> IndexedServer<'i> {
    /// Returns the registry that the package is published in.
    pub fn source(&self) -> PackageRegistry {
        self.row.source
    }

    /// Returns the package's name in the registry.
    pub fn package(&self) -> &'i str {
        self.index.packages.get(self.row.package)
    }

    /// Returns the indexed version.
    pub fn version(&self) -> &'i str {
        self.index.versions.get(self.row.version)
    }

    /// Returns the release date of the indexed version, if known.
    pub fn date(&self) -> Option<&'i str> {
        Some(self.index.dates.get(self.row.date)).filter(|date| !date.is_empty())
    }

    /// Returns the server's tools, sorted by name.
    pub fn tools(&self) -> impl ExactSizeIterator<Item = IndexedTool<'i>> + use<'i> {
        let index = self.index;
        self.tool_rows().iter().map(move |row| IndexedTool { index, row })
    }

    /// Finds one of the server's tools by name.
    pub fn tool(&self, name: &str) -> Option<IndexedTool<'i>> {
        let (index, rows) = (self.index, self.tool_rows());
        let at = rows.binary_search_by(|row| index.tool_names.get(row.name).cmp(name)).ok()?;
        rows.get(at).map(|row| IndexedTool { index, row })
    }

    /// Returns the highest risk level of the tools and the server's grade, for comparing servers by risk.
    fn risk(&self) -> (Option<RiskLevel>, char) {
        let tools: Vec<ToolFacts> = self.tools().map(|tool| tool.facts()).collect();
        (self.tools().map(|tool| tool.level()).max(), grade_server(&tools).letter)
    }

    fn tool_rows(&self) -> &'i [IndexToolRow] {
        let first = self.row.first_tool as usize;
        self.index.tools.get(first..first + self.row.tool_count as usize).unwrap_or_default()
    }

    /// Returns all stored facts.
    pub fn facts(&self) -> PackageFacts {
        PackageFacts {
            source: self.source(),
            package: self.package().to_owned(),
            version: self.version().to_owned(),
            date: self.date().map(str::to_owned),
            tools: self.tools().map(|tool| tool.facts()).collect(),
        }
    }
}

impl<'i> IndexedTool<'i> {
    /// Returns the server that the tool belongs to.
    pub fn server(&self) -> Option<IndexedServer<'i>> {
        self.index.server_at(self.row.server)
    }

    /// Returns the name of the tool.
    pub fn name(&self) -> &'i str {
        self.index.tool_names.get(self.row.name)
    }

    /// Returns the category of the tool.
    pub fn category(&self) -> Category {
        self.row.category
    }

    /// Returns the risk level of the tool.
    pub fn level(&self) -> RiskLevel {
        RiskLevel::of(self.row.category)
    }

    /// Returns the confidence in the category.
    pub fn confidence(&self) -> f64 {
        f64::from(self.row.confidence) / 100.0
    }

    /// Returns the annotations provided by the tool's author.
    pub fn claims(&self) -> ToolHints {
        let claim = |at: u8| match self.row.claims >> (2 * at) & 3 {
            1 => Some(false),
            2 => Some(true),
            _ => None,
        };
        ToolHints { read_only: claim(0), destructive: claim(1), idempotent: claim(2), open_world: claim(3) }
    }

    /// Returns the risk signals found in the tool's definition.
    pub fn signals(&self) -> impl Iterator<Item = RiskSignalKind> + use<> {
        let bits = self.row.signals;
        RiskSignalKind::ALL.iter().enumerate().filter(move |(at, _)| bits >> at & 1 == 1).map(|(_, kind)| *kind)
    }

    /// Returns the tool's data-flow labels.
    pub fn flow(&self) -> impl Iterator<Item = DataFlowLabel> + use<> {
        let bits = self.row.flow;
        FLOWS_BY_BIT.into_iter().enumerate().filter(move |(at, _)| bits >> at & 1 == 1).map(|(_, flow)| flow)
    }

    /// Returns whether the tool is unavailable by default, because it depends on a setting or belongs to another
    /// program in the package.
    pub fn is_optional(&self) -> bool {
        self.row.flow & OPTIONAL_BIT != 0
    }

    /// Returns the tool's parameters.
    pub fn parameters(&self) -> impl ExactSizeIterator<Item = IndexedToolParameter> + use<'i> {
        let first = self.row.first_parameter as usize;
        let rows = self.index.parameter_rows.get(first..first + self.row.parameter_count as usize).unwrap_or_default();
        let index = self.index;
        rows.iter().map(move |row| IndexedToolParameter {
            name: index.parameter_names.get(row.name).to_owned(),
            kind: PARAMETER_TYPES_BY_NUMBER
                .get(usize::from(row.kind & !REQUIRED_BIT))
                .copied()
                .unwrap_or_default()
                .to_owned(),
            required: row.kind & REQUIRED_BIT != 0,
        })
    }

    /// Returns the first 16 hexadecimal digits of the definition's hash.
    pub fn hash(&self) -> String {
        format!("{:016x}", self.row.hash)
    }

    /// Returns all stored facts.
    pub fn facts(&self) -> ToolFacts {
        ToolFacts {
            name: self.name().to_owned(),
            parameters: self.parameters().collect(),
            claims: self.claims(),
            category: self.category(),
            confidence: self.confidence(),
            signals: self.signals().collect(),
            flow: self.flow().collect(),
            hash: self.hash(),
            optional: self.is_optional(),
        }
    }
}
