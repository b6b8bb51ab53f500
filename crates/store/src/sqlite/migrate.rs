//! Schema migration: forward only, with one transaction per step, numbered by `user_version`.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::{Connection, TransactionBehavior};

use super::to_open_error;
use crate::model::OpenStoreError;

/// How long two processes that start at the same time may block each other.
const MIGRATION_BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Enables the write-ahead log and applies the missing steps. Safe even if two processes do this at the same time.
pub(super) fn migrate(connection: &mut Connection, path: &Path, steps: &[&str]) -> Result<(), OpenStoreError> {
    let open = |source| to_open_error(path, source);
    use_write_ahead_log(connection).map_err(open)?;
    let since = Instant::now();
    while schema_version(connection, path, steps)? < steps.len() {
        let transaction = match connection.transaction_with_behavior(TransactionBehavior::Immediate) {
            // Another process migrates; each of its steps may wait for a slow disk.
            Err(error) if is_busy(&error) && since.elapsed() < MIGRATION_BUSY_TIMEOUT => continue,
            result => result.map_err(open)?,
        };
        // Checked again: another process may have applied the step while this one waited for the lock.
        let done = schema_version(&transaction, path, steps)?;
        if let Some(step) = steps.get(done) {
            transaction.execute_batch(step).map_err(open)?;
            transaction.pragma_update(None, "user_version", done + 1).map_err(open)?;
        }
        transaction.commit().map_err(open)?;
    }
    Ok(())
}

/// Checks that the database has this build's schema, without changing it.
pub(super) fn check_version(connection: &Connection, path: &Path, steps: &[&str]) -> Result<(), OpenStoreError> {
    let found = schema_version(connection, path, steps)?;
    if found == steps.len() {
        return Ok(());
    }
    Err(OpenStoreError::TooOld {
        database: path.display().to_string(),
        found: to_u32(found),
        known: to_u32(steps.len()),
    })
}

/// Returns the number of steps that have been applied to a database.
pub(super) fn schema_version(connection: &Connection, path: &Path, steps: &[&str]) -> Result<usize, OpenStoreError> {
    let version = connection.pragma_query_value(None, "user_version", |row| row.get::<_, u32>(0));
    let found = version.map_err(|source| to_open_error(path, source))?;
    match usize::try_from(found) {
        Ok(found) if found <= steps.len() => Ok(found),
        _ => Err(OpenStoreError::TooNew { database: path.display().to_string(), found, known: to_u32(steps.len()) }),
    }
}

// SQLite does not wait if another process enables the log at the same moment, so retry here.
fn use_write_ahead_log(connection: &Connection) -> rusqlite::Result<()> {
    let since = Instant::now();
    loop {
        let result = connection.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(()));
        match result {
            Err(error) if is_busy(&error) && since.elapsed() < MIGRATION_BUSY_TIMEOUT => {
                thread::sleep(Duration::from_millis(10))
            }
            result => return result,
        }
    }
}

fn is_busy(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode::{DatabaseBusy, DatabaseLocked};
    matches!(error.sqlite_error_code(), Some(DatabaseBusy | DatabaseLocked))
}

fn to_u32(schema: usize) -> u32 {
    schema.try_into().unwrap_or(u32::MAX)
}
