//! The call log in `ledger.db`.

use async_trait::async_trait;
use jiff::Timestamp;

use super::writer_request::WriterRequest;
use super::{CALL_LOG_TABLE, SqliteLedger, ledger_reads, prune};
use crate::audit_chain::{ChainHead, ChainReport, ChainedRow};
use crate::model::{CallLogFilter, CallLogRow, StoreError};
use crate::sqlite::{chain_head_file, log_table_reader};
use crate::traits::CallLog;

#[async_trait]
impl CallLog for SqliteLedger {
    async fn rows(&self, filter: CallLogFilter) -> Result<Vec<CallLogRow>, StoreError> {
        self.read(move |_, db| ledger_reads::filter_rows(db, &filter)).await
    }

    async fn page_after(&self, after: u64) -> Result<Vec<ChainedRow>, StoreError> {
        self.read(move |_, db| log_table_reader::page_after(db, CALL_LOG_TABLE, after)).await
    }

    async fn head(&self) -> Result<ChainHead, StoreError> {
        self.read(|_, db| Ok(chain_head_file::chain_head(db, CALL_LOG_TABLE)?)).await
    }

    async fn verify(&self, known: Vec<ChainHead>) -> Result<ChainReport, StoreError> {
        self.read(|file, db| ledger_reads::verify_chain(file, db, known)).await
    }

    async fn prune(&self, before: Timestamp) -> Result<u64, StoreError> {
        let last = self.read(move |_, db| Ok(prune::last_row_before(db, before)?)).await?;
        let removed = self.request(|answer| WriterRequest::Prune { through: last, answer }).await?;
        // They are already invisible to readers; the rows themselves are deleted in steps, so that no call waits long.
        while self.request(WriterRequest::Sweep).await? {}
        Ok(removed)
    }
}
