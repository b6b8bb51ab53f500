//! A lazily allocated box for session state that most sessions never use. There can be many sessions that stay idle for
//! a long time.

use std::ops::Deref;
use std::sync::OnceLock;

/// A value that is allocated on first use.
#[derive(Debug)]
pub(crate) struct LazyBox<T>(OnceLock<Box<T>>);

impl<T> LazyBox<T> {
    /// Returns the value if it has been used before, without allocating it.
    pub fn get_if_initialized(&self) -> Option<&T> {
        self.0.get().map(AsRef::as_ref)
    }
}

impl<T> Default for LazyBox<T> {
    fn default() -> Self {
        Self(OnceLock::new())
    }
}

impl<T: Default> Deref for LazyBox<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.get_or_init(Box::default)
    }
}
