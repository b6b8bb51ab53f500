//! What a server offers, fetched through the caller's own session when nobody has asked yet.

use std::sync::Arc;
use std::time::Duration;

use gatelodge_json::Limits;
use gatelodge_mcp::{Era, Id, Method, Upstream as Said, code, read_upstream};

use super::list::{Pages, Wanted, fetch};
use crate::Gateway;
use crate::http::line::Line;
use crate::upstream::{Offer, SendError};
use crate::visit::Visit;

/// A name that is not in the offer is asked for again only when the offer is older than this.
const SETTLED: Duration = Duration::from_secs(1);
/// An offer is taken anew after this long: not every server tells when it changes.
const FRESH: Duration = Duration::from_secs(60);

/// How long it may take to ask.
const PATIENCE: Duration = Duration::from_secs(30);

/// The tools that the server offers now, as far as `name` is concerned.
pub(crate) async fn offer_for(
    gw: &Gateway,
    visit: &Visit,
    name: &str,
    line: &mut Line,
) -> Result<Arc<Offer>, SendError> {
    if let Some(offer) = settled(visit, name) {
        return Ok(offer);
    }
    let asking = async {
        let _one_at_a_time = visit.upstream.offers.asking.lock().await;
        match settled(visit, name) {
            Some(offer) => Ok(offer),
            None => take_anew(gw, visit, line).await,
        }
    };
    tokio::time::timeout(PATIENCE, asking).await.unwrap_or(Err(SendError::Timeout))
}

/// The offer that we have, if it is new enough to say something of a name.
fn settled(visit: &Visit, name: &str) -> Option<Arc<Offer>> {
    let offer = visit.upstream.offers.current()?;
    let age = offer.taken_at.elapsed();
    let is_good = if offer.tool(name).is_some() { age < FRESH } else { age < SETTLED };
    is_good.then_some(offer)
}

async fn take_anew(gw: &Gateway, visit: &Visit, line: &mut Line) -> Result<Arc<Offer>, SendError> {
    let offers = &visit.upstream.offers;
    let changes = offers.changes();
    let wanted = Wanted { method: &Method::ToolsList, member: "tools", progress: None };
    let pages = fetch(gw, visit, &wanted, line, |id, cursor| own_request(visit, id, cursor)).await?;
    let offer = match pages {
        Pages::Whole(pages) => Offer::of_pages(&pages, "tools", &gw.settings.reply),
        // A server without tools says that it does not know the method. Any other error says nothing of its tools,
        // and what is kept here is for all grants.
        Pages::Error(message) if says_unknown_method(&message) => Offer::of_pages(&[], "tools", &gw.settings.reply),
        Pages::Error(_) => return Err(SendError::Unusable("the server does not list its tools".to_owned())),
    };
    let offer = Arc::new(offer);
    offers.keep(Arc::clone(&offer), changes);
    Ok(offer)
}

fn says_unknown_method(message: &[u8]) -> bool {
    let Ok(Said::Reply(reply)) = read_upstream(message, &Limits::REPLY) else { return false };
    reply.error().is_some_and(|error| error.code == code::METHOD_NOT_FOUND.to_string())
}

fn own_request(visit: &Visit, id: &Id<'_>, cursor: Option<&str>) -> String {
    let cursor = cursor.map(|cursor| format!("\"cursor\":{cursor}"));
    let meta = match visit.era() {
        Era::Legacy => None,
        Era::Modern => Some(format!("\"_meta\":{}", super::discover::OWN_META)),
    };
    let params: Vec<String> = cursor.into_iter().chain(meta).collect();
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/list","params":{{{}}}}}"#, params.join(","))
}

impl Offer {
    /// Takes the definitions of all pages.
    pub(crate) fn of_pages(pages: &[bytes::Bytes], member: &str, limits: &Limits) -> Self {
        let documents: Vec<_> = pages.iter().filter_map(|page| gatelodge_json::read(page, limits).ok()).collect();
        let lists = documents.iter().filter_map(|document| document.root().get(member));
        Self::of_list(lists.flat_map(|list| list.elements()))
    }
}
