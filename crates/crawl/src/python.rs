//! Tools in Python sources.

use crate::found::{FoundTool, SourceFile};

/// The tools that these files of one package define, by name.
pub fn python_tools(files: &[SourceFile<'_>]) -> Vec<FoundTool> {
    let _ = files;
    Vec::new()
}
