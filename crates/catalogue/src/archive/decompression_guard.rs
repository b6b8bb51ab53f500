//! Input that gives nothing. Blocks that hold nothing cost time and no room: bounds of what is unpacked never see them.

use std::cell::Cell;
use std::io::{self, Read};
use std::rc::Rc;

/// The most input that may give nothing. What honest archives have of it are the heads of blocks and of streams.
const MAX_UNPRODUCTIVE_BYTES: u64 = 1 << 20;

/// How much was read that has not come out. Parts of a zip share one: they may lie upon each other.
#[derive(Clone, Default)]
pub struct DecompressionGuard(Rc<Cell<u64>>);

/// What goes into a decoder.
pub struct GuardedInput<R> {
    inner: R,
    guard: DecompressionGuard,
}

/// What comes out of it.
pub struct GuardedOutput<R> {
    inner: R,
    guard: DecompressionGuard,
}

impl DecompressionGuard {
    pub fn guard_input<R>(&self, inner: R) -> GuardedInput<R> {
        GuardedInput { inner, guard: self.clone() }
    }

    pub fn guard_output<R>(&self, inner: R) -> GuardedOutput<R> {
        GuardedOutput { inner, guard: self.clone() }
    }
}

impl<R: Read> Read for GuardedInput<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let DecompressionGuard(idle) = &self.guard;
        if idle.get() > MAX_UNPRODUCTIVE_BYTES {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "blocks that hold nothing"));
        }
        let read = self.inner.read(buffer)?;
        idle.set(idle.get() + read as u64);
        Ok(read)
    }
}

impl<R: Read> Read for GuardedOutput<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        let DecompressionGuard(idle) = &self.guard;
        // What comes out pays for as much input and the heads of its blocks, and not for what follows.
        idle.set(idle.get().saturating_sub(2 * read as u64));
        Ok(read)
    }
}
