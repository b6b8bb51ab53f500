//! The catalogue as a static site: pages in HTML and Markdown, made one after the other and handed out. Where they go is
//! not known here.

mod attack_pages;
mod home_page;
mod html_renderer;
mod incident_pages;
mod markdown_renderer;
mod page_document;
mod page_paths;
mod risk_pages;
mod server_list_pages;
mod server_page;
mod stack_page;
mod tool_page;

use std::collections::BTreeMap;

use crate::package_index::{CataloguedServer, IndexedServer, PackageIndex, PackageRegistry, ToolChange};
pub use markdown_renderer::escaped_html_code;
use page_document::PageDocument;

/// A file of the site.
#[derive(Debug)]
pub struct SiteFile {
    /// Where it goes, below the site's folder; plain names and `/`.
    pub path: String,
    /// What it holds.
    pub text: String,
}

/// A site of an index, or of a part of it.
#[derive(Debug)]
pub struct StaticSite<'i> {
    index: &'i PackageIndex,
    servers: Vec<IndexedServer<'i>>,
    /// Changes of each server with their days, the latest last.
    history: BTreeMap<(PackageRegistry, String), Vec<(String, ToolChange)>>,
}

impl<'i> StaticSite<'i> {
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
    pub fn write<E>(&self, mut put: impl FnMut(SiteFile) -> Result<(), E>) -> Result<(), E> {
        put(SiteFile { path: "style.css".to_owned(), text: html_renderer::STYLE_CSS.to_owned() })?;
        put(SiteFile { path: "llms.txt".to_owned(), text: home_page::llms_text(self) })?;
        let footer = self.footer();
        for doc in self.fixed() {
            both(&doc, &footer, &mut put)?;
        }
        for server in &self.servers {
            self.write_server(server, &mut put)?;
        }
        Ok(())
    }

    fn write_server<E>(
        &self,
        server: &IndexedServer<'_>,
        put: &mut impl FnMut(SiteFile) -> Result<(), E>,
    ) -> Result<(), E> {
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
            both(&server_page::server_page(self, server, &known, tools), &footer, put)?;
            let places = page_paths::tool_paths(server);
            for (at, place) in places.iter().enumerate() {
                if let Some(doc) = tool_page::tool_page(server, &known, tools, &places, at, place) {
                    both(&doc, &footer, put)?;
                }
            }
            Ok(())
        })
    }

    /// The pages that are there whatever servers there are.
    fn fixed(&self) -> Vec<PageDocument> {
        let mut docs = vec![home_page::home_page(self), stack_page::stack_page(self)];
        docs.extend(server_list_pages::server_list_pages(self));
        docs.extend(risk_pages::risk_pages(self));
        docs.extend(attack_pages::attack_pages());
        docs.extend(incident_pages::incident_pages());
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

fn both<E>(doc: &PageDocument, footer: &str, put: &mut impl FnMut(SiteFile) -> Result<(), E>) -> Result<(), E> {
    put(SiteFile { path: format!("{}.html", doc.path), text: html_renderer::render_html(doc, footer) })?;
    put(SiteFile { path: format!("{}.md", doc.path), text: markdown_renderer::render_markdown(doc, footer) })
}

/// A policy as people read it. Names in it are foreign, so what is not seen is written out.
fn laid_out(policy: &serde_json::Value) -> String {
    let text = serde_json::to_string_pretty(policy).unwrap_or_default();
    // Line ends of the layout alone are not in a string.
    text.lines().map(gatelodge_json::escape_unprintable).collect::<Vec<_>>().join("\n")
}

/// So many of something.
fn counted(number: usize, noun: &str) -> String {
    format!("{} {noun}{}", grouped_number(number), if number == 1 { "" } else { "s" })
}

/// A number as people read it: `15,000`.
fn grouped_number(number: usize) -> String {
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
