//! Reads an index file: envelope, checksum, compressed body, columns. The file is untrusted: every error is reported,
//! and memory use is bounded.

use super::column_reader::ColumnReader;
use super::index_file_format::{
    CATEGORIES_BY_NUMBER, FILE_MAGIC, FORMAT, HEADER_BYTES, IndexHeader, MAX_BODY_BYTES, PARAMETER_TYPES_BY_NUMBER,
    REQUIRED_BIT, is_date, is_name, is_version, signal_bits,
};
use super::index_rows::{IndexParameterRow, IndexServerRow, IndexToolRow, PackageIndex};
use super::string_table::IndexStringTable;
use crate::package_index::package_facts::PackageRegistry;
use crate::risk_signals::RiskSignalKind;

/// Oldest supported format version. Files in this version do not record which tools are optional.
const MIN_FORMAT_VERSION: u32 = 1;

/// Error returned when an index file cannot be opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenIndexError {
    /// The file is not an index.
    #[error("it is not a catalogue index")]
    NotAnIndex,
    /// The file is shorter than its header states.
    #[error("it is truncated after {found} of {wanted} bytes; fetch or build it again")]
    Truncated {
        /// Actual size in bytes.
        found: usize,
        /// Expected size in bytes.
        wanted: usize,
    },
    /// The format is newer than this build supports.
    #[error(
        "it has format {found}, and this program reads formats up to {FORMAT}; install a newer version of the program"
    )]
    NewerFormat {
        /// Format version of the file.
        found: u32,
    },
    /// The checksum does not match.
    #[error("its checksum does not match, so it is damaged; fetch or build it again")]
    Damaged,
    /// The file exceeds the maximum size.
    #[error("it is larger than any index of this format")]
    TooLarge,
    /// The checksum matches, but the content is invalid.
    #[error("it is damaged inside: {0}")]
    Malformed(&'static str),
}

impl PackageIndex {
    /// Maximum size of an index file.
    pub const MAX_FILE_BYTES: usize = HEADER_BYTES + MAX_BODY_BYTES;

    /// Returns the bytes of the index file that is compiled into this build. Use [`open`](Self::open) to parse them.
    pub fn built_in() -> &'static [u8] {
        // A static, because a constant would be duplicated in every crate that uses it.
        static INDEX_FILE: &[u8] = include_bytes!("../../data/index.glx");
        INDEX_FILE
    }

    /// Returns the date of the built-in index. Decompresses only the start of the file.
    pub fn built_in_date() -> Option<String> {
        /// Upper bound on the size of the metadata, which is much smaller in practice.
        const MAX_METADATA_BYTES: usize = 1 << 16;
        let body = Self::built_in().get(HEADER_BYTES..)?;
        let start = miniz_oxide::inflate::decompress_to_vec_zlib_with_limit(body, MAX_METADATA_BYTES);
        let start = start.unwrap_or_else(|cut| cut.output);
        let header: IndexHeader = serde_json::from_slice(ColumnReader::new(&start).read_column().ok()?.rest()).ok()?;
        Some(header.metadata.date)
    }

    /// Opens an index.
    ///
    /// # Errors
    /// Returns an error if the file is not an index, has a newer format, is damaged or is too large.
    ///
    /// # Examples
    /// ```
    /// use gatelodge_catalogue::{IndexQuery, PackageIndex};
    ///
    /// let index = PackageIndex::open(PackageIndex::built_in()).expect("the built-in index");
    /// let found = index.search(&IndexQuery::from_words("git"), 0, 10);
    /// assert!(found.tools.len() <= 10 && found.tool_count >= found.tools.len());
    /// assert!(PackageIndex::open(b"something else").is_err());
    /// ```
    pub fn open(file: &[u8]) -> Result<Self, OpenIndexError> {
        read_body(&unpack(file)?)
    }
}

fn unpack(file: &[u8]) -> Result<Vec<u8>, OpenIndexError> {
    let head = file.get(..HEADER_BYTES);
    // A file that is truncated within its header can still be recognized by its first bytes.
    if !file.starts_with(FILE_MAGIC.get(..file.len().min(FILE_MAGIC.len())).unwrap_or_default()) || file.is_empty() {
        return Err(OpenIndexError::NotAnIndex);
    }
    let head = head.ok_or(OpenIndexError::Truncated { found: file.len(), wanted: HEADER_BYTES })?;
    let mut head = ColumnReader::new(head);
    head.read_bytes(FILE_MAGIC.len())?;
    let format = u32::from_le_bytes(head.read_bytes(4)?.try_into().unwrap_or_default());
    if !(MIN_FORMAT_VERSION..=FORMAT).contains(&format) {
        return Err(if format > FORMAT {
            OpenIndexError::NewerFormat { found: format }
        } else {
            OpenIndexError::NotAnIndex
        });
    }
    let unpacked = u64::from_le_bytes(head.read_bytes(8)?.try_into().unwrap_or_default());
    let packed = u64::from_le_bytes(head.read_bytes(8)?.try_into().unwrap_or_default());
    let checksum = u32::from_le_bytes(head.read_bytes(4)?.try_into().unwrap_or_default());
    let body = file.get(HEADER_BYTES..).unwrap_or_default();
    let sizes = (usize::try_from(unpacked), usize::try_from(packed));
    let (Ok(unpacked), Ok(packed)) = sizes else { return Err(OpenIndexError::TooLarge) };
    if unpacked > MAX_BODY_BYTES || packed > MAX_BODY_BYTES {
        return Err(OpenIndexError::TooLarge);
    }
    if body.len() < packed {
        return Err(OpenIndexError::Truncated { found: file.len(), wanted: HEADER_BYTES + packed });
    }
    if body.len() > packed || crc32fast::hash(body) != checksum {
        return Err(OpenIndexError::Damaged);
    }
    let body = miniz_oxide::inflate::decompress_to_vec_zlib_with_limit(body, unpacked);
    body.ok().filter(|body| body.len() == unpacked).ok_or(OpenIndexError::Malformed("it cannot be unpacked"))
}

fn read_body(body: &[u8]) -> Result<PackageIndex, OpenIndexError> {
    let mut body = ColumnReader::new(body);
    let header: IndexHeader = serde_json::from_slice(body.read_column()?.rest())
        .map_err(|_| OpenIndexError::Malformed("its metadata cannot be read"))?;
    let known =
        |word: &String| RiskSignalKind::from_word(word).ok_or(OpenIndexError::Malformed("it has an unknown signal"));
    if header.signals.len() > RiskSignalKind::ALL.len() {
        return Err(OpenIndexError::Malformed("it has more signals than this program knows"));
    }
    let signals: Vec<RiskSignalKind> = header.signals.iter().map(known).collect::<Result<_, _>>()?;
    if signals.iter().enumerate().any(|(at, kind)| signals.iter().take(at).any(|own| own == kind)) {
        return Err(OpenIndexError::Malformed("it has a signal twice"));
    }
    let mut table = || IndexStringTable::read(&mut body);
    let (packages, versions, dates, names, parameters) = (table()?, table()?, table()?, table()?, table()?);
    let mut index = PackageIndex {
        metadata: header.metadata,
        packages,
        versions,
        dates,
        tool_names: names,
        parameter_names: parameters,
        ..PackageIndex::default()
    };
    check_texts(&index)?;
    let counts = read_server_rows(&mut body, &mut index)?;
    let parameter_counts = read_tool_rows(&mut body, &mut index, &counts, &signals)?;
    read_parameter_rows(&mut body, &mut index, parameter_counts)?;
    body.expect_end()?;
    index.metadata.servers = index.servers.len();
    index.metadata.tools = index.tools.len();
    index.build_search_texts();
    Ok(index)
}

/// Checks the properties that the writer should guarantee: valid dates and names, and sorted tables where lookups
/// depend on the order.
fn check_texts(index: &PackageIndex) -> Result<(), OpenIndexError> {
    let days = index.dates.iter().filter(|date| !date.is_empty());
    if !days.chain([index.metadata.date.as_str()]).all(is_date) {
        return Err(OpenIndexError::Malformed("a date is invalid"));
    }
    let named = [&index.packages, &index.tool_names, &index.parameter_names];
    if !named.iter().flat_map(|table| table.iter()).all(is_name) {
        return Err(OpenIndexError::Malformed("a name is empty or too long"));
    }
    if !index.versions.iter().all(is_version) {
        return Err(OpenIndexError::Malformed("a version is too long"));
    }
    let is_ordered = |table: &IndexStringTable| table.iter().zip(table.iter().skip(1)).all(|(one, next)| one < next);
    if is_ordered(&index.packages) && is_ordered(&index.tool_names) {
        Ok(())
    } else {
        Err(OpenIndexError::Malformed("names are not sorted, or one is repeated"))
    }
}

/// Reads the servers, and returns how many tools each of them has.
fn read_server_rows(body: &mut ColumnReader<'_>, index: &mut PackageIndex) -> Result<Vec<usize>, OpenIndexError> {
    let count = body.read_count(body.len())?;
    let mut columns =
        [body.read_column()?, body.read_column()?, body.read_column()?, body.read_column()?, body.read_column()?];
    let [source, package, version, date, tools] = &mut columns;
    let (mut counts, mut first) = (Vec::with_capacity(count.min(source.len())), 0_u32);
    let mut before = None;
    for _ in 0..count {
        let own = match source.read_byte()? {
            0 => PackageRegistry::Pypi,
            1 => PackageRegistry::Npm,
            _ => return Err(OpenIndexError::Malformed("a package has an unknown source")),
        };
        let tool_count = tools.read_count(MAX_BODY_BYTES)?;
        if tool_count == 0 {
            return Err(OpenIndexError::Malformed("a package has no tools"));
        }
        let package = package.read_index(index.packages.len())?;
        if before.replace((own, package)).is_some_and(|before| before >= (own, package)) {
            return Err(OpenIndexError::Malformed("packages are not sorted, or one is repeated"));
        }
        index.servers.push(IndexServerRow {
            source: own,
            package,
            version: version.read_index(index.versions.len())?,
            date: date.read_index(index.dates.len())?,
            first_tool: first,
            tool_count: tool_count as u32,
        });
        counts.push(tool_count);
        first = first.saturating_add(tool_count as u32);
    }
    columns.into_iter().try_for_each(ColumnReader::expect_end)?;
    Ok(counts)
}

/// Reads the tools, and returns the total number of their parameters.
fn read_tool_rows(
    body: &mut ColumnReader<'_>,
    index: &mut PackageIndex,
    counts: &[usize],
    known: &[RiskSignalKind],
) -> Result<usize, OpenIndexError> {
    let mut columns = [(); 7].map(|()| ColumnReader::new(&[]));
    for column in &mut columns {
        *column = body.read_column()?;
    }
    let mut hashes = body.read_column()?;
    let [name, taken, claims, category, confidence, signals, flow] = &mut columns;
    let (mut first, mut total) = (0_usize, 0_usize);
    for (server, count) in counts.iter().enumerate() {
        let mut own = 0_u64;
        for at in 0..*count {
            // Tool names of a server are sorted and stored as differences.
            let step = name.read_varint()?;
            own = if at == 0 { step } else { own.saturating_add(step).saturating_add(1) };
            if own >= index.tool_names.len() as u64 {
                return Err(OpenIndexError::Malformed("a reference points to a missing entry"));
            }
            let category = CATEGORIES_BY_NUMBER.get(usize::from(category.read_byte()?));
            let bits = signals.read_varint()?;
            // There are fewer signals than bits.
            if bits >> known.len() != 0 {
                return Err(OpenIndexError::Malformed("a tool has an invalid signal"));
            }
            let signals: Vec<RiskSignalKind> =
                known.iter().enumerate().filter(|(bit, _)| bits >> bit & 1 == 1).map(|(_, kind)| *kind).collect();
            let count = taken.read_count(MAX_BODY_BYTES)?;
            index.tools.push(IndexToolRow {
                server: server as u32,
                name: own as u32,
                first_parameter: first as u32,
                parameter_count: count as u32,
                claims: claims.read_byte()?,
                category: *category.ok_or(OpenIndexError::Malformed("a category is unknown"))?,
                confidence: confidence.read_byte()?.min(100),
                signals: signal_bits(&signals),
                flow: flow.read_byte()?,
                hash: u64::from_be_bytes(hashes.read_bytes(8)?.try_into().unwrap_or_default()),
            });
            first += count;
        }
        total += count;
    }
    columns.into_iter().chain([hashes]).try_for_each(ColumnReader::expect_end)?;
    if total == index.tools.len() { Ok(first) } else { Err(OpenIndexError::Malformed("tools are missing")) }
}

fn read_parameter_rows(
    body: &mut ColumnReader<'_>,
    index: &mut PackageIndex,
    count: usize,
) -> Result<(), OpenIndexError> {
    let (mut name, mut kind) = (body.read_column()?, body.read_column()?);
    if count != kind.len() {
        return Err(OpenIndexError::Malformed("parameters are missing"));
    }
    for _ in 0..count {
        let (name, kind) = (name.read_index(index.parameter_names.len())?, kind.read_byte()?);
        if usize::from(kind & !REQUIRED_BIT) >= PARAMETER_TYPES_BY_NUMBER.len() {
            return Err(OpenIndexError::Malformed("a parameter type is unknown"));
        }
        index.parameter_rows.push(IndexParameterRow { name, kind });
    }
    name.expect_end()?;
    kind.expect_end()
}
