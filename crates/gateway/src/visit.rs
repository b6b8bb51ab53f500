//! One request at the gate: who asks, for which server, by which policy, and how they speak.

use std::sync::Arc;

use bytes::Bytes;

use crate::config_snapshot::{ActiveGrant, ServerAccess};
use crate::digest::Begun;
use crate::methods::pool::Turn;
use crate::session::{ClientInfo, Session};
use crate::trace::{Hop, Trace};
use crate::upstream::{ModernHead, Offer, OfferedTool, Offers, Outgoing, Upstream};
use gatelodge_mcp::http_headers::ProtocolError;
use gatelodge_mcp::translate::to_stateful;
use gatelodge_mcp::{ClientCapabilities, ProtocolGeneration, Revision};
use http::HeaderMap;

/// Where a client is that came over standard streams.
pub(crate) const STDIO: &str = "stdio";

/// A request whose grant is known.
#[derive(Debug, Clone)]
pub(crate) struct Visit {
    pub grant: Arc<ActiveGrant>,
    pub door: ServerAccess,
    pub upstream: Arc<Upstream>,
    /// How often something else had been accepted of the upstream's tools when the request came.
    pub acceptances: u64,
    pub address: Arc<str>,
    pub side: Side,
    /// Which trace the request belongs to, if any.
    pub trace: Option<Box<Trace>>,
    /// The message as it came, so that what of it is sent on need not be copied; empty where nobody kept it.
    pub body: Bytes,
    /// The hash of its arguments, if it was begun when they came.
    pub begun: Option<Arc<Begun>>,
}

/// How the client speaks. The upstream's side is a matter of its own.
#[derive(Debug, Clone)]
pub(crate) enum Side {
    /// With a handshake. The session is none before it.
    Legacy(Option<Arc<Session>>),
    /// Each request stands alone.
    // In a box: what it says of its client is long, and a request is handed on often.
    Modern(Box<Modern>),
}

/// What a stateless request says of its client.
#[derive(Debug, Clone)]
pub(crate) struct Modern {
    pub revision: Revision,
    pub client: ClientInfo,
    /// What it can be asked.
    pub declared: ClientCapabilities,
    /// Whether it wants to hear log messages.
    pub wants_log: bool,
    /// The `Mcp-Param-*` headers of a call; none where there is no head.
    pub params: Option<HeaderMap>,
    /// A session of ours, where the upstream wants one.
    pub far: Option<Arc<Session>>,
    /// Kept while a call has that session to itself.
    pub turn: Option<Arc<Turn>>,
}

/// Whether the upstream is spoken to in the era of the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Crossing {
    /// It is.
    None,
    /// The client's requests stand alone; the upstream has a session with us.
    ToSession,
    /// The client has a session with us; the upstream takes requests that stand alone.
    ToStateless,
}

impl Side {
    pub fn era(&self) -> ProtocolGeneration {
        match self {
            Self::Legacy(_) => ProtocolGeneration::Stateful,
            Self::Modern(_) => ProtocolGeneration::Stateless,
        }
    }

    /// The session that the client has.
    pub fn session(&self) -> Option<&Arc<Session>> {
        match self {
            Self::Legacy(session) => session.as_ref(),
            Self::Modern(_) => None,
        }
    }

    pub fn revision(&self) -> Option<Revision> {
        match self {
            Self::Legacy(session) => session.as_ref().map(|session| session.revision()),
            Self::Modern(modern) => Some(modern.revision),
        }
    }

    pub fn client(&self) -> Option<&ClientInfo> {
        match self {
            Self::Legacy(session) => session.as_ref().map(|session| session.client()),
            Self::Modern(modern) => Some(&modern.client),
        }
    }

    /// The client's name and version for the log.
    pub fn client_words(&self) -> Option<Arc<str>> {
        self.client()?.words.clone()
    }
}

impl Visit {
    /// The same by a session.
    pub fn in_session(&self, session: Arc<Session>) -> Self {
        Self { side: Side::Legacy(Some(session)), ..self.clone() }
    }

    pub fn era(&self) -> ProtocolGeneration {
        self.side.era()
    }

    pub fn session(&self) -> Option<&Arc<Session>> {
        self.side.session()
    }

    pub fn crossing(&self) -> Crossing {
        match &self.side {
            Side::Legacy(Some(session)) if session.is_far_stateless() => Crossing::ToStateless,
            Side::Modern(modern) if modern.far.is_some() => Crossing::ToSession,
            Side::Legacy(_) | Side::Modern(_) => Crossing::None,
        }
    }

    /// The session that the upstream has with us.
    pub fn far_session(&self) -> Option<&Arc<Session>> {
        match &self.side {
            Side::Legacy(session) => session.as_ref().filter(|session| !session.is_far_stateless()),
            Side::Modern(modern) => modern.far.as_ref(),
        }
    }

    /// Kept while a call has the upstream's session to itself.
    pub fn turn(&self) -> Option<&Arc<Turn>> {
        match &self.side {
            Side::Legacy(_) => None,
            Side::Modern(modern) => modern.turn.as_ref(),
        }
    }

    pub fn revision(&self) -> Option<Revision> {
        self.side.revision()
    }

    pub fn client(&self) -> Option<&ClientInfo> {
        self.side.client()
    }

    /// What the server offers to this caller: its own process if it has one.
    pub fn offers(&self) -> Arc<Offers> {
        match self.far_session().and_then(|session| session.child()) {
            Some(child) => Arc::clone(child.offers()),
            None => Arc::clone(&self.upstream.offers),
        }
    }

    /// What of that is known.
    pub fn current_offer(&self) -> Option<Arc<Offer>> {
        match self.far_session().and_then(|session| session.child()) {
            Some(child) => child.offers().current(),
            None => self.upstream.offers.current(),
        }
    }

    /// Whether the server is a process, or speaks on one connection, and has a call there that it has not answered.
    pub fn is_busy(&self) -> bool {
        match self.far_session() {
            Some(session) => session.link().is_awaited(),
            None => self.upstream.is_awaited(),
        }
    }

    /// A tool of an offer. One whose arguments cannot be mirrored as its server wants it is none for whoever has to.
    pub fn tool<'o>(&self, offer: Option<&'o Offer>, name: &str) -> Option<&'o OfferedTool> {
        let is_stateless = self.era() == ProtocolGeneration::Stateless || self.crossing() == Crossing::ToStateless;
        let has_to_mirror = is_stateless && !self.upstream.is_child();
        offer?.tool(name).filter(|tool| !has_to_mirror || tool.mirror.is_ok())
    }

    /// The revisions that a caller of an era may speak: those that are spoken there, without what the grant finds too old.
    pub fn spoken(&self, era: ProtocolGeneration) -> Vec<Revision> {
        self.grant.allowed_revisions(&self.upstream.spoken(era))
    }

    /// Holds that the grant lets its bearer speak in a revision.
    ///
    /// # Errors
    /// It wants a newer one.
    pub fn may_speak(&self, revision: Revision) -> Result<(), ProtocolError> {
        self.grant.check_revision(revision, || self.spoken(revision.generation()))
    }

    /// Addresses a message as the upstream is spoken to.
    pub fn addressed(&self, mut outgoing: Outgoing) -> Outgoing {
        self.address(&mut outgoing);
        outgoing
    }

    fn address(&self, outgoing: &mut Outgoing) {
        if let Some(session) = self.far_session() {
            outgoing.link = session.link();
            outgoing.revision = session.spoken_in_head();
        }
    }

    /// The same for a request, whose method and subject a stateless upstream wants in the head.
    pub fn addressed_about(&self, mut outgoing: Outgoing, method: &str, about: Option<&str>) -> Outgoing {
        self.address(&mut outgoing);
        let revision = match &self.side {
            Side::Modern(modern) if modern.far.is_none() => Some(modern.revision),
            Side::Legacy(Some(session)) if session.is_far_stateless() => Some(Revision::R2026_07_28),
            Side::Modern(_) | Side::Legacy(_) => None,
        };
        if revision.is_some() {
            outgoing.revision = revision;
            outgoing.modern = Some(ModernHead { method: method.to_owned(), name: about.map(str::to_owned) });
        }
        self.cross(&mut outgoing);
        outgoing
    }

    /// Writes a request as the era of the upstream does. Its text was read before, so it can be read.
    fn cross(&self, outgoing: &mut Outgoing) {
        let text = || String::from_utf8(outgoing.body.clone().whole().into()).ok();
        let crossed = match self.crossing() {
            Crossing::None => None,
            Crossing::ToSession => text().and_then(|text| to_stateful(&text)),
            Crossing::ToStateless => {
                text().zip(self.session()).and_then(|(text, session)| session.stateless(&text, None))
            }
        };
        if let Some(crossed) = crossed {
            outgoing.body = crossed.into();
        }
    }

    /// A span of ours for one request to the upstream, if the caller's trace goes on, or one begins here.
    pub fn hop(&self, method: &str, about: Option<&str>) -> Option<Hop> {
        self.trace.as_ref()?.hop(method, about)
    }

    /// Whether the client came over HTTP, and not over standard streams.
    pub fn is_over_http(&self) -> bool {
        &*self.address != STDIO
    }
}
