//! Subject of a request: the tool, resource or prompt that the policy is evaluated for.

use std::borrow::Cow;
use std::sync::Arc;

use gatelodge_json::JsonValue;
use gatelodge_mcp::aggregate_names::{prefix_name, prefix_uri};
use gatelodge_mcp::{ClientRequest, CompletionRequest, CompletionTarget, MessageError, Method};
use gatelodge_policy::{
    Call, CallTarget, CalledTool, Category, ClientFacts, CompletionReference, Decision, DefinitionStatus, Reason,
    decide,
};
use jiff::Timestamp;

use super::RequestContext;
use crate::upstream::ToolListing;

/// Subject of a request.
#[derive(Debug, Clone)]
pub(crate) enum RequestSubject<'r> {
    /// A tool call.
    Tool {
        name: Cow<'r, str>,
        arguments: Option<JsonValue<'r>>,
    },
    /// A request about a task that a tool call created.
    Task {
        id: Cow<'r, str>,
        tool: String,
    },
    /// Reading a resource or subscribing to it.
    Resource {
        uri: Cow<'r, str>,
    },
    Prompt {
        name: Cow<'r, str>,
        arguments: Option<JsonValue<'r>>,
    },
    /// Completing an argument of a prompt or resource template.
    Completion {
        reference: CompletionTarget<'r>,
    },
    Method {
        name: &'r str,
    },
}

/// Reads the subject from a request.
///
/// # Errors
/// The parameters are missing or have the wrong type.
pub(crate) fn parse_subject<'r>(request: &'r ClientRequest<'_>) -> Result<RequestSubject<'r>, MessageError> {
    Ok(match request.method() {
        Method::ToolsCall => {
            let call = request.tool_call()?;
            RequestSubject::Tool { name: call.name, arguments: call.arguments }
        }
        Method::ResourcesRead | Method::ResourcesSubscribe | Method::ResourcesUnsubscribe => {
            RequestSubject::Resource { uri: request.resource_uri()? }
        }
        Method::PromptsGet => {
            let prompt = request.prompt()?;
            RequestSubject::Prompt { name: prompt.name, arguments: prompt.arguments }
        }
        Method::Complete => {
            let CompletionRequest { reference, .. } = request.completion()?;
            RequestSubject::Completion { reference }
        }
        method => RequestSubject::Method { name: method.name() },
    })
}

impl<'r> RequestSubject<'r> {
    /// Returns the name of the target as used in the call log.
    pub fn target(&self) -> Option<&str> {
        match self {
            Self::Tool { name, .. } | Self::Prompt { name, .. } => Some(name),
            Self::Task { tool, .. } => Some(tool),
            Self::Resource { uri } => Some(uri),
            Self::Completion { reference: CompletionTarget::Prompt(name) } => Some(name),
            Self::Completion { reference: CompletionTarget::Resource(uri) } => Some(uri),
            Self::Method { .. } => None,
        }
    }

    /// Returns the subject with the name that it has on the aggregate endpoint.
    pub fn with_server_prefix(&self, server: &str) -> Self {
        match self {
            Self::Tool { name, arguments } => {
                Self::Tool { name: prefix_name(server, name).into(), arguments: *arguments }
            }
            Self::Task { id, tool } => Self::Task { id: prefix_name(server, id).into(), tool: tool.clone() },
            Self::Resource { uri } => Self::Resource { uri: prefix_uri(server, uri).into() },
            Self::Prompt { name, arguments } => {
                Self::Prompt { name: prefix_name(server, name).into(), arguments: *arguments }
            }
            // Error messages about these do not name anything of a server.
            Self::Completion { .. } | Self::Method { .. } => self.clone(),
        }
    }

    pub fn arguments(&self) -> Option<JsonValue<'r>> {
        match self {
            Self::Tool { arguments, .. } | Self::Prompt { arguments, .. } => *arguments,
            Self::Task { .. } | Self::Resource { .. } | Self::Completion { .. } | Self::Method { .. } => None,
        }
    }

    pub fn tool(&self) -> Option<&str> {
        match self {
            Self::Tool { name, .. } => Some(name),
            Self::Task { tool, .. } => Some(tool),
            _ => None,
        }
    }

    /// Returns the `Mcp-Name` header that a stateless server expects.
    pub fn mcp_name_header(&self, method: &Method<'_>) -> Option<&str> {
        match (self, method) {
            (Self::Task { id, .. }, _) => Some(id),
            (_, Method::ToolsCall | Method::PromptsGet | Method::ResourcesRead) => self.target(),
            _ => None,
        }
    }

    /// Returns the fingerprint of the listed tool, and the category of its pinned definition.
    pub fn definition(&self, listing: Option<&ToolListing>) -> (Option<Arc<str>>, Category) {
        let Some((name, listing)) = self.tool().zip(listing) else { return (None, Category::Unknown) };
        (listing.find_tool(name).map(|tool| Arc::clone(&tool.fingerprint)), listing.category(name))
    }

    /// Evaluates the policy for the subject. Without a policy, everything is denied.
    pub fn decide(&self, ctx: &RequestContext, listing: Option<&ToolListing>, at: Timestamp) -> Decision {
        match &ctx.server_access.policy {
            Some(policy) => decide(&policy.policy, &self.to_policy_call(ctx, listing), at),
            None => Decision::Deny(Reason::no_policy()),
        }
    }

    /// Builds the input for evaluating the policy.
    pub fn to_policy_call<'c>(&'c self, ctx: &'c RequestContext, listing: Option<&'c ToolListing>) -> Call<'c> {
        let subject = match self {
            Self::Tool { name, .. } => CallTarget::Tool(policy_tool(ctx, name, listing)),
            Self::Task { tool, .. } => CallTarget::Task(policy_tool(ctx, tool, listing)),
            Self::Resource { uri } => CallTarget::Resource { uri },
            Self::Prompt { name, .. } => CallTarget::Prompt { name },
            Self::Completion { reference: CompletionTarget::Prompt(name) } => {
                CallTarget::Completion(CompletionReference::Prompt(name))
            }
            Self::Completion { reference: CompletionTarget::Resource(uri) } => {
                CallTarget::Completion(CompletionReference::Resource(uri))
            }
            Self::Method { name } => CallTarget::Method { name },
        };
        let client = ctx.client_info();
        Call {
            target: subject,
            arguments: self.arguments(),
            server: Some(ctx.upstream.name().as_str()),
            client: ClientFacts {
                grant_label: Some(&ctx.grant.config.label),
                grant_labels: Some(&ctx.grant.config.labels),
                client_name: client.and_then(|client| client.name.as_deref()),
                client_version: client.and_then(|client| client.version.as_deref()),
            },
            session: ctx.session().map(|session| session.id()),
        }
    }
}

fn policy_tool<'c>(ctx: &RequestContext, name: &'c str, listing: Option<&'c ToolListing>) -> CalledTool<'c> {
    let tool = ctx.find_tool(listing, name);
    let definition = tool.map_or(DefinitionStatus::NotOffered, |tool| tool.pin_state);
    let category = listing.map_or(Category::Unknown, |listing| listing.category(name));
    CalledTool { name, category, definition, schema: tool.and_then(|tool| tool.schema()) }
}
