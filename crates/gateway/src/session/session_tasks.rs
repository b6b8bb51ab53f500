//! What a session knows of tasks: those of its server, and those that its client has made.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use gatelodge_mcp::RequestId;

use super::lazy_box::LazyBox;
use super::lock;
use crate::pipeline::ProgressRelay;

/// Calls that have made tasks and of whose progress the client hears, and tasks of the client's own; beyond that the
/// oldest is forgotten.
const MAX_TRACKED_TASKS: usize = 256;

/// Our own tokens, and what the client hears under each.
type ProgressByToken = VecDeque<(String, Arc<ProgressRelay>)>;

/// The tasks of one session.
#[derive(Debug, Default)]
pub(crate) struct SessionTasks {
    /// Whether the server has said that it has tasks, or has made one.
    server_has_tasks: AtomicBool,
    /// The client's own tasks: by which method the upstream asked for what they do.
    client_tasks: LazyBox<Mutex<VecDeque<(String, String)>>>,
    /// What the client hears of the progress of calls that have made tasks, by our own tokens.
    progress: LazyBox<Mutex<ProgressByToken>>,
}

impl SessionTasks {
    /// Whether the server is known to have tasks.
    pub fn server_has_tasks(&self) -> bool {
        self.server_has_tasks.load(Ordering::Relaxed)
    }

    pub fn note_server_task(&self) {
        self.server_has_tasks.store(true, Ordering::Relaxed);
    }

    /// Notes what the client hears of the progress of a call that has made a task.
    pub fn note_progress(&self, own: &str, client_progress: Arc<ProgressRelay>) {
        let mut progress = lock(&self.progress);
        progress.push_back((own.to_owned(), client_progress));
        if progress.len() > MAX_TRACKED_TASKS {
            progress.pop_front();
        }
    }

    /// What the client hears of progress under a token of ours.
    pub fn find_progress(&self, own: &RequestId<'_>) -> Option<Arc<ProgressRelay>> {
        let own = own.as_str()?;
        lock(&self.progress).iter().find(|(known, _)| *known == own).map(|(_, told)| Arc::clone(told))
    }

    /// Notes a task that the client has made of what the upstream asked by a method.
    pub fn note_client_task(&self, task: String, method: String) {
        let mut tasks = lock(&self.client_tasks);
        tasks.push_back((task, method));
        if tasks.len() > MAX_TRACKED_TASKS {
            tasks.pop_front();
        }
    }

    /// The method by which the upstream asked for what a task of the client does.
    pub fn find_task_method(&self, task: &str) -> Option<String> {
        lock(&self.client_tasks).iter().rfind(|(own, _)| own == task).map(|(_, method)| method.clone())
    }
}
