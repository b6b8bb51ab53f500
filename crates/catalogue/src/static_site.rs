//! Generates the catalogue as a static site, page by page, in HTML and Markdown. The caller writes the pages to disk.

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
mod server_stack_page;
mod tool_page;

use std::collections::BTreeMap;

use crate::package_index::{IndexedServer, PackageIndex, PackageRegistry, ServerCatalogueEntry, ToolChange};
pub use markdown_renderer::escaped_html_code;
use page_document::PageDocument;

/// A file in the site.
#[derive(Debug)]
pub struct SiteFile {
    /// Path relative to the site's folder. It consists of plain names separated by `/`.
    pub path: String,
    /// Content of the file.
    pub text: String,
}

/// A static site for all or some of the servers in an index.
#[derive(Debug)]
pub struct StaticSite<'i> {
    index: &'i PackageIndex,
    servers: Vec<IndexedServer<'i>>,
    /// The changes to each server with their dates, in chronological order.
    history: BTreeMap<(PackageRegistry, String), Vec<(String, ToolChange)>>,
}

impl<'i> StaticSite<'i> {
    /// Creates a site for these servers. Statistics by risk level and category cover the whole index.
    pub fn new(index: &'i PackageIndex, servers: Vec<IndexedServer<'i>>) -> Self {
        Self { index, servers, history: BTreeMap::new() }
    }

    /// Adds the history of changes to servers. The changes must be in chronological order, each with the date of the
    /// index in which it first appears.
    pub fn with_history(mut self, history: Vec<(String, ToolChange)>) -> Self {
        for (date, change) in history {
            self.history.entry((change.source, change.package.clone())).or_default().push((date, change));
        }
        self
    }

    /// Returns the number of files in the site.
    pub fn file_count(&self) -> usize {
        let of_servers: usize = self.servers.iter().map(|server| 1 + server.tools().len()).sum();
        // The style sheet and `llms.txt` have only one format.
        2 * (self.fixed_pages().len() + of_servers) + 2
    }

    /// Passes each file to `put`, and stops at the first error.
    ///
    /// # Errors
    /// Returns the first error that `put` returns.
    pub fn write<E>(&self, mut put: impl FnMut(SiteFile) -> Result<(), E>) -> Result<(), E> {
        put(SiteFile { path: "style.css".to_owned(), text: html_renderer::STYLE_CSS.to_owned() })?;
        put(SiteFile { path: "llms.txt".to_owned(), text: home_page::llms_text(self) })?;
        let footer = self.footer_text();
        for doc in self.fixed_pages() {
            write_both_formats(&doc, &footer, &mut put)?;
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
        let known = ServerCatalogueEntry::of(server);
        let about = self.index.metadata();
        let name = crate::escape_for_display(server.package());
        let count = known.tools.len();
        let footer = format!(
            "{} catalogued and classified, in an index of {} and {} ({}). It rates what tools can do, not their \
             authors.",
            count_text(count, &format!("{name} tool")),
            count_text(about.servers, "server"),
            count_text(about.tools, "tool"),
            about.date
        );
        known.with_classifications(|tools| {
            write_both_formats(&server_page::server_page(self, server, &known, tools), &footer, put)?;
            let places = page_paths::tool_paths(server);
            for (at, place) in places.iter().enumerate() {
                if let Some(doc) = tool_page::tool_page(server, &known, tools, &places, at, place) {
                    write_both_formats(&doc, &footer, put)?;
                }
            }
            Ok(())
        })
    }

    /// Returns the pages that are not about a single server.
    fn fixed_pages(&self) -> Vec<PageDocument> {
        let mut docs = vec![home_page::home_page(self), server_stack_page::stack_page(self)];
        docs.extend(server_list_pages::server_list_pages(self));
        docs.extend(risk_pages::risk_pages(self));
        docs.extend(attack_pages::attack_pages());
        docs.extend(incident_pages::incident_pages());
        docs
    }

    fn footer_text(&self) -> String {
        let about = self.index.metadata();
        format!(
            "An index of {} and {} ({}). It rates what tools can do, not their authors.",
            count_text(about.servers, "server"),
            count_text(about.tools, "tool"),
            about.date
        )
    }
}

fn write_both_formats<E>(
    doc: &PageDocument,
    footer: &str,
    put: &mut impl FnMut(SiteFile) -> Result<(), E>,
) -> Result<(), E> {
    put(SiteFile { path: format!("{}.html", doc.path), text: html_renderer::render_html(doc, footer) })?;
    put(SiteFile { path: format!("{}.md", doc.path), text: markdown_renderer::render_markdown(doc, footer) })
}

/// Formats a policy for display. The names in it are untrusted text, so unprintable characters are escaped.
fn policy_text(policy: &serde_json::Value) -> String {
    let text = serde_json::to_string_pretty(policy).unwrap_or_default();
    // Line breaks come only from the layout; those in strings are escaped.
    text.lines().map(gatelodge_json::escape_unprintable).collect::<Vec<_>>().join("\n")
}

/// Formats a count together with its noun, in the singular or plural: `3 tools`.
fn count_text(number: usize, noun: &str) -> String {
    format!("{} {noun}{}", grouped_number(number), if number == 1 { "" } else { "s" })
}

/// Formats a number with thousands separators: `15,000`.
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
