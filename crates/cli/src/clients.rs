//! The MCP clients that people have: where their configurations are, how their entries look, and how they are changed
//! without touching anything else. One table says it all; nothing else knows a client by name.

mod document;
mod entry;
mod file;
mod journal;
mod jsonc;
mod link;
mod output;
mod page;
mod place;
mod reference;
mod shown;
mod snippet;
mod table;
mod toml;
mod yaml;

pub use document::{Change, Document};
pub use entry::{Entry, Found};
pub use file::{Held, Trouble, make_folder};
pub use journal::{Journal, Standing, Step, Undone};
pub use link::{Link, TOKEN_ENV};
pub use output::Output;
pub use page::page;
pub use place::{PROJECTS, Place, Places, Spot, System, short};
pub use reference::Value;
pub use shown::{command as shown_command, diff, seems_secret};
pub use snippet::snippet;
pub use table::{ALL, Client, Format, Way, find};
pub use yaml::read as read_yaml;
