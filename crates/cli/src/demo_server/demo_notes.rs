//! The demo server's notes and payments, in memory.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Notes, and the number of payments made.
pub struct DemoNotes {
    state: Mutex<DemoNotesState>,
}

struct DemoNotesState {
    notes: BTreeMap<String, String>,
    payments: u32,
}

impl Default for DemoNotes {
    fn default() -> Self {
        let first = [("plans", "Tea with Ada on Tuesday."), ("shopping", "Tea, ink, a new gate.")];
        let notes = first.map(|(name, text)| (name.to_owned(), text.to_owned())).into();
        Self { state: Mutex::new(DemoNotesState { notes, payments: 0 }) }
    }
}

impl DemoNotes {
    fn lock_state(&self) -> MutexGuard<'_, DemoNotesState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the names of all notes, one per line.
    pub fn list(&self) -> String {
        self.lock_state().notes.keys().cloned().collect::<Vec<_>>().join("\n")
    }

    /// Returns a note.
    pub fn read(&self, name: &str) -> Result<String, String> {
        self.lock_state().notes.get(name).cloned().ok_or_else(|| format!("there is no note `{name}`"))
    }

    /// Returns the notes that contain the query.
    pub fn search(&self, query: &str) -> String {
        let query = query.to_lowercase();
        let state = self.lock_state();
        let found = state.notes.iter().filter(|(_, text)| text.to_lowercase().contains(&query));
        let found: Vec<_> = found.map(|(name, text)| format!("{name}: {text}")).collect();
        if found.is_empty() { "nothing found".to_owned() } else { found.join("\n") }
    }

    /// Writes a note, replacing an existing one.
    pub fn write(&self, name: &str, text: &str) -> String {
        self.lock_state().notes.insert(name.to_owned(), text.to_owned());
        format!("note `{name}` is written")
    }

    /// Deletes a note.
    pub fn delete(&self, name: &str) -> Result<String, String> {
        let removed = self.lock_state().notes.remove(name);
        removed.map(|_| format!("note `{name}` is deleted")).ok_or_else(|| format!("there is no note `{name}`"))
    }

    /// Pretends to make a payment.
    pub fn pay(&self, to: &str, amount: &str) -> String {
        let mut state = self.lock_state();
        state.payments += 1;
        format!("payment {}: {amount} to {to}", state.payments)
    }
}
