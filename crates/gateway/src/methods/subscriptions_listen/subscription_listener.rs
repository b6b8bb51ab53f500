//! One listener under the active configuration, which may change while its stream is open.

use std::sync::Arc;

use gatelodge_mcp::ClientRequest;

use super::checked_resources::{check_resources, resource_uris};
use crate::methods::task_requests::find_hidden_task;
use crate::request_context::{RequestContext, StreamRevalidation};
use crate::responder::Responder;
use crate::services::GatewayServices;
use crate::session::list_changed::{ListChangedSet, list_changed_notification_for};

/// State of one listener: its configuration, and what it is notified of.
pub(super) struct SubscriptionListener {
    pub ctx: RequestContext,
    /// Requested resources that the grant may watch.
    uris: Vec<String>,
    /// `None` until the acknowledgement is sent.
    pub advertised_lists: Option<ListChangedSet>,
    /// Whether lists have changed and the client has not been notified yet.
    has_pending_list_change: bool,
}

impl SubscriptionListener {
    pub fn new(ctx: &RequestContext, uris: Vec<String>, advertised_lists: Option<ListChangedSet>) -> Self {
        Self { ctx: ctx.clone(), uris, advertised_lists, has_pending_list_change: false }
    }

    /// Adopts a changed configuration and notifies the client. Returns `false` if the stream must end, because the
    /// client has lost access or has to subscribe again. The client has to subscribe again to get a new acknowledgement
    /// if the server has been replaced or the policy now allows a different set of the requested resources.
    pub async fn revalidate(
        &mut self,
        gw: &GatewayServices,
        request: &ClientRequest<'_>,
        responder: &mut Responder,
    ) -> bool {
        let next = match gw.config.revalidate(&self.ctx) {
            StreamRevalidation::Unchanged => return true,
            StreamRevalidation::Revoked => return false,
            // The aggregate stream notifies once for all servers.
            StreamRevalidation::Replaced(_) if responder.is_aggregate() => return false,
            StreamRevalidation::Replaced(next) => *next,
        };
        self.has_pending_list_change = true;
        self.notify_list_changes(request, responder).await;
        let before = std::mem::replace(&mut self.ctx, next);
        Arc::ptr_eq(&before.upstream, &self.ctx.upstream)
            && resource_uris(&check_resources(gw, &self.ctx, request).allowed) == self.uris
            && self.can_see_tasks(gw, request, responder).await
    }

    /// Returns whether the client may still watch all tasks that it named. The tool listing may have to be fetched
    /// again for that; without it, the tasks count as hidden.
    async fn can_see_tasks(
        &self,
        gw: &GatewayServices,
        request: &ClientRequest<'_>,
        responder: &mut Responder,
    ) -> bool {
        !self.ctx.can_use_tasks() || matches!(find_hidden_task(gw, &self.ctx, request, responder).await, Ok(None))
    }

    /// Sends pending `list_changed` notifications.
    pub async fn notify_list_changes(&mut self, request: &ClientRequest<'_>, responder: &mut Responder) {
        let Some(advertised) = self.advertised_lists.filter(|_| std::mem::take(&mut self.has_pending_list_change))
        else {
            return;
        };
        for method in advertised.methods() {
            responder.send(&list_changed_notification_for(&method, request.id())).await;
        }
    }
}
