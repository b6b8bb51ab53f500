//! Methods that the client's era has taken away: unknown, whatever their parameters say.

use gatelodge_mcp::{Id, Method, code, error, shown};
use http::StatusCode;

use crate::Gateway;
use crate::call::Trail;
use crate::http::line::Line;

/// Answers that there is no such method.
pub(crate) async fn refuse(gw: &Gateway, id: Option<&Id<'_>>, method: &Method<'_>, mut trail: Trail, line: Line) {
    let what = format!("unknown method {}", shown(method.name()));
    let text = error(id, code::METHOD_NOT_FOUND, &what, None);
    line.finish_with(StatusCode::NOT_FOUND, text.into()).await;
    gw.metrics.refused("rejected");
    trail.method(method.name());
    gw.write(trail.rejected(code::METHOD_NOT_FOUND, &what)).await;
}
