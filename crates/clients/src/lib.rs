//! Configuration files of MCP clients: where they are, what their server entries look like, and how to change an entry
//! without touching the rest of the file. Everything specific to a client is in one table, [`CLIENT_PROFILES`].
//!
//! The crate is pure: locations are functions of given directories, and documents are edited as text. Reading files,
//! backing them up and replacing them is left to the caller.

mod client_config_document;
mod client_config_locations;
mod client_config_snippet;
mod client_docs_page;
mod client_jsonc_editor;
mod client_profiles;
mod client_server_entry;
mod client_toml_editor;
mod client_yaml_reader;
mod env_reference;
mod gateway_entry;
mod shell_quote;

pub use client_config_document::{ClientConfigDocument, ClientConfigEntryChange};
pub use client_config_locations::{
    BaseDirectory, CLAUDE_PROJECTS_KEY, ClientConfigLocation, ClientConfigPath, OperatingSystem, UserDirectories,
    shorten_home,
};
pub use client_config_snippet::config_snippet;
pub use client_docs_page::clients_page;
pub use client_profiles::{
    CLIENT_PROFILES, ClientConfigEntryFormat, ClientConfigFileFormat, ClientConnectionMethod, ClientProfile,
    DisableField, find_client,
};
pub use client_server_entry::{ClientConfigServer, ClientServerEntry};
pub use client_yaml_reader::read as read_yaml;
pub use env_reference::{ClientConfigEntryValue, EnvReferenceSyntax};
pub use gateway_entry::{DEFAULT_TOKEN_ENV, GatewayEntry};
pub use shell_quote::quote_for_shell;
