//! The input to a decision: one call, and the facts that conditions can refer to.

pub(crate) mod call_path;
pub(crate) mod call_value;
pub(crate) mod input_schema;

use std::collections::BTreeMap;

use gatelodge_json::JsonValue;
use gatelodge_mutants::mutant;

use crate::call::input_schema::InputSchema;
use crate::string_enum::string_enum;

/// One client request, with all facts that a policy can refer to.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    /// The requested tool, resource, prompt or method.
    pub target: CallTarget<'a>,
    /// The arguments, an object. `None` is treated as an empty object.
    pub arguments: Option<JsonValue<'a>>,
    /// Name of the server.
    pub server: Option<&'a str>,
    /// The client that sends the request.
    pub client: ClientFacts<'a>,
    /// Session id, for clients of the stateful protocol.
    pub session: Option<&'a str>,
}

impl<'a> Call<'a> {
    /// Returns the arguments as JSON. `None` for resources, because their only argument is the URI, which is stored
    /// separately.
    pub(crate) fn arguments_object(&self) -> Option<JsonValue<'a>> {
        match self.target {
            CallTarget::Resource { .. } if !mutant!("resource-amount-from-arguments") => None,
            _ => self.arguments,
        }
    }
}

/// Facts about the client: its grant, and what it claims about itself.
#[derive(Debug, Clone, Copy, Default)]
pub struct ClientFacts<'a> {
    /// Label of the grant.
    pub grant_label: Option<&'a str>,
    /// Key-value labels of the grant.
    pub grant_labels: Option<&'a BTreeMap<String, String>>,
    /// Client name, as the client reports it.
    pub client_name: Option<&'a str>,
    /// Client version, as the client reports it.
    pub client_version: Option<&'a str>,
}

/// The target of a request.
#[derive(Debug, Clone, Copy)]
pub enum CallTarget<'a> {
    /// A tool call.
    Tool(CalledTool<'a>),
    /// A request to query, answer or cancel a task that an earlier tool call created.
    Task(CalledTool<'a>),
    /// A request to read or subscribe to a resource.
    Resource {
        /// URI of the resource.
        uri: &'a str,
    },
    /// A request for a prompt.
    Prompt {
        /// Name of the prompt.
        name: &'a str,
    },
    /// A request to complete an argument of a prompt or resource.
    Completion(CompletionReference<'a>),
    /// Any other method, in either direction.
    Method {
        /// Name of the method.
        name: &'a str,
    },
}

/// A tool: its name in the call, and facts from its pinned definition.
#[derive(Debug, Clone, Copy)]
pub struct CalledTool<'a> {
    /// Name of the tool, as written in the call.
    pub name: &'a str,
    /// Category from the pinned definition, or the operator's override.
    pub category: Category,
    /// Result of comparing the listed definition with the pinned one.
    pub definition: DefinitionStatus,
    /// Pinned input schema. `None` if the tool has no schema or the schema cannot be compiled.
    pub schema: Option<&'a InputSchema>,
}

impl CalledTool<'_> {
    /// Returns the category to evaluate. A tool without a pinned definition is `Unknown`.
    pub(crate) fn effective_category(&self) -> Category {
        match self.definition {
            DefinitionStatus::Accepted | DefinitionStatus::Changed => self.category,
            DefinitionStatus::New | DefinitionStatus::NotOffered => Category::Unknown,
        }
    }
}

/// The prompt or resource that a completion refers to.
#[derive(Debug, Clone, Copy)]
pub enum CompletionReference<'a> {
    /// A prompt, by name.
    Prompt(&'a str),
    /// A resource or a resource template, by URI.
    Resource(&'a str),
    /// The reference is missing or malformed.
    Unknown,
}

string_enum! {
    /// Category of a tool, by the effect that its calls have.
    Category {
        /// Reads data without side effects.
        Read = "read",
        /// Makes changes that can be undone.
        Write = "write",
        /// Runs code or commands.
        Execute = "execute",
        /// Deletes or overwrites data irreversibly.
        Destructive = "destructive",
        /// Moves money.
        Financial = "financial",
        /// Not classified.
        Unknown = "unknown",
    }
}

impl Category {
    /// Returns the risk level of the category.
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
    /// Result of comparing the definition that a server lists with the pinned one.
    DefinitionStatus {
        /// The definitions are equal.
        Accepted = "yes",
        /// No definition is pinned.
        New = "new",
        /// The listed definition differs from the pinned one.
        Changed = "changed",
        /// The server does not list the tool.
        NotOffered = "not_offered",
    }
}
