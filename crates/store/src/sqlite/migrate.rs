//! Bringing a database to the schema of this build: forward only, one transaction a step, numbered by `user_version`.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::{Connection, TransactionBehavior};

use super::OpenStoreError;

/// How long two processes that start at once may be in each other's way.
const MIGRATION_BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Turns on the write-ahead log and takes the steps that are missing. Safe when two processes do it at once.
pub(super) fn migrate(connection: &mut Connection, path: &Path, steps: &[&str]) -> Result<(), OpenStoreError> {
    let open = |source| OpenStoreError::Open { path: path.into(), source };
    use_write_ahead_log(connection).map_err(open)?;
    let since = Instant::now();
    while schema_version(connection, path, steps)? < steps.len() {
        let transaction = match connection.transaction_with_behavior(TransactionBehavior::Immediate) {
            // Others take their steps; each may wait for a slow disk.
            Err(error) if is_busy(&error) && since.elapsed() < MIGRATION_BUSY_TIMEOUT => continue,
            begun => begun.map_err(open)?,
        };
        // Asked again: another process may have taken the step while this one waited for the lock.
        let done = schema_version(&transaction, path, steps)?;
        if let Some(step) = steps.get(done) {
            transaction.execute_batch(step).map_err(open)?;
            transaction.pragma_update(None, "user_version", done + 1).map_err(open)?;
        }
        transaction.commit().map_err(open)?;
    }
    Ok(())
}

/// Holds that the database has the schema of this build, and changes nothing.
pub(super) fn check_version(connection: &Connection, path: &Path, steps: &[&str]) -> Result<(), OpenStoreError> {
    let found = schema_version(connection, path, steps)?;
    if found == steps.len() {
        return Ok(());
    }
    Err(OpenStoreError::TooOld { path: path.into(), found: to_u32(found), known: to_u32(steps.len()) })
}

/// How many steps a database has taken.
pub(super) fn schema_version(connection: &Connection, path: &Path, steps: &[&str]) -> Result<usize, OpenStoreError> {
    let asked = connection.pragma_query_value(None, "user_version", |row| row.get::<_, u32>(0));
    let found = asked.map_err(|source| OpenStoreError::Open { path: path.into(), source })?;
    match usize::try_from(found) {
        Ok(found) if found <= steps.len() => Ok(found),
        _ => Err(OpenStoreError::TooNew { path: path.into(), found, known: to_u32(steps.len()) }),
    }
}

// SQLite does not wait when a second process turns the log on at the same moment; so this does.
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
