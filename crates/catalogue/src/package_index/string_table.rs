//! A table of strings that rows refer to by number, so that each string is stored only once. On disk, a string omits
//! the prefix that it shares with the previous one.

use super::column_reader::ColumnReader;
use super::index_reader::OpenIndexError;

/// Maximum total size of a table, so that a malicious file cannot exhaust memory.
const MAX_TABLE_BYTES: usize = 64 << 20;

/// Strings that are looked up by number.
#[derive(Debug, Default)]
pub(super) struct IndexStringTable {
    text: String,
    ends: Vec<u32>,
}

impl IndexStringTable {
    fn push(&mut self, text: &str) {
        self.text.push_str(text);
        self.ends.push(self.text.len() as u32);
    }

    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns the string with this number, or an empty string if the number is invalid. An opened index contains no
    /// invalid numbers.
    pub fn get(&self, number: u32) -> &str {
        let at = number as usize;
        let start = at.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or_default() as usize;
        let end = self.ends.get(at).copied().unwrap_or_default() as usize;
        self.text.get(start..end).unwrap_or_default()
    }

    pub fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.len() as u32).map(|number| self.get(number))
    }

    pub fn read(body: &mut ColumnReader<'_>) -> Result<Self, OpenIndexError> {
        let count = body.read_count(body.len())?;
        let (mut shared, mut lengths, mut bytes) = (body.read_column()?, body.read_column()?, body.read_column()?);
        let mut table = Self { text: String::new(), ends: Vec::with_capacity(count.min(shared.len())) };
        let mut text: Vec<u8> = Vec::new();
        for _ in 0..count {
            let same = shared.read_count(text.len())?;
            text.truncate(same);
            let length = lengths.read_count(bytes.len())?;
            text.extend_from_slice(bytes.read_bytes(length)?);
            let own = str::from_utf8(&text).map_err(|_| OpenIndexError::Malformed("a string is not UTF-8"))?;
            if table.text.len() + own.len() > MAX_TABLE_BYTES {
                return Err(OpenIndexError::TooLarge);
            }
            table.push(own);
        }
        [shared, lengths, bytes].into_iter().try_for_each(ColumnReader::expect_end)?;
        Ok(table)
    }
}
