//! What most sessions never need. Sessions may be many, and idle for long.

use std::ops::Deref;
use std::sync::OnceLock;

/// A thing that is made when it is first used, and takes no room before.
#[derive(Debug)]
pub(crate) struct Seldom<T>(OnceLock<Box<T>>);

impl<T> Seldom<T> {
    /// The thing, if it was used; for those who look at many and would make it for each.
    pub fn if_used(&self) -> Option<&T> {
        self.0.get().map(AsRef::as_ref)
    }
}

impl<T> Default for Seldom<T> {
    fn default() -> Self {
        Self(OnceLock::new())
    }
}

impl<T: Default> Deref for Seldom<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.get_or_init(Box::default)
    }
}
