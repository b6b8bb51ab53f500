//! The MCP clients that people have: where their configurations are, how their entries look, and how they are changed
//! without touching anything else. One table says it all; nothing else knows a client by name.

mod client_config_locations;
mod client_table;
mod document;
mod entry;
mod env_reference;
mod file;
mod journal;
mod jsonc;
mod link;
mod output;
mod page;
mod shown;
mod snippet;
mod toml;
mod yaml;

pub use client_config_locations::{
    CLAUDE_PROJECTS_KEY, ClientConfigLocation, ClientConfigPath, OperatingSystem, UserDirectories, shorten_home,
};
pub use client_table::{ALL, ClientConfigFormat, ClientProfile, ConnectionMethod, find_client};
pub use document::{Change, Document};
pub use entry::{Entry, Found};
pub use env_reference::EntryValue;
pub use file::{Held, Trouble, make_folder};
pub use journal::{Journal, Standing, Step, Undone};
pub use link::{Link, TOKEN_ENV};
pub use output::Output;
pub use page::page;
pub use shown::{command as shown_command, diff, seems_secret};
pub use snippet::snippet;
pub use yaml::read as read_yaml;
