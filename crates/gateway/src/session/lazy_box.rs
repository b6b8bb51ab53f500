//! What most sessions never need. Sessions may be many, and idle for long.

use std::ops::Deref;
use std::sync::OnceLock;

/// A thing that is made when it is first used, and takes no room before.
#[derive(Debug)]
pub(crate) struct LazyBox<T>(OnceLock<Box<T>>);

impl<T> LazyBox<T> {
    /// The thing, if it was used; for those who look at many and would make it for each.
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
