//! Encodes numbers and bytes as the columns that make up an index file.

/// Buffer for one column.
#[derive(Debug, Default)]
pub struct ColumnWriter(Vec<u8>);

impl ColumnWriter {
    pub fn byte(&mut self, byte: u8) {
        self.0.push(byte);
    }

    pub fn bytes(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// Appends a number in LEB128 encoding: seven bits per byte, low bits first.
    pub fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push((number & 0x7f) as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    /// Appends another column, preceded by its length.
    pub fn column(&mut self, column: Self) {
        self.number(column.0.len() as u64);
        self.0.extend_from_slice(&column.0);
    }

    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}
