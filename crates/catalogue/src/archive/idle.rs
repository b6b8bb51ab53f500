//! Input that gives nothing. Blocks that hold nothing cost time and no room: bounds of what is unpacked never see them.

use std::cell::Cell;
use std::io::{self, Read};
use std::rc::Rc;

/// The most input that may give nothing. What honest archives have of it are the heads of blocks and of streams.
const MOST_IDLE: u64 = 1 << 20;

/// How much was read that has not come out. Parts of a zip share one: they may lie upon each other.
#[derive(Clone, Default)]
pub struct Idle(Rc<Cell<u64>>);

/// What goes into a decoder.
pub struct Packed<R> {
    inner: R,
    idle: Idle,
}

/// What comes out of it.
pub struct Plain<R> {
    inner: R,
    idle: Idle,
}

impl Idle {
    pub fn packed<R>(&self, inner: R) -> Packed<R> {
        Packed { inner, idle: self.clone() }
    }

    pub fn plain<R>(&self, inner: R) -> Plain<R> {
        Plain { inner, idle: self.clone() }
    }
}

impl<R: Read> Read for Packed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Idle(idle) = &self.idle;
        if idle.get() > MOST_IDLE {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "blocks that hold nothing"));
        }
        let read = self.inner.read(buffer)?;
        idle.set(idle.get() + read as u64);
        Ok(read)
    }
}

impl<R: Read> Read for Plain<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        let Idle(idle) = &self.idle;
        // What comes out pays for as much input and the heads of its blocks, and not for what follows.
        idle.set(idle.get().saturating_sub(2 * read as u64));
        Ok(read)
    }
}
