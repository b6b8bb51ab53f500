//! `subscriptions/listen` for an upstream that has a session with us: its own stream, shared by all who listen, and a
//! subscription for each resource.

use std::sync::Arc;

use bytes::Bytes;
use gatelodge_json::{Limits, read};
use gatelodge_mcp::bridge::quoted;
use gatelodge_mcp::{Id, Method, Request, Upstream as Said, read_upstream};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;

use super::{End, Listener, unwanted};
use crate::Gateway;
use crate::call::{Permit, own_answer};
use crate::http::line::Line;
use crate::lists::{Lists, SUBSCRIPTION};
use crate::methods::server::MayHear;
use crate::methods::stream::{LOOK, follow};
use crate::session::{Session, UnderWay};
use crate::upstream::Outgoing;
use crate::visit::Visit;

/// What a listener gets.
#[derive(Debug, Default)]
struct Filter {
    lists: Lists,
    uris: Vec<String>,
}

impl Filter {
    /// Of what is asked for, what the server has and the grant may hear of.
    fn of(request: &Request<'_>, session: &Session, heard: &[MayHear]) -> Self {
        let wanted = request.params().and_then(|params| params.get("notifications"));
        let welcome = read(&session.welcome, &Limits::REPLY).ok();
        let resources = welcome.as_ref().and_then(|welcome| welcome.root().get("capabilities")?.get("resources"));
        let subscribe = resources.and_then(|own| own.get("subscribe"));
        let tells_of_one = subscribe.is_some_and(|subscribe| subscribe.as_bool() == Some(true));
        let uris = heard.iter().map(|heard| heard.uri().to_owned());
        Self {
            lists: Lists::named(wanted).and(Lists::advertised(&session.welcome)),
            uris: uris.filter(|_| tells_of_one).collect(),
        }
    }

    /// As the client is told what it will hear of.
    fn acknowledged(&self, id: &Id<'_>) -> String {
        let mut members = self.lists.flags();
        if !self.uris.is_empty() {
            let uris: Vec<String> = self.uris.iter().map(|uri| quoted(uri)).collect();
            members.push(format!("\"resourceSubscriptions\":[{}]", uris.join(",")));
        }
        format!(
            r#"{{"jsonrpc":"2.0","method":"{}","params":{{"notifications":{{{}}},"_meta":{{"{SUBSCRIPTION}":{id}}}}}}}"#,
            Method::SubscriptionsAcknowledged.name(),
            members.join(",")
        )
    }

    /// A notification as this listener gets it; none if it is not for them.
    fn tagged(&self, message: &Bytes, id: &Id<'_>) -> Option<String> {
        let Ok(Said::Notification(said)) = read_upstream(message, &Limits::REPLY) else { return None };
        let document = said.params().and_then(|params| read(params.as_bytes(), &Limits::REPLY).ok());
        let is_wanted = match said.method() {
            Method::ResourceUpdated => {
                let uri = document.as_ref()?.root().get("uri")?.as_str()?;
                self.uris.iter().any(|own| *own == uri)
            }
            method => self.lists.has(method),
        };
        if !is_wanted {
            return None;
        }
        let members =
            document.iter().flat_map(|document| document.root().members()).filter(|(key, _)| !key.is_str("_meta"));
        let mut members: Vec<String> = members.map(|(key, value)| format!("{}:{}", key.raw(), value.raw())).collect();
        let meta = document.as_ref().and_then(|document| document.root().get("_meta"));
        let meta = meta.iter().flat_map(|meta| meta.members()).filter(|(key, _)| !key.is_str(SUBSCRIPTION));
        let mut meta: Vec<String> = meta.map(|(key, value)| format!("{}:{}", key.raw(), value.raw())).collect();
        meta.push(format!("\"{SUBSCRIPTION}\":{id}"));
        members.push(format!("\"_meta\":{{{}}}", meta.join(",")));
        Some(said.with_params(&format!("{{{}}}", members.join(","))))
    }
}

/// Holds the stream open until either side ends it.
pub(super) async fn listen(
    gw: &Gateway,
    visit: &Visit,
    (request, under_way): (&Request<'_>, Option<&UnderWay>),
    heard: Vec<MayHear>,
    line: &mut Line,
) -> End {
    let Some(session) = visit.far_session() else { return End::Over };
    let filter = Filter::of(request, session, &heard);
    let mut messages = session.hub.listen();
    gw.follow_hub_of(visit, session);
    let mut openings = session.openings();
    let heard: Vec<MayHear> =
        heard.into_iter().filter(|heard| filter.uris.iter().any(|uri| uri == heard.uri())).collect();
    heard.iter().for_each(|heard| session.hub.watch(heard.uri()));
    settle(gw, visit, session, &heard).await;
    line.send(&filter.acknowledged(request.id())).await;
    let period = gw.settings.keep_alive;
    let mut keep_alive = tokio::time::interval_at(tokio::time::Instant::now() + period, period);
    let mut look = tokio::time::interval(LOOK);
    let mut listener = Listener::new(visit, Some(filter.lists));
    let end = loop {
        tokio::select! {
            message = messages.recv() => match message {
                Ok(message) => {
                    if let Some(text) = filter.tagged(&message, request.id()) {
                        line.send(&text).await;
                    }
                }
                // It reads too slowly; what it missed, the next list tells.
                Err(RecvError::Lagged(_)) => gw.metrics.dropped(),
                Err(RecvError::Closed) => break End::Over,
            },
            _ = keep_alive.tick() => line.keep_alive().await,
            _ = look.tick() => {
                if !listener.look(gw, request, line).await {
                    break End::Over;
                }
                gw.follow_hub_of(&listener.visit, session);
                // A server that had forgotten the session has forgotten what was to be heard of, too.
                if std::mem::replace(&mut openings, session.openings()) != openings {
                    settle(gw, &listener.visit, session, &heard).await;
                }
            }
            () = unwanted(line, under_way) => break End::Unwanted,
            () = gw.stopping() => break End::Over,
        }
    };
    heard.iter().for_each(|heard| session.hub.unwatch(heard.uri()));
    settle(gw, visit, session, &heard).await;
    end
}

/// Asks the upstream to tell of just those resources that somebody listens for.
async fn settle(gw: &Gateway, visit: &Visit, session: &Session, heard: &[MayHear]) {
    for heard in heard {
        let asked = session.hub.asked(heard.uri());
        let mut asked = asked.lock().await;
        let is_wanted = session.hub.is_watched(heard.uri());
        match asked.settle(is_wanted, session.openings()) {
            Some(true) => ask(gw, visit, &Method::ResourcesSubscribe, heard).await,
            Some(false) => ask(gw, visit, &Method::ResourcesUnsubscribe, heard).await,
            None => {}
        }
    }
}

/// Subscribes at the upstream, or ends that. One that will not have it never tells.
async fn ask(gw: &Gateway, visit: &Visit, method: &Method<'_>, heard: &MayHear) {
    let (call, uri) = (gw.new_call(), quoted(heard.uri()));
    let name = method.name();
    let text = format!(r#"{{"jsonrpc":"2.0","id":"{call}","method":"{name}","params":{{"uri":{uri}}}}}"#);
    let permit = Permit::of_heard(heard, visit.addressed(Outgoing::request(text, call)));
    let asking = async {
        if let Ok(mut exchange) = gw.client.send(&visit.upstream, permit).await {
            let _ = own_answer(gw, &mut exchange, call).await;
        }
    };
    let _ = tokio::time::timeout(gw.settings.connect_time * 2, asking).await;
}

impl Gateway {
    /// Has somebody follow the upstream's stream of a session, if nobody does.
    fn follow_hub_of(&self, visit: &Visit, session: &Arc<Session>) {
        if let Some(goes_on) = session.hub.begin_following() {
            self.follow_hub(visit.through(Arc::clone(session)), goes_on);
        }
    }

    /// Follows the upstream's stream of a session for all who listen, until none does: from where it was left, if it goes
    /// on with what somebody else left. What is said while nobody listens is nobody's.
    fn follow_hub(&self, visit: Visit, goes_on: bool) {
        let Some(gw) = self.own() else { return };
        let task = Arc::clone(&gw);
        gw.spawn(async move {
            let Some(session) = visit.far_session().cloned() else { return };
            let (events, mut heard) = mpsc::channel::<Bytes>(1);
            let last = session.heard().filter(|_| goes_on);
            let following = follow(&task, &visit, last, &events, |text| Bytes::copy_from_slice(text.as_bytes()));
            let telling = async {
                while let Some(message) = heard.recv().await {
                    session.hub.tell(message);
                }
            };
            let ending = async {
                while !session.hub.end_following() {
                    if !task.still_holds(&visit) {
                        return true;
                    }
                    tokio::time::sleep(LOOK).await;
                }
                false
            };
            let is_left = tokio::select! {
                () = following => true,
                () = telling => true,
                is_left = ending => is_left,
                () = task.stopping() => true,
            };
            while let Ok(message) = heard.try_recv() {
                session.hub.tell(message);
            }
            if is_left {
                // Whoever listens by what is in force now, follows it next.
                session.hub.leave();
            }
        });
    }
}
