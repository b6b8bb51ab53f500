//! Detects compressed input that produces no output. Empty blocks take time to process but add no output, so limits on
//! the decompressed size do not catch them.

use std::cell::Cell;
use std::io::{self, Read};
use std::rc::Rc;

/// Maximum number of input bytes that may produce no output. In legitimate archives, only block and stream headers
/// produce none.
const MAX_UNPRODUCTIVE_BYTES: u64 = 1 << 20;

/// Counts the input bytes that have not produced any output yet. All entries of a zip archive share one guard, because
/// entries can overlap.
#[derive(Clone, Default)]
pub struct DecompressionStallGuard(Rc<Cell<u64>>);

/// Wraps the input of a decompressor. Each byte that the decompressor reads increases the guard's count.
pub struct DecompressorInput<R> {
    inner: R,
    guard: DecompressionStallGuard,
}

/// Wraps the output of a decompressor. Each byte that the decompressor produces reduces the guard's count.
pub struct DecompressorOutput<R> {
    inner: R,
    guard: DecompressionStallGuard,
}

impl DecompressionStallGuard {
    pub fn guard_input<R>(&self, inner: R) -> DecompressorInput<R> {
        DecompressorInput { inner, guard: self.clone() }
    }

    pub fn guard_output<R>(&self, inner: R) -> DecompressorOutput<R> {
        DecompressorOutput { inner, guard: self.clone() }
    }
}

impl<R: Read> Read for DecompressorInput<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let DecompressionStallGuard(guard) = &self.guard;
        if guard.get() > MAX_UNPRODUCTIVE_BYTES {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "blocks without content"));
        }
        let read = self.inner.read(buffer)?;
        guard.set(guard.get() + read as u64);
        Ok(read)
    }
}

impl<R: Read> Read for DecompressorOutput<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        let DecompressionStallGuard(guard) = &self.guard;
        // Output pays for twice as much input, which covers block headers. It does not pay in advance.
        guard.set(guard.get().saturating_sub(2 * read as u64));
        Ok(read)
    }
}
