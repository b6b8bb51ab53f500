//! Decodes the numbers and columns of an index file. The input is untrusted, so every length is checked against the
//! remaining bytes.

use super::index_reader::OpenIndexError;

/// Reads a column from start to end.
#[derive(Debug, Clone, Copy)]
pub(super) struct ColumnReader<'b>(&'b [u8]);

const COLUMN_TOO_SHORT: OpenIndexError = OpenIndexError::Malformed("a column ends too early");

impl<'b> ColumnReader<'b> {
    pub fn new(bytes: &'b [u8]) -> Self {
        Self(bytes)
    }

    pub fn read_byte(&mut self) -> Result<u8, OpenIndexError> {
        let (first, rest) = self.0.split_first().ok_or(COLUMN_TOO_SHORT)?;
        self.0 = rest;
        Ok(*first)
    }

    pub fn read_bytes(&mut self, count: usize) -> Result<&'b [u8], OpenIndexError> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(COLUMN_TOO_SHORT)?;
        self.0 = rest;
        Ok(taken)
    }

    pub fn read_varint(&mut self) -> Result<u64, OpenIndexError> {
        let mut number = 0_u64;
        for shift in (0..63).step_by(7) {
            let byte = self.read_byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(OpenIndexError::Malformed("a number is too large"))
    }

    /// Reads a number below `bound`.
    pub fn read_index(&mut self, bound: usize) -> Result<u32, OpenIndexError> {
        let number = self.read_varint()?;
        if number < bound as u64 {
            u32::try_from(number).map_err(|_| OpenIndexError::Malformed("a number is too large"))
        } else {
            Err(OpenIndexError::Malformed("a reference points to a missing entry"))
        }
    }

    /// Reads a count of at most `max`. Each counted item takes at least one byte, so the number of remaining bytes is a
    /// suitable `max`.
    pub fn read_count(&mut self, max: usize) -> Result<usize, OpenIndexError> {
        let number = self.read_varint()?;
        match usize::try_from(number) {
            Ok(count) if count <= max => Ok(count),
            _ => Err(OpenIndexError::Malformed("a count is larger than the data")),
        }
    }

    pub fn read_column(&mut self) -> Result<Self, OpenIndexError> {
        let length = self.read_count(self.0.len())?;
        self.read_bytes(length).map(Self)
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn rest(self) -> &'b [u8] {
        self.0
    }

    /// Checks that no bytes are left.
    pub fn expect_end(self) -> Result<(), OpenIndexError> {
        if self.0.is_empty() { Ok(()) } else { Err(OpenIndexError::Malformed("a column has extra bytes")) }
    }
}
