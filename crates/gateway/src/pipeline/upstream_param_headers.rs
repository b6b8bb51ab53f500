//! `Mcp-Param-*` headers, which repeat the arguments of a call. The client's headers are compared with the evaluated
//! body; the headers for the server are derived from that body.

use gatelodge_mcp::http_headers::ParamHeaderMapping;
use http::HeaderMap;

use crate::refusal::Refusal;
use crate::request_context::{ClientProtocol, ProtocolTranslation, RequestContext, RequestSubject};
use crate::upstream::ToolListing;

/// Returns the `Mcp-Param-*` headers for the upstream request. Client headers that correspond to no argument are passed
/// on, because the server may recognize them.
pub(crate) fn upstream_param_headers(
    ctx: &RequestContext,
    subject: &RequestSubject<'_>,
    listing: Option<&ToolListing>,
) -> Result<Option<Box<HeaderMap>>, Refusal> {
    let RequestSubject::Tool { name, arguments } = subject else { return Ok(None) };
    let client_headers = match &ctx.client_protocol {
        ClientProtocol::Stateless(stateless) => stateless.param_headers.as_ref(),
        ClientProtocol::Stateful(_) if ctx.translation() == ProtocolTranslation::ToStateless => None,
        ClientProtocol::Stateful(_) => return Ok(None),
    };
    let nothing = ParamHeaderMapping::default();
    let tool = ctx.find_tool(listing, name);
    let mapping = tool.and_then(|tool| tool.param_headers.as_ref().ok()).unwrap_or(&nothing);
    if let Some(client_headers) = client_headers {
        mapping.check(client_headers, *arguments).map_err(Refusal::Protocol)?;
    }
    Ok(match ctx.translation() {
        // The stateful protocol has no such headers.
        ProtocolTranslation::ToStateful => None,
        ProtocolTranslation::None | ProtocolTranslation::ToStateless => {
            Some(Box::new(mapping.apply_to(client_headers.cloned().unwrap_or_default(), *arguments)))
        }
    })
}
