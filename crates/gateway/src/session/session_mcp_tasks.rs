//! A session's task state: tasks that the server runs, and tasks that the client runs for the server.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use gatelodge_mcp::{ProtocolGeneration, RequestId, find_created_task};

use super::lazy_box::LazyBox;
use super::{ProgressRelay, lock};

/// Maximum number of tracked calls with progress, and of tracked client tasks. Beyond that, the oldest is dropped.
const MAX_TRACKED_TASKS: usize = 256;

/// Progress relays by the gateway's progress token.
type ProgressByToken = VecDeque<(String, Arc<ProgressRelay>)>;

/// The tasks of one session.
#[derive(Debug, Default)]
pub(crate) struct SessionTaskTracking {
    /// Whether the server has declared the tasks capability or created a task.
    server_has_tasks: AtomicBool,
    /// Tasks that the client runs: each task's id, and the method with which the upstream requested it.
    client_tasks: LazyBox<Mutex<VecDeque<(String, String)>>>,
    /// Progress relays of calls that created tasks.
    progress: LazyBox<Mutex<ProgressByToken>>,
}

impl SessionTaskTracking {
    /// Returns whether the server is known to have tasks.
    pub fn server_has_tasks(&self) -> bool {
        self.server_has_tasks.load(Ordering::Relaxed)
    }

    pub fn note_server_task(&self) {
        self.server_has_tasks.store(true, Ordering::Relaxed);
    }

    /// Tracks the progress relay of a call that created a task.
    pub fn note_progress(&self, own: &str, client_progress: Arc<ProgressRelay>) {
        let mut progress = lock(&self.progress);
        progress.push_back((own.to_owned(), client_progress));
        if progress.len() > MAX_TRACKED_TASKS {
            progress.pop_front();
        }
    }

    /// Finds the progress relay for one of the gateway's progress tokens.
    pub fn find_progress(&self, own: &RequestId<'_>) -> Option<Arc<ProgressRelay>> {
        let own = own.as_str()?;
        lock(&self.progress).iter().find(|(known, _)| *known == own).map(|(_, relay)| Arc::clone(relay))
    }

    /// Tracks the task that the client created for an upstream request, if its result is one. Only the stateful protocol
    /// has such tasks.
    pub fn note_client_result(&self, result: &str, method: String) {
        let Ok(Some(task)) = find_created_task(result, ProtocolGeneration::Stateful) else { return };
        let mut tasks = lock(&self.client_tasks);
        tasks.push_back((task.id, method));
        if tasks.len() > MAX_TRACKED_TASKS {
            tasks.pop_front();
        }
    }

    /// Finds the method with which the upstream requested a client task.
    pub fn find_task_method(&self, task: &str) -> Option<String> {
        lock(&self.client_tasks).iter().rfind(|(own, _)| own == task).map(|(_, method)| method.clone())
    }
}
