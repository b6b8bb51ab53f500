//! What a decision may look at.

use std::collections::BTreeMap;

use gatelodge_json::JsonValue;
use gatelodge_mutants::mutant;

use crate::input_schema::InputSchema;
use crate::limit::string_enum;

/// One request of a caller, with all facts about it.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    /// What is asked for.
    pub target: CallTarget<'a>,
    /// The arguments, an object; none counts as an empty one.
    pub arguments: Option<JsonValue<'a>>,
    /// The server's name.
    pub server: Option<&'a str>,
    /// Who asks.
    pub client: ClientFacts<'a>,
    /// The session, for clients that have one.
    pub session: Option<&'a str>,
}

impl<'a> Call<'a> {
    /// The arguments as JSON. A resource's are its URI alone, which is no member of a document.
    pub(crate) fn arguments_object(&self) -> Option<JsonValue<'a>> {
        match self.target {
            CallTarget::Resource { .. } if !mutant!("resource-amount-from-arguments") => None,
            _ => self.arguments,
        }
    }
}

/// Who asks: the grant, and what the client says of itself.
#[derive(Debug, Clone, Copy, Default)]
pub struct ClientFacts<'a> {
    /// The grant's label.
    pub grant_label: Option<&'a str>,
    /// The grant's labels.
    pub grant_labels: Option<&'a BTreeMap<String, String>>,
    /// The client's name, as it claims.
    pub client_name: Option<&'a str>,
    /// The client's version, as it claims.
    pub client_version: Option<&'a str>,
}

/// What a request is about.
#[derive(Debug, Clone, Copy)]
pub enum CallTarget<'a> {
    /// A call of a tool.
    Tool(CalledTool<'a>),
    /// Asking about, answering or cancelling a task that a call of a tool has made.
    Task(CalledTool<'a>),
    /// Reading or watching a resource.
    Resource {
        /// The resource's URI.
        uri: &'a str,
    },
    /// Getting a prompt.
    Prompt {
        /// The prompt's name.
        name: &'a str,
    },
    /// Completing an argument of what is referred to.
    Completion(CompletionReference<'a>),
    /// Any other method, in either direction.
    Method {
        /// The method's name.
        name: &'a str,
    },
}

/// A tool as the call names it and as the server's accepted definition describes it.
#[derive(Debug, Clone, Copy)]
pub struct CalledTool<'a> {
    /// The name in the call.
    pub name: &'a str,
    /// The category of the accepted definition, or the operator's override.
    pub category: Category,
    /// How the definition that is offered stands to the accepted one.
    pub definition: Definition,
    /// The accepted input schema, if it can be used.
    pub schema: Option<&'a InputSchema>,
}

impl CalledTool<'_> {
    /// The category that counts: without an accepted definition there is none.
    pub(crate) fn effective_category(&self) -> Category {
        match self.definition {
            Definition::Accepted | Definition::Changed => self.category,
            Definition::New | Definition::NotOffered => Category::Unknown,
        }
    }
}

/// What a completion refers to.
#[derive(Debug, Clone, Copy)]
pub enum CompletionReference<'a> {
    /// A prompt, by its name.
    Prompt(&'a str),
    /// A resource or a template, by its URI.
    Resource(&'a str),
    /// Missing, or not understood.
    Unknown,
}

string_enum! {
    /// What a tool can do.
    Category {
        /// It looks.
        Read = "read",
        /// It changes things that can be changed back.
        Write = "write",
        /// It runs something.
        Execute = "execute",
        /// It removes things for good.
        Destructive = "destructive",
        /// It moves money.
        Financial = "financial",
        /// Not classified.
        Unknown = "unknown",
    }
}

impl Category {
    /// How much harm a call can do.
    pub fn level(self) -> &'static str {
        match self {
            Self::Read => "low",
            Self::Write => "medium",
            Self::Execute | Self::Unknown => "high",
            Self::Destructive | Self::Financial => "critical",
        }
    }
}

string_enum! {
    /// How the definition that a server offers stands to the one that was accepted.
    Definition {
        /// The same.
        Accepted = "yes",
        /// Nobody has accepted one.
        New = "new",
        /// Another one than was accepted.
        Changed = "changed",
        /// The server offers no such tool.
        NotOffered = "not_offered",
    }
}
