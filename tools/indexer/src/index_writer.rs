//! Writes the index file from facts. The same facts give the same file, whatever their order.

mod column_writer;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use gatelodge_catalogue::index_format::{
    CATEGORIES_BY_NUMBER, FILE_MAGIC, FORMAT, HEADER_BYTES, IndexHeader, MAX_BODY_BYTES, PARAMETER_TYPES_BY_NUMBER,
    REQUIRED_BIT, claim_bits, flow_bits, is_date, is_name, is_version, signal_bits,
};
use gatelodge_catalogue::{
    IndexMetadata, PackageFacts, PackageRegistry, RiskSignalKind, ToolFacts, escape_for_display, normalized_name,
};

use column_writer::ColumnWriter;

/// Compression level of the body. A high level pays off because the body is compressed once and read often.
const COMPRESSION_LEVEL: u8 = 10;

/// Why an index cannot be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WriteIndexError {
    /// A package's facts are not valid.
    #[error("package `{package}`: {why}")]
    InvalidPackage {
        /// The package.
        package: String,
        /// What is wrong with the facts.
        why: String,
    },
    /// The facts exceed the maximum size of an index.
    #[error("the facts exceed the maximum size of an index")]
    TooLarge,
}

/// Writes an index. If a package occurs more than once, only its last facts are used. Python package names are
/// normalized.
///
/// # Errors
/// Returns an error if a package's facts are not valid, or if the facts exceed the maximum size of an index.
pub fn write_index(
    packages: impl IntoIterator<Item = PackageFacts>,
    about: &IndexMetadata,
) -> Result<Vec<u8>, WriteIndexError> {
    let mut by_name: BTreeMap<(PackageRegistry, String), PackageFacts> = BTreeMap::new();
    for mut package in packages {
        check_package(&package)?;
        if package.source == PackageRegistry::Pypi {
            package.package = normalized_name(&package.package);
        }
        package.tools.sort_by(|one, other| one.name.cmp(&other.name));
        package.tools.dedup_by(|one, other| one.name == other.name);
        by_name.insert((package.source, package.package.clone()), package);
    }
    let packages: Vec<PackageFacts> = by_name.into_values().collect();
    let header = IndexHeader {
        metadata: about.clone(),
        signals: RiskSignalKind::ALL.iter().map(|kind| kind.as_str().to_owned()).collect(),
    };
    let mut body = ColumnWriter::default();
    let mut said = ColumnWriter::default();
    said.bytes(&serde_json::to_vec(&header).unwrap_or_default());
    body.column(said);
    let numbers = IndexInterners::of(&packages);
    for pool in [&numbers.packages, &numbers.versions, &numbers.dates, &numbers.tool_names, &numbers.parameter_names] {
        pool.write(&mut body);
    }
    write_server_rows(&packages, &numbers, &mut body);
    write_tool_rows(&packages, &numbers, &mut body);
    write_parameter_rows(&packages, &numbers, &mut body);
    pack(&body.into_bytes())
}

fn check_package(package: &PackageFacts) -> Result<(), WriteIndexError> {
    let fault =
        |why: String| Err(WriteIndexError::InvalidPackage { package: escape_for_display(&package.package), why });
    let names = package
        .tools
        .iter()
        .flat_map(|tool| std::iter::once(&tool.name).chain(tool.parameters.iter().map(|parameter| &parameter.name)));
    for name in names.chain([&package.package]) {
        if !is_name(name) {
            return fault("a name is empty, or longer than 256 bytes".to_owned());
        }
    }
    if !is_version(&package.version) {
        return fault("its version is longer than 256 bytes".to_owned());
    }
    if package.tools.is_empty() {
        return fault("it has no tools".to_owned());
    }
    if !package.date.iter().all(|date| is_date(date)) {
        return fault("its date is not valid; write it as `2026-11-16`".to_owned());
    }
    let is_hash = |tool: &&ToolFacts| tool.hash.len() != 16 || u64::from_str_radix(&tool.hash, 16).is_err();
    match package.tools.iter().find(is_hash) {
        Some(tool) => fault(format!("the hash of `{}` is not 16 hexadecimal digits", escape_for_display(&tool.name))),
        None => Ok(()),
    }
}

/// Interned strings: each distinct string is written once and referred to by number.
struct StringInterner<'f> {
    texts: Vec<&'f str>,
    numbers: HashMap<&'f str, u32>,
}

impl<'f> StringInterner<'f> {
    fn of(texts: impl IntoIterator<Item = &'f str>) -> Self {
        let texts: Vec<&str> = texts.into_iter().collect();
        let numbers = texts.iter().enumerate().map(|(at, text)| (*text, at as u32)).collect();
        Self { texts, numbers }
    }

    /// Writes the strings with front coding: for each one, the length of the prefix that it shares with the preceding
    /// string, and the rest of the string.
    fn write(&self, out: &mut ColumnWriter) {
        let (mut shared, mut lengths, mut bytes) =
            (ColumnWriter::default(), ColumnWriter::default(), ColumnWriter::default());
        let mut before = "";
        for text in &self.texts {
            let same = text.bytes().zip(before.bytes()).take_while(|(one, other)| one == other).count();
            shared.number(same as u64);
            lengths.number((text.len() - same) as u64);
            bytes.bytes(text.as_bytes().get(same..).unwrap_or_default());
            before = text;
        }
        out.number(self.texts.len() as u64);
        [shared, lengths, bytes].into_iter().for_each(|column| out.column(column));
    }

    fn number(&self, text: &str) -> u64 {
        self.numbers.get(text).copied().unwrap_or_default().into()
    }
}

struct IndexInterners<'f> {
    packages: StringInterner<'f>,
    versions: StringInterner<'f>,
    dates: StringInterner<'f>,
    tool_names: StringInterner<'f>,
    /// Parameter names, sorted by frequency so that common ones have small numbers.
    parameter_names: StringInterner<'f>,
}

impl<'f> IndexInterners<'f> {
    fn of(packages: &'f [PackageFacts]) -> Self {
        fn sorted<'f>(texts: impl Iterator<Item = &'f str>) -> StringInterner<'f> {
            StringInterner::of(texts.collect::<BTreeSet<&str>>())
        }
        let tools = || packages.iter().flat_map(|package| &package.tools);
        let mut uses: BTreeMap<&str, u64> = BTreeMap::new();
        for parameter in tools().flat_map(|tool| &tool.parameters) {
            *uses.entry(&parameter.name).or_default() += 1;
        }
        let mut uses: Vec<(&str, u64)> = uses.into_iter().collect();
        uses.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        Self {
            packages: sorted(packages.iter().map(|package| package.package.as_str())),
            versions: sorted(packages.iter().map(|package| package.version.as_str())),
            dates: sorted(packages.iter().map(|package| package.date.as_deref().unwrap_or_default())),
            tool_names: sorted(tools().map(|tool| tool.name.as_str())),
            parameter_names: StringInterner::of(uses.into_iter().map(|(name, _)| name)),
        }
    }
}

fn write_server_rows(packages: &[PackageFacts], numbers: &IndexInterners<'_>, body: &mut ColumnWriter) {
    let mut columns = [(); 5].map(|()| ColumnWriter::default());
    let [source, package, version, date, count] = &mut columns;
    for own in packages {
        source.byte(match own.source {
            PackageRegistry::Pypi => 0,
            PackageRegistry::Npm => 1,
        });
        package.number(numbers.packages.number(&own.package));
        version.number(numbers.versions.number(&own.version));
        date.number(numbers.dates.number(own.date.as_deref().unwrap_or_default()));
        count.number(own.tools.len() as u64);
    }
    body.number(packages.len() as u64);
    columns.into_iter().for_each(|column| body.column(column));
}

fn write_tool_rows(packages: &[PackageFacts], numbers: &IndexInterners<'_>, body: &mut ColumnWriter) {
    let mut columns = [(); 8].map(|()| ColumnWriter::default());
    let [name, taken, claims, category, confidence, signals, flow, hash] = &mut columns;
    for package in packages {
        let mut before = None;
        for tool in &package.tools {
            let own = numbers.tool_names.number(&tool.name);
            name.number(before.map_or(own, |before: u64| own - before - 1));
            before = Some(own);
            taken.number(tool.parameters.len() as u64);
            claims.byte(claim_bits(&tool.claims));
            category
                .byte(CATEGORIES_BY_NUMBER.iter().position(|known| *known == tool.category).unwrap_or_default() as u8);
            confidence.byte((tool.confidence.clamp(0.0, 1.0) * 100.0).round() as u8);
            signals.number(signal_bits(&tool.signals).into());
            flow.byte(flow_bits(&tool.flow, tool.optional));
            hash.bytes(&u64::from_str_radix(&tool.hash, 16).unwrap_or_default().to_be_bytes());
        }
    }
    columns.into_iter().for_each(|column| body.column(column));
}

fn write_parameter_rows(packages: &[PackageFacts], numbers: &IndexInterners<'_>, body: &mut ColumnWriter) {
    let (mut name, mut kind) = (ColumnWriter::default(), ColumnWriter::default());
    for own in packages.iter().flat_map(|package| &package.tools).flat_map(|tool| &tool.parameters) {
        name.number(numbers.parameter_names.number(&own.name));
        let known = PARAMETER_TYPES_BY_NUMBER.iter().position(|kind| *kind == own.kind).unwrap_or_default() as u8;
        kind.byte(known | if own.required { REQUIRED_BIT } else { 0 });
    }
    body.column(name);
    body.column(kind);
}

fn pack(body: &[u8]) -> Result<Vec<u8>, WriteIndexError> {
    if body.len() > MAX_BODY_BYTES {
        return Err(WriteIndexError::TooLarge);
    }
    let packed = miniz_oxide::deflate::compress_to_vec_zlib(body, COMPRESSION_LEVEL);
    let mut file = Vec::with_capacity(HEADER_BYTES + packed.len());
    file.extend_from_slice(FILE_MAGIC);
    file.extend_from_slice(&FORMAT.to_le_bytes());
    file.extend_from_slice(&(body.len() as u64).to_le_bytes());
    file.extend_from_slice(&(packed.len() as u64).to_le_bytes());
    file.extend_from_slice(&crc32fast::hash(&packed).to_le_bytes());
    file.extend_from_slice(&packed);
    Ok(file)
}
