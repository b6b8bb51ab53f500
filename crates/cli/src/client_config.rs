//! Configurations of MCP clients: where the files are, what entries look like, and how to change entries without
//! touching the rest of the file. Everything specific to a client is in one table.

mod client_config_document;
mod client_config_locations;
mod client_config_redaction;
mod client_config_snippet;
mod client_docs_page;
mod client_file_snapshot;
mod client_jsonc_editor;
mod client_profiles;
mod client_server_entry;
mod client_toml_editor;
mod client_yaml_reader;
mod env_reference;
mod gateway_entry;
mod planned_write;
mod undo_journal;

pub use client_config_document::{ClientConfigDocument, ClientConfigEntryChange};
pub use client_config_locations::{
    CLAUDE_PROJECTS_KEY, ClientConfigLocation, ClientConfigPath, OperatingSystem, UserDirectories, shorten_home,
};
pub use client_config_redaction::{entry_diff, is_likely_secret, redact_command};
pub use client_config_snippet::config_snippet;
pub use client_docs_page::clients_page;
pub use client_file_snapshot::{ClientFileError, ClientFileSnapshot, create_private_directory};
pub use client_profiles::{ALL, ClientConfigFileFormat, ClientConnectionMethod, ClientProfile, find_client};
pub use client_server_entry::{ClientConfigServer, ClientServerEntry};
pub use client_yaml_reader::read as read_yaml;
pub use env_reference::ClientConfigEntryValue;
pub use gateway_entry::{DEFAULT_TOKEN_ENV, GatewayEntry};
pub use planned_write::PlannedWrite;
pub use undo_journal::{UndoFileState, UndoJournal, UndoOutcome, UndoStep};
