//! The catalogue as a static site: pages in HTML and Markdown, made one after the other and handed out. Where they go is
//! not known here.

mod attack;
mod doc;
mod home;
mod html;
mod incident;
mod list;
mod markdown;
mod place;
mod risk;
mod server;
mod stack;
mod tool;

use std::collections::BTreeMap;

use crate::package_index::{CataloguedServer, IndexedServer, PackageIndex, PackageRegistry, ToolChange};
use doc::Doc;
pub use markdown::html_code;

/// A file of the site.
#[derive(Debug)]
pub struct Page {
    /// Where it goes, below the site's folder; plain names and `/`.
    pub path: String,
    /// What it holds.
    pub text: String,
}

/// A site of an index, or of a part of it.
#[derive(Debug)]
pub struct Site<'i> {
    index: &'i PackageIndex,
    servers: Vec<IndexedServer<'i>>,
    /// Changes of each server with their days, the latest last.
    history: BTreeMap<(PackageRegistry, String), Vec<(String, ToolChange)>>,
}

impl<'i> Site<'i> {
    /// A site of these servers; the pages that are not about one speak of the whole index.
    pub fn new(index: &'i PackageIndex, servers: Vec<IndexedServer<'i>>) -> Self {
        Self { index, servers, history: BTreeMap::new() }
    }

    /// With what changed on servers, and the day of the index in which it was found; the latest last.
    pub fn with_history(mut self, history: Vec<(String, ToolChange)>) -> Self {
        for (date, change) in history {
            self.history.entry((change.source, change.package.clone())).or_default().push((date, change));
        }
        self
    }

    /// How many files it has.
    pub fn file_count(&self) -> usize {
        let of_servers: usize = self.servers.iter().map(|server| 1 + server.tools().len()).sum();
        // The style and `llms.txt` have no second form.
        2 * (self.fixed().len() + of_servers) + 2
    }

    /// Gives each file to `put`, until that fails.
    ///
    /// # Errors
    /// The first of `put`.
    pub fn write<E>(&self, mut put: impl FnMut(Page) -> Result<(), E>) -> Result<(), E> {
        put(Page { path: "style.css".to_owned(), text: html::STYLE.to_owned() })?;
        put(Page { path: "llms.txt".to_owned(), text: home::llms(self) })?;
        let footer = self.footer();
        for doc in self.fixed() {
            both(&doc, &footer, &mut put)?;
        }
        for server in &self.servers {
            self.of_server(server, &mut put)?;
        }
        Ok(())
    }

    fn of_server<E>(&self, server: &IndexedServer<'_>, put: &mut impl FnMut(Page) -> Result<(), E>) -> Result<(), E> {
        let known = CataloguedServer::of(server);
        let about = self.index.metadata();
        let name = crate::escape_for_display(server.package());
        let count = known.tools.len();
        let footer = format!(
            "{} catalogued and classified, in an index of {} and {} ({}). It judges what tools could do, not who wrote \
             them.",
            counted(count, &format!("{name} tool")),
            counted(about.servers, "server"),
            counted(about.tools, "tool"),
            about.date
        );
        known.with_classifications(|tools| {
            both(&server::page(self, server, &known, tools), &footer, put)?;
            let places = place::tools(server);
            for (at, place) in places.iter().enumerate() {
                if let Some(doc) = tool::page(server, &known, tools, &places, at, place) {
                    both(&doc, &footer, put)?;
                }
            }
            Ok(())
        })
    }

    /// The pages that are there whatever servers there are.
    fn fixed(&self) -> Vec<Doc> {
        let mut docs = vec![home::page(self), stack::page(self)];
        docs.extend(list::pages(self));
        docs.extend(risk::pages(self));
        docs.extend(attack::pages());
        docs.extend(incident::pages());
        docs
    }

    fn footer(&self) -> String {
        let about = self.index.metadata();
        format!(
            "An index of {} and {} ({}). It judges what tools could do, not who wrote them.",
            counted(about.servers, "server"),
            counted(about.tools, "tool"),
            about.date
        )
    }
}

fn both<E>(doc: &Doc, footer: &str, put: &mut impl FnMut(Page) -> Result<(), E>) -> Result<(), E> {
    put(Page { path: format!("{}.html", doc.path), text: html::page(doc, footer) })?;
    put(Page { path: format!("{}.md", doc.path), text: markdown::page(doc, footer) })
}

/// A policy as people read it. Names in it are foreign, so what is not seen is written out.
fn laid_out(policy: &serde_json::Value) -> String {
    let text = serde_json::to_string_pretty(policy).unwrap_or_default();
    // Line ends of the layout alone are not in a string.
    text.lines().map(gatelodge_json::escape_unprintable).collect::<Vec<_>>().join("\n")
}

/// So many of something.
fn counted(number: usize, noun: &str) -> String {
    format!("{} {noun}{}", grouped(number), if number == 1 { "" } else { "s" })
}

/// A number as people read it: `15,000`.
fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}
