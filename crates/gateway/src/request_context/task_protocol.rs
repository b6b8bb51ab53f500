//! Tasks, which both protocol generations have in different forms. They are not translated.

use gatelodge_json::JsonError;
use gatelodge_mcp::http_headers::ProtocolError;
use gatelodge_mcp::{
    ClientRequest, CreatedTask, Method, ProtocolGeneration, Revision, TASKS_CAPABILITY_JSON, code, find_created_task,
};
use gatelodge_mutants::mutant;

use super::{ClientProtocol, RequestContext};
use crate::refusal::Refusal;
use crate::upstream::UpstreamSendError;

/// Error message for a server that returns a task although the gateway declared no support for tasks.
const TASK_NOT_TRANSLATED_MESSAGE: &str =
    "the server returned a task; tasks are not translated between the stateful and the stateless protocol";

/// A task in a response that the client does not accept.
#[derive(Debug)]
pub(crate) struct UnacceptedTask {
    pub id: String,
    /// Whether the server has this kind of task, so that the task can be cancelled there.
    pub can_cancel: bool,
}

impl RequestContext {
    /// Checks that client and server have the same kind of tasks.
    ///
    /// # Errors
    /// Messages are translated, so the server has no task that the client could name.
    pub fn check_tasks_usable(&self) -> Result<(), Refusal> {
        if !self.is_translated() {
            return Ok(());
        }
        let what =
            "tasks are not translated between the stateful and the stateless protocol; the server has no such task";
        let status = self.client_protocol.unknown_method_status();
        Err(Refusal::Protocol(ProtocolError::new(status, code::METHOD_NOT_FOUND, what)))
    }

    /// Returns whether both the client's revision and the server support a task method.
    pub fn has_task_method(&self, method: &Method<'_>) -> bool {
        match (&self.client_protocol, method) {
            (ClientProtocol::Stateless(_), Method::TasksGet | Method::TasksUpdate | Method::TasksCancel) => {
                self.upstream.has_tasks()
            }
            (
                ClientProtocol::Stateful(Some(session)),
                Method::TasksGet | Method::TasksResult | Method::TasksList | Method::TasksCancel,
            ) => session.may_have_tasks(),
            _ => false,
        }
    }

    /// Returns whether the client has to declare the extension for tasks and has not.
    pub fn lacks_task_extension(&self) -> bool {
        match &self.client_protocol {
            ClientProtocol::Stateful(_) => false,
            ClientProtocol::Stateless(stateless) => !stateless.client_capabilities.has_tasks(),
        }
    }

    /// Returns the task that a result created, if the client can use it.
    pub fn created_task(&self, result: &str) -> Option<CreatedTask> {
        // `find_unaccepted_task` has refused a result that cannot be read.
        find_created_task(result, self.generation()).ok().flatten()
    }

    /// Returns the task that the result of a request created if the client does not accept it. Results of other
    /// methods, and of sessions with a revision that has no tasks, may use the same member names with other meanings.
    ///
    /// # Errors
    /// The result cannot be read, so a client might find a task in it.
    pub fn find_unaccepted_task(
        &self,
        request: &ClientRequest<'_>,
        result: &str,
    ) -> Result<Option<UnacceptedTask>, JsonError> {
        if *request.method() != Method::ToolsCall && !mutant!("any-result-creates-task") {
            return Ok(None);
        }
        let session = self.upstream_session();
        let is_before = session.is_some_and(|session| session.revision() < Revision::R2025_11_25);
        for generation in [ProtocolGeneration::Stateful, ProtocolGeneration::Stateless] {
            if generation == ProtocolGeneration::Stateful && is_before {
                continue;
            }
            if let Some(task) = find_created_task(result, generation)? {
                let can_cancel = (generation == ProtocolGeneration::Stateful) == session.is_some();
                let is_accepted = self.accepts_task(request, generation);
                return Ok((!is_accepted).then_some(UnacceptedTask { id: task.id, can_cancel }));
            }
        }
        Ok(None)
    }

    /// Returns the error for a task that the client does not accept.
    pub fn unaccepted_task_error(&self) -> UpstreamSendError {
        if self.is_translated() && !mutant!("untranslatable-task-unexplained") {
            return UpstreamSendError::InvalidResponse(TASK_NOT_TRANSLATED_MESSAGE.to_owned());
        }
        UpstreamSendError::MissingCapability {
            action: "returned a task to a client that has not declared tasks",
            required_capability: TASKS_CAPABILITY_JSON,
        }
    }

    /// Returns whether the client accepts a task of this protocol generation. A stateful client asks for a task in the
    /// call.
    fn accepts_task(&self, request: &ClientRequest<'_>, generation: ProtocolGeneration) -> bool {
        let has_asked = match generation {
            ProtocolGeneration::Stateful => request.params().and_then(|params| params.get("task")).is_some(),
            ProtocolGeneration::Stateless => self.client_capabilities().has_tasks(),
        };
        (has_asked || mutant!("undeclared-task-forwarded")) && generation == self.generation() && !self.is_translated()
    }
}
