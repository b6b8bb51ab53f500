//! The MCP clients that people have: where their configurations are, how their entries look, and how they are changed
//! without touching anything else. One table says it all; nothing else knows a client by name.

mod client_config_document;
mod client_config_locations;
mod client_jsonc_editor;
mod client_server_entry;
mod client_table;
mod client_toml_editor;
mod client_yaml_reader;
mod env_reference;
mod file_snapshot;
mod journal;
mod link;
mod output;
mod page;
mod shown;
mod snippet;

pub use client_config_document::{ClientConfigDocument, EntryChange};
pub use client_config_locations::{
    CLAUDE_PROJECTS_KEY, ClientConfigLocation, ClientConfigPath, OperatingSystem, UserDirectories, shorten_home,
};
pub use client_server_entry::{NamedServerEntry, ServerEntry};
pub use client_table::{ALL, ClientConfigFormat, ClientProfile, ConnectionMethod, find_client};
pub use client_yaml_reader::read as read_yaml;
pub use env_reference::EntryValue;
pub use file_snapshot::{ClientFileError, FileSnapshot, create_private_directory};
pub use journal::{Journal, Standing, Step, Undone};
pub use link::{Link, TOKEN_ENV};
pub use output::Output;
pub use page::page;
pub use shown::{command as shown_command, diff, seems_secret};
pub use snippet::snippet;
