//! How durable a confirmed reservation is.

/// Which failures a confirmed reservation survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// Survives a killed process immediately, and a power failure after 50 ms. The default: a call does not wait for
    /// the disk.
    #[default]
    Process,
    /// Also survives a power failure: the data is on the disk before the reply is sent.
    Power,
}
