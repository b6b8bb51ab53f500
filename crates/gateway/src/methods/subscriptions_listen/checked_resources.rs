//! The resources that a listen request names, as far as the policy allows them.

use gatelodge_json::JsonValue;
use gatelodge_mcp::http_headers::ProtocolError;
use gatelodge_mcp::{ClientRequest, code};
use gatelodge_mutants::mutant;
use gatelodge_policy::Reason;
use http::StatusCode;

use crate::call_recorder::CallRecorder;
use crate::refusal::Refusal;
use crate::request_context::RequestContext;
use crate::services::GatewayServices;
use crate::upstream_session::resource_subscription::{AllowedResource, authorize_resource};

/// Maximum number of resources in a request, the same as for a session. Each denied resource is recorded in a row of
/// its own.
const MAX_NAMED_RESOURCES: usize = 256;

/// The resources in a request: those that the grant may watch, and the denied ones with the reason for each denial.
pub(crate) struct CheckedResources {
    pub allowed: Vec<AllowedResource>,
    denied: Vec<(String, Reason)>,
}

impl CheckedResources {
    /// Returns the request with only the allowed resources.
    pub fn restrict_request(&self, request: &ClientRequest<'_>) -> String {
        request.with_allowed_resources(|uri| self.allowed.iter().any(|allowed| allowed.uri() == uri))
    }
}

pub(crate) fn resource_uris(allowed: &[AllowedResource]) -> Vec<String> {
    allowed.iter().map(|allowed| allowed.uri().to_owned()).collect()
}

/// Checks the number of resources in a request.
///
/// # Errors
/// The request names too many resources.
pub(crate) fn check_resource_count(request: &ClientRequest<'_>) -> Result<(), Refusal> {
    if named_resources(request).iter().flat_map(|named| named.elements()).count() <= MAX_NAMED_RESOURCES
        || mutant!("subscription-count-unlimited")
    {
        return Ok(());
    }
    let what = format!("`resourceSubscriptions` names more than {MAX_NAMED_RESOURCES} resources");
    Err(Refusal::Protocol(ProtocolError::new(StatusCode::OK, code::INVALID_PARAMS, &what)))
}

fn named_resources<'r>(request: &'r ClientRequest<'_>) -> Option<JsonValue<'r>> {
    request.params()?.get("notifications")?.get("resourceSubscriptions")
}

/// Evaluates the policy for each resource in a request. The server does not learn of denied resources.
pub(crate) fn check_resources(
    gw: &GatewayServices,
    ctx: &RequestContext,
    request: &ClientRequest<'_>,
) -> CheckedResources {
    let (mut allowed, mut denied) = (Vec::new(), Vec::new());
    for uri in named_resources(request).iter().flat_map(|named| named.elements()).filter_map(|uri| uri.as_str()) {
        match authorize_resource(gw, ctx, &uri) {
            Ok(own) => allowed.push(own),
            Err(reason) => denied.push((uri.into_owned(), reason)),
        }
    }
    if mutant!("one-denied-resource-denies-all") && !denied.is_empty() {
        allowed.clear();
    }
    CheckedResources { allowed, denied }
}

/// Records the requested resources that were denied.
pub(crate) async fn record_denied(
    gw: &GatewayServices,
    ctx: &RequestContext,
    request: &ClientRequest<'_>,
    resources: &CheckedResources,
) {
    for (uri, reason) in &resources.denied {
        let mut recorder = CallRecorder::start(ctx, request, gw.new_call_id(), gw.clock.now());
        recorder.set_subject(ctx, Some(uri), None);
        gw.record_refusal(&mut recorder, &Refusal::Denied(reason.clone())).await;
    }
}
