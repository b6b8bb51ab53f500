//! An index file from outside in: envelope, checksum, packed body, columns. Nothing in it is trusted; what is wrong is
//! told, and the memory that it can ask for is bounded.

use super::bytes::Reader;
use super::format::{
    CATEGORIES, FORMAT, HEAD_BYTES, Header, KINDS, MAGIC, MOST_BYTES, REQUIRED, is_day, is_name, is_version,
    signal_bits,
};
use super::pool::Pool;
use super::rows::{Index, ParameterRow, ServerRow, ToolRow};
use crate::index::facts::Source;
use crate::risk_signals::RiskSignalKind;

/// The oldest that it reads: it does not say which tools are optional.
const OLDEST: u32 = 1;

/// Why a file is no index that can be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenIndexError {
    /// It is something else.
    #[error("it is no index of the catalogue")]
    Foreign,
    /// It ends before its end.
    #[error("it is cut off after {found} of {wanted} bytes; fetch or make it again")]
    Truncated {
        /// Bytes there are.
        found: usize,
        /// Bytes there should be.
        wanted: usize,
    },
    /// It was made by a later version.
    #[error("it has format {found}, and this program knows format {FORMAT}; a newer program reads it")]
    Newer {
        /// The format it has.
        found: u32,
    },
    /// It was changed on its way.
    #[error("its checksum does not fit, so it was damaged; fetch or make it again")]
    Damaged,
    /// It asks for more than any index has.
    #[error("it is larger than any index of this format")]
    TooLarge,
    /// Its checksum fits and its contents do not.
    #[error("it is damaged inside: {0}")]
    Malformed(&'static str),
}

impl Index {
    /// The largest file that can be one.
    pub const MOST_FILE_BYTES: usize = HEAD_BYTES + MOST_BYTES;

    /// The file that comes with the program. It is opened only when it is asked for.
    pub fn built_in() -> &'static [u8] {
        // A constant would be in the program once for each crate that uses it.
        static FILE: &[u8] = include_bytes!("../../data/index.glx");
        FILE
    }

    /// The day of that file; only its beginning is unpacked.
    pub fn built_in_date() -> Option<String> {
        /// What an index says of itself takes far less.
        const ENOUGH: usize = 1 << 16;
        let body = Self::built_in().get(HEAD_BYTES..)?;
        let begun = miniz_oxide::inflate::decompress_to_vec_zlib_with_limit(body, ENOUGH);
        let begun = begun.unwrap_or_else(|cut| cut.output);
        let header: Header = serde_json::from_slice(Reader::new(&begun).column().ok()?.rest()).ok()?;
        Some(header.about.date)
    }

    /// Opens an index.
    ///
    /// # Errors
    /// It is none, of a later format, damaged or too large.
    pub fn open(file: &[u8]) -> Result<Self, OpenIndexError> {
        read(&unpack(file)?)
    }
}

fn unpack(file: &[u8]) -> Result<Vec<u8>, OpenIndexError> {
    let head = file.get(..HEAD_BYTES);
    // A file that ends within its head may still be known by how it begins.
    if !file.starts_with(MAGIC.get(..file.len().min(MAGIC.len())).unwrap_or_default()) || file.is_empty() {
        return Err(OpenIndexError::Foreign);
    }
    let head = head.ok_or(OpenIndexError::Truncated { found: file.len(), wanted: HEAD_BYTES })?;
    let mut head = Reader::new(head);
    head.take(MAGIC.len())?;
    let format = u32::from_le_bytes(head.take(4)?.try_into().unwrap_or_default());
    if !(OLDEST..=FORMAT).contains(&format) {
        return Err(if format > FORMAT { OpenIndexError::Newer { found: format } } else { OpenIndexError::Foreign });
    }
    let unpacked = u64::from_le_bytes(head.take(8)?.try_into().unwrap_or_default());
    let packed = u64::from_le_bytes(head.take(8)?.try_into().unwrap_or_default());
    let checksum = u32::from_le_bytes(head.take(4)?.try_into().unwrap_or_default());
    let body = file.get(HEAD_BYTES..).unwrap_or_default();
    let sizes = (usize::try_from(unpacked), usize::try_from(packed));
    let (Ok(unpacked), Ok(packed)) = sizes else { return Err(OpenIndexError::TooLarge) };
    if unpacked > MOST_BYTES || packed > MOST_BYTES {
        return Err(OpenIndexError::TooLarge);
    }
    if body.len() < packed {
        return Err(OpenIndexError::Truncated { found: file.len(), wanted: HEAD_BYTES + packed });
    }
    if body.len() > packed || crc32fast::hash(body) != checksum {
        return Err(OpenIndexError::Damaged);
    }
    let body = miniz_oxide::inflate::decompress_to_vec_zlib_with_limit(body, unpacked);
    body.ok().filter(|body| body.len() == unpacked).ok_or(OpenIndexError::Malformed("it cannot be unpacked"))
}

fn read(body: &[u8]) -> Result<Index, OpenIndexError> {
    let mut body = Reader::new(body);
    let header: Header = serde_json::from_slice(body.column()?.rest())
        .map_err(|_| OpenIndexError::Malformed("what it says of itself cannot be read"))?;
    let known = |word: &String| {
        RiskSignalKind::from_word(word).ok_or(OpenIndexError::Malformed("it has a signal that is not known here"))
    };
    if header.signals.len() > RiskSignalKind::ALL.len() {
        return Err(OpenIndexError::Malformed("it has more signals than there are"));
    }
    let signals: Vec<RiskSignalKind> = header.signals.iter().map(known).collect::<Result<_, _>>()?;
    if signals.iter().enumerate().any(|(at, kind)| signals.iter().take(at).any(|own| own == kind)) {
        return Err(OpenIndexError::Malformed("it has a signal twice"));
    }
    let mut pool = || Pool::read(&mut body);
    let (packages, versions, dates, names, parameters) = (pool()?, pool()?, pool()?, pool()?, pool()?);
    let mut index = Index { about: header.about, packages, versions, dates, names, parameters, ..Index::default() };
    texts(&index)?;
    let counts = servers(&mut body, &mut index)?;
    let parameter_counts = tools(&mut body, &mut index, &counts, &signals)?;
    takes(&mut body, &mut index, parameter_counts)?;
    body.end()?;
    index.about.servers = index.servers.len();
    index.about.tools = index.tools.len();
    index.finish();
    Ok(index)
}

/// Whether texts are what the writer takes: days that are days, names that are some, and in order what is looked for by
/// its order.
fn texts(index: &Index) -> Result<(), OpenIndexError> {
    let days = index.dates.iter().filter(|date| !date.is_empty());
    if !days.chain([index.about.date.as_str()]).all(is_day) {
        return Err(OpenIndexError::Malformed("a date is no day"));
    }
    let named = [&index.packages, &index.names, &index.parameters];
    if !named.iter().flat_map(|pool| pool.iter()).all(is_name) {
        return Err(OpenIndexError::Malformed("a name is empty or too long"));
    }
    if !index.versions.iter().all(is_version) {
        return Err(OpenIndexError::Malformed("a version is too long"));
    }
    let is_ordered = |pool: &Pool| pool.iter().zip(pool.iter().skip(1)).all(|(one, next)| one < next);
    if is_ordered(&index.packages) && is_ordered(&index.names) {
        Ok(())
    } else {
        Err(OpenIndexError::Malformed("names are not in order, or one comes twice"))
    }
}

/// Reads the servers; gives how many tools each has.
fn servers(body: &mut Reader<'_>, index: &mut Index) -> Result<Vec<usize>, OpenIndexError> {
    let count = body.count(body.len())?;
    let mut columns = [body.column()?, body.column()?, body.column()?, body.column()?, body.column()?];
    let [source, package, version, date, tools] = &mut columns;
    let (mut counts, mut first) = (Vec::with_capacity(count.min(source.len())), 0_u32);
    let mut before = None;
    for _ in 0..count {
        let own = match source.byte()? {
            0 => Source::Pypi,
            1 => Source::Npm,
            _ => return Err(OpenIndexError::Malformed("a package has a source that is not known here")),
        };
        let tool_count = tools.count(MOST_BYTES)?;
        if tool_count == 0 {
            return Err(OpenIndexError::Malformed("a package has no tools"));
        }
        let package = package.below(index.packages.len())?;
        if before.replace((own, package)).is_some_and(|before| before >= (own, package)) {
            return Err(OpenIndexError::Malformed("packages are not in order, or one comes twice"));
        }
        index.servers.push(ServerRow {
            source: own,
            package,
            version: version.below(index.versions.len())?,
            date: date.below(index.dates.len())?,
            first,
            count: tool_count as u32,
        });
        counts.push(tool_count);
        first = first.saturating_add(tool_count as u32);
    }
    columns.into_iter().try_for_each(Reader::end)?;
    Ok(counts)
}

/// Reads the tools; gives how many parameters there are in all.
fn tools(
    body: &mut Reader<'_>,
    index: &mut Index,
    counts: &[usize],
    known: &[RiskSignalKind],
) -> Result<usize, OpenIndexError> {
    let mut columns = [(); 7].map(|()| Reader::new(&[]));
    for column in &mut columns {
        *column = body.column()?;
    }
    let mut hashes = body.column()?;
    let [name, taken, claims, category, confidence, signals, flow] = &mut columns;
    let (mut first, mut total) = (0_usize, 0_usize);
    for (server, count) in counts.iter().enumerate() {
        let mut own = 0_u64;
        for at in 0..*count {
            // Names of a server come in order; each says how far it is from the one before.
            let step = name.number()?;
            own = if at == 0 { step } else { own.saturating_add(step).saturating_add(1) };
            if own >= index.names.len() as u64 {
                return Err(OpenIndexError::Malformed("a reference leads nowhere"));
            }
            let category = CATEGORIES.get(usize::from(category.byte()?));
            let bits = signals.number()?;
            // There are fewer than there are bits.
            if bits >> known.len() != 0 {
                return Err(OpenIndexError::Malformed("a tool has a signal that is none"));
            }
            let signals: Vec<RiskSignalKind> =
                known.iter().enumerate().filter(|(bit, _)| bits >> bit & 1 == 1).map(|(_, kind)| *kind).collect();
            let count = taken.count(MOST_BYTES)?;
            index.tools.push(ToolRow {
                server: server as u32,
                name: own as u32,
                first: first as u32,
                count: count as u32,
                claims: claims.byte()?,
                category: *category.ok_or(OpenIndexError::Malformed("a category is not known here"))?,
                confidence: confidence.byte()?.min(100),
                signals: signal_bits(&signals),
                flow: flow.byte()?,
                hash: u64::from_be_bytes(hashes.take(8)?.try_into().unwrap_or_default()),
            });
            first += count;
        }
        total += count;
    }
    columns.into_iter().chain([hashes]).try_for_each(Reader::end)?;
    if total == index.tools.len() { Ok(first) } else { Err(OpenIndexError::Malformed("tools are missing")) }
}

fn takes(body: &mut Reader<'_>, index: &mut Index, count: usize) -> Result<(), OpenIndexError> {
    let (mut name, mut kind) = (body.column()?, body.column()?);
    if count != kind.len() {
        return Err(OpenIndexError::Malformed("parameters are missing"));
    }
    for _ in 0..count {
        let (name, kind) = (name.below(index.parameters.len())?, kind.byte()?);
        if usize::from(kind & !REQUIRED) >= KINDS.len() {
            return Err(OpenIndexError::Malformed("a type is not known here"));
        }
        index.takes.push(ParameterRow { name, kind });
    }
    name.end()?;
    kind.end()
}
