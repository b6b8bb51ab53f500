//! Reads published packages without running them, finds the MCP tools that they offer, and writes the index of these
//! tools; also trains and evaluates the tool classifier.
//!
//! Nothing in this library touches a file, a clock or the network: bytes come in, facts go out. The program
//! `gatelodge-indexer` does the fetching, storing and printing.

mod category_labels;
mod classifier_evaluation;
mod index_writer;
mod javascript;
mod package_registry_response;
mod pep440_version;
mod python;
mod required_setting_heuristic;
mod tool_extraction;
mod training;

pub use category_labels::{CategoryLabel, LabeledTool, read_labeled_tool};
pub use classifier_evaluation::{
    ClassifierEvaluation, ConfidenceBin, EvaluationRatio, Misclassification, PrecisionRecall,
};
pub use index_writer::{WriteIndexError, write_index};
pub use javascript::extract_javascript_tools;
pub use package_registry_response::{ReleaseFile, find_npm_file, find_pypi_file, package_names};
pub use python::{extract_python_tools, is_python_input, uses_mcp};
pub use tool_extraction::ToolExtraction;
pub use training::{HeldOutPrediction, LabelSource, TrainingResult, train};
