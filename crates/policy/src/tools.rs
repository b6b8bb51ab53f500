//! Tools for people who write policies: case files, drafts, formatting, the import of other formats, and the JSON Schema.

pub(crate) mod call_file;
pub(crate) mod case_file;
pub(crate) mod draft;
pub(crate) mod format;
pub(crate) mod intercept_import;
pub(crate) mod policy_json_schema;
