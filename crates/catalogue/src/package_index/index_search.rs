//! Searches for servers and tools by parts of their names and by the tools' properties.

use gatelodge_policy::Category;
use memchr::memmem;

use super::index_file_format::signal_bits;
use super::index_rows::{IndexToolRow, IndexedServer, IndexedTool, PackageIndex};
use super::string_table::IndexStringTable;
use crate::classify::RiskLevel;
use crate::risk_signals::RiskSignalKind;

/// Maximum number of words in a query.
const MAX_QUERY_WORDS: usize = 8;
/// Separator between the strings in a search buffer. Query words never contain it.
const TEXT_SEPARATOR: u8 = b'\n';

/// A search query. Without words, it matches everything that meets the other conditions.
#[derive(Debug, Clone, Default)]
pub struct IndexQuery {
    /// Parts of names, in lower case. Each must occur in the name of the tool or its package, and at least one of them
    /// in the tool's name.
    words: Vec<String>,
    /// Whether names must start with the query's words instead of merely containing them.
    pub is_prefix: bool,
    /// Required category.
    pub category: Option<Category>,
    /// Required risk level.
    pub level: Option<RiskLevel>,
    /// Required risk signal.
    pub signal: Option<RiskSignalKind>,
}

impl IndexQuery {
    /// Creates a case-insensitive query from words separated by white space.
    pub fn from_words(text: &str) -> Self {
        let words = text.split(|letter: char| letter.is_whitespace() || letter.is_control());
        let words = words.filter(|word| !word.is_empty()).take(MAX_QUERY_WORDS).map(str::to_lowercase);
        Self { words: words.collect(), ..Self::default() }
    }

    fn is_about_tools(&self) -> bool {
        self.category.is_some() || self.level.is_some() || self.signal.is_some()
    }
}

/// One page of search results, best match first, with total counts.
#[derive(Debug)]
pub struct SearchResults<'i> {
    /// Matching servers. Empty if the query requires a category, risk level or risk signal, which only tools have.
    pub servers: Vec<IndexedServer<'i>>,
    /// Total number of matching servers.
    pub server_count: usize,
    /// Matching tools.
    pub tools: Vec<IndexedTool<'i>>,
    /// Total number of matching tools.
    pub tool_count: usize,
}

/// The strings of a table, converted to lower case and stored in one buffer for searching.
#[derive(Debug, Default)]
pub(super) struct LowercaseSearchTexts {
    text: Vec<u8>,
    starts: Vec<u32>,
}

/// Match quality of a string that does not match. Lower values stand for better matches.
const FIT_NONE: u8 = u8::MAX;
const FIT_WHOLE: u8 = 0;
const FIT_PREFIX: u8 = 1;
const FIT_WORD: u8 = 2;
const FIT_WITHIN: u8 = 3;

impl LowercaseSearchTexts {
    pub fn of(table: &IndexStringTable) -> Self {
        let mut lowercase = Self::default();
        for text in table.iter() {
            lowercase.starts.push(lowercase.text.len() as u32);
            if text.is_ascii() {
                lowercase.text.extend(text.bytes().map(|byte| byte.to_ascii_lowercase()));
            } else {
                lowercase.text.extend_from_slice(text.to_lowercase().as_bytes());
            }
            lowercase.text.push(TEXT_SEPARATOR);
        }
        lowercase
    }

    /// Returns how well each string matches a query word.
    fn word_fits(&self, word: &str, is_prefix: bool) -> Vec<u8> {
        let mut fits = vec![FIT_NONE; self.starts.len()];
        let is_end = |at: usize| self.text.get(at).is_none_or(|byte| !byte.is_ascii_alphanumeric());
        let mut at = 0_usize;
        for found in memmem::find_iter(&self.text, word.as_bytes()) {
            while self.starts.get(at + 1).is_some_and(|next| *next as usize <= found) {
                at += 1;
            }
            let begins = self.starts.get(at).is_some_and(|start| *start as usize == found);
            let ends = self.text.get(found + word.len()) == Some(&TEXT_SEPARATOR);
            // A word starts after a scope, `/` or `_`.
            let is_word = begins || found.checked_sub(1).is_none_or(is_end);
            let own = match (begins, ends) {
                (true, true) => FIT_WHOLE,
                (true, false) => FIT_PREFIX,
                _ if is_word => FIT_WORD,
                _ => FIT_WITHIN,
            };
            if is_prefix && own > FIT_PREFIX {
                continue;
            }
            if let Some(fit) = fits.get_mut(at) {
                *fit = own.min(*fit);
            }
        }
        fits
    }
}

impl PackageIndex {
    /// Searches for servers and tools. Skips the first `skip` matches of each kind and returns at most `limit` of each.
    pub fn search(&self, query: &IndexQuery, skip: usize, limit: usize) -> SearchResults<'_> {
        let by_package: Vec<Vec<u8>> =
            query.words.iter().map(|word| self.lowercase_packages.word_fits(word, query.is_prefix)).collect();
        let by_name: Vec<Vec<u8>> =
            query.words.iter().map(|word| self.lowercase_tool_names.word_fits(word, query.is_prefix)).collect();
        let (servers, server_count) = if query.is_about_tools() {
            (Vec::new(), 0)
        } else {
            best_matches(self.server_keys(&by_package), skip, limit)
        };
        let (tools, tool_count) = best_matches(self.tool_keys(query, &by_package, &by_name), skip, limit);
        SearchResults {
            servers: servers.into_iter().filter_map(|at| self.server_at(at)).collect(),
            server_count,
            tools: tools.into_iter().filter_map(|at| self.tool_at(at)).collect(),
            tool_count,
        }
    }

    fn server_keys(&self, by_package: &[Vec<u8>]) -> Vec<u64> {
        let mut keys = Vec::new();
        for (at, row) in self.servers.iter().enumerate() {
            let fits = by_package.iter().map(|fits| fit_at(fits, row.package));
            if fits.clone().all(|fit| fit != FIT_NONE) {
                // Of equally good matches, the shorter name is more likely the intended one.
                let length = self.packages.get(row.package).len() as u32;
                keys.push(sort_key(fits.min().unwrap_or(FIT_WITHIN), RiskLevel::Low, length, at));
            }
        }
        keys
    }

    fn tool_keys(&self, query: &IndexQuery, by_package: &[Vec<u8>], by_name: &[Vec<u8>]) -> Vec<u64> {
        let signals = query.signal.map_or(0, |kind| signal_bits(&[kind]));
        let mut keys = Vec::new();
        for (at, row) in self.tools.iter().enumerate() {
            let level = RiskLevel::of(row.category);
            let is_wanted = query.category.is_none_or(|category| category == row.category)
                && query.level.is_none_or(|own| own == level)
                && row.signals & signals == signals;
            if !is_wanted {
                continue;
            }
            let own = by_name.iter().map(|fits| fit_at(fits, row.name)).min().unwrap_or(FIT_WITHIN);
            // A single word must be in the tool's name; of several words, the others may be in the package's name.
            if own == FIT_NONE || (by_name.len() > 1 && !self.fits_all(row, by_package, by_name)) {
                continue;
            }
            keys.push(sort_key(own, level, row.name, at));
        }
        keys
    }

    fn fits_all(&self, row: &IndexToolRow, by_package: &[Vec<u8>], by_name: &[Vec<u8>]) -> bool {
        let package = self.servers.get(row.server as usize).map_or(u32::MAX, |server| server.package);
        let mut both = by_package.iter().zip(by_name);
        both.all(|(packages, names)| fit_at(names, row.name).min(fit_at(packages, package)) != FIT_NONE)
    }
}

fn fit_at(fits: &[u8], at: u32) -> u8 {
    fits.get(at as usize).copied().unwrap_or(FIT_NONE)
}

/// Packs the sort criteria into one number: match quality, risk, name and position.
fn sort_key(fit: u8, level: RiskLevel, name: u32, at: usize) -> u64 {
    let risk = 3 - level as u64;
    u64::from(fit) << 62 | risk << 60 | u64::from(name & 0x0fff_ffff) << 32 | at as u64 & 0xffff_ffff
}

/// Returns the positions of the best matches, and the total number of matches.
fn best_matches(mut keys: Vec<u64>, skip: usize, limit: usize) -> (Vec<u32>, usize) {
    let count = keys.len();
    let wanted = skip.saturating_add(limit).min(count);
    if wanted > 0 && wanted < count {
        keys.select_nth_unstable(wanted - 1);
        keys.truncate(wanted);
    }
    keys.sort_unstable();
    (keys.into_iter().skip(skip).take(limit).map(|key| key as u32).collect(), count)
}
