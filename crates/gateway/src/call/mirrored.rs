//! The arguments of a call that its server wants in the head as well: what the client says there is held against the
//! body that was judged, and what the server gets is made from that body.

use gatelodge_mcp::http_headers::ParamHeaderMapping;
use http::HeaderMap;

use super::{Facts, Refusal};
use crate::upstream::Offer;
use crate::visit::{Crossing, Side, Visit};

/// The `Mcp-Param-*` headers for the upstream. Those of the client that mirror nothing go with them: whoever is behind
/// us may know them.
pub(crate) fn mirrored(
    visit: &Visit,
    facts: &Facts<'_>,
    offer: Option<&Offer>,
) -> Result<Option<Box<HeaderMap>>, Refusal> {
    let Facts::Tool { name, arguments } = facts else { return Ok(None) };
    let said = match &visit.side {
        Side::Modern(modern) => modern.params.as_ref(),
        Side::Legacy(_) if visit.crossing() == Crossing::ToStateless => None,
        Side::Legacy(_) => return Ok(None),
    };
    let nothing = ParamHeaderMapping::default();
    let tool = visit.tool(offer, name);
    let mirror = tool.and_then(|tool| tool.mirror.as_ref().ok()).unwrap_or(&nothing);
    if let Some(said) = said {
        mirror.check(said, *arguments).map_err(Refusal::Misfit)?;
    }
    Ok(match visit.crossing() {
        // A session has no such headers.
        Crossing::ToSession => None,
        Crossing::None | Crossing::ToStateless => {
            Some(Box::new(mirror.apply_to(said.cloned().unwrap_or_default(), *arguments)))
        }
    })
}
