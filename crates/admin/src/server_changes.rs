//! Adds servers to the store, and removes them.

use std::collections::BTreeMap;

use gatelodge_store::{ServerName, StoreError, StoredServer};
use http::Uri;
use serde_json::json;

use crate::administration::Administration;
use crate::header_template::{self, EnvironmentLookup, HeaderError};
use crate::server_url::{self, ServerUrlError};

/// A server that is about to be added. Its URL and headers are valid, and contain no credentials.
#[derive(Debug)]
pub struct NewServer {
    name: ServerName,
    url_text: String,
    url: Uri,
    headers: BTreeMap<String, String>,
    /// Whether the call log keeps the values of arguments.
    pub log_arguments: bool,
    /// Whether tools can be called only after they were accepted.
    pub review: bool,
    /// Whether tools that the server adds later are pinned automatically.
    pub accept_new: bool,
}

/// Why a server's URL or headers cannot be stored. No message contains a header's value.
#[derive(Debug, thiserror::Error)]
pub enum NewServerError {
    /// The URL is invalid.
    #[error("{}; {}", .0.message(), .0.help())]
    Url(ServerUrlError),
    /// A header is invalid.
    #[error("{}; {}", .error.message(.name), .error.help())]
    Header {
        /// Name of the header.
        name: String,
        /// Why it is invalid.
        error: HeaderError,
    },
    /// A header has a credential as its value.
    #[error(
        "the header `{0}` would store its credential in the database; put the credential into the environment of the \
         gateway and write ${{NAME}} here"
    )]
    StoredCredential(String),
    /// A header occurs twice.
    #[error("the header `{0}` is given twice")]
    RepeatedHeader(String),
}

/// Why a server was not added or removed.
#[derive(Debug, thiserror::Error)]
pub enum ChangeServerError {
    /// The configuration file defines the server.
    #[error("server `{0}` is defined in the configuration file; change it there")]
    DefinedInFile(ServerName),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl NewServer {
    /// Returns a server without headers.
    pub fn new(name: ServerName, url: &str) -> Result<Self, NewServerError> {
        Ok(Self {
            name,
            url: server_url::parse_server_url(url).map_err(NewServerError::Url)?,
            url_text: url.to_owned(),
            headers: BTreeMap::new(),
            log_arguments: false,
            review: false,
            accept_new: false,
        })
    }

    /// Adds a header. Its value may refer to environment variables, and must do so for a credential.
    pub fn add_header(&mut self, name: &str, value: &str) -> Result<(), NewServerError> {
        header_template::check_header(name, value)
            .map_err(|error| NewServerError::Header { name: name.to_owned(), error })?;
        if header_template::is_credential_header(name) && !header_template::has_variable(value) {
            return Err(NewServerError::StoredCredential(name.to_owned()));
        }
        match self.headers.insert(name.to_ascii_lowercase(), value.to_owned()) {
            Some(_) => Err(NewServerError::RepeatedHeader(name.to_owned())),
            None => Ok(()),
        }
    }

    /// Returns the name of the server.
    pub fn name(&self) -> &ServerName {
        &self.name
    }

    /// Returns the variables that the headers refer to and that are not set in `environment`.
    pub fn unset_variables(&self, environment: EnvironmentLookup<'_>) -> Vec<String> {
        let referenced = self.headers.values().flat_map(|value| header_template::referenced_variables(value));
        referenced.filter(|variable| environment(variable).is_none()).collect()
    }

    /// Returns whether the headers are sent to another machine unencrypted.
    pub fn sends_headers_in_clear_text(&self) -> bool {
        !self.headers.is_empty() && self.url.scheme_str() == Some("http") && !server_url::is_loopback(&self.url)
    }
}

impl Administration {
    /// Adds a server.
    pub async fn add_server(&self, new: &NewServer) -> Result<(), ChangeServerError> {
        self.check_not_in_file(&new.name)?;
        let header_names: Vec<&String> = new.headers.keys().collect();
        let url = server_url::redact_url(&new.url_text);
        let detail = json!({"url": url, "headers": header_names, "log_arguments": new.log_arguments});
        let server = StoredServer {
            name: new.name.clone(),
            url: new.url_text.clone(),
            headers: new.headers.clone(),
            log_arguments: new.log_arguments,
            review: new.review,
            accept_new: new.accept_new,
            created_at: self.clock.now(),
        };
        Ok(self.stores.servers.add(server, self.log_entry("server.add", new.name.as_str(), detail)).await?)
    }

    /// Removes a server and its attachments to grants.
    pub async fn remove_server(&self, name: &ServerName) -> Result<(), ChangeServerError> {
        self.check_not_in_file(name)?;
        let entry = self.log_entry("server.remove", name.as_str(), json!({}));
        Ok(self.stores.servers.remove(name, entry).await?)
    }

    fn check_not_in_file(&self, name: &ServerName) -> Result<(), ChangeServerError> {
        if self.file_entries.servers.contains(name) {
            return Err(ChangeServerError::DefinedInFile(name.clone()));
        }
        Ok(())
    }
}
