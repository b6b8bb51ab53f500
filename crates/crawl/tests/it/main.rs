//! What is read from packages, and what is not.

mod archives;
mod phantoms;
mod python;
mod support;
