//! `read`: reads a single package. `gatelodge precheck --read` calls this command and parses its output.

use std::sync::Arc;

use anyhow::Result;
use gatelodge_catalogue::{PackageFacts, PackageReference};
use serde::Serialize;

use super::crawl_registry::package_read_scheduler::PackageReadScheduler;
use super::crawl_registry::package_reader::{self, CrawlLogLine, CrawledPackage, PackageOutcome, RegistryContext};
use super::crawl_registry::package_selection::{self, PackageSelectionEntry};
use super::crawl_registry::registry_client::RegistryClient;
use super::crawl_registry::{block_on, registry_url};
use crate::cli::ReadPackageArgs;
use crate::console_output;
use crate::exit::{IndexerExitCode, IndexerUsageError, RegistryUnreachableError};

/// The JSON that is printed. `gatelodge` uses `outcome`, `why` and `facts`.
#[derive(Debug, Serialize)]
struct ReadPackageOutput {
    #[serde(flatten)]
    log_line: CrawlLogLine,
    #[serde(skip_serializing_if = "Option::is_none")]
    facts: Option<PackageFacts>,
}

pub fn run(args: &ReadPackageArgs) -> Result<IndexerExitCode> {
    block_on(read_package(args))
}

async fn read_package(args: &ReadPackageArgs) -> Result<IndexerExitCode> {
    // The argument is not repeated: it may be a URL with a secret in it.
    let refused = |why: &str| IndexerUsageError(format!("{why}; use `npm:name@1.0.0` or `pypi:name==1.0`"));
    let named = PackageReference::read(&args.package).ok_or_else(|| refused("this is not a package name"))?;
    let source = named.source.ok_or_else(|| refused("the name does not say which registry has the package"))?;
    if named.is_range {
        return Err(refused("several versions match the name").into());
    }
    let address = registry_url::registry_url(source, args.index.as_deref())?;
    let context = RegistryContext {
        source,
        client: Arc::new(RegistryClient::new(&address, 1)?),
        address,
        cache: None,
        scheduler: PackageReadScheduler::new(1)?,
        page_lock: tokio::sync::Mutex::default(),
        // Files in this folder are unlinked before anything is written to them.
        output_folder: std::env::temp_dir(),
    };
    let request =
        PackageSelectionEntry { name: package_selection::canonical_name(source, &named.name), version: named.version };
    let CrawledPackage { log_line, facts, .. } = package_reader::read_package(&Arc::new(context), &request).await;
    if log_line.outcome == PackageOutcome::Unanswered {
        let why = log_line.reason.unwrap_or_default();
        return Err(RegistryUnreachableError(format!("the package index does not answer: {why}")).into());
    }
    console_output::json(&ReadPackageOutput { log_line, facts })?;
    Ok(IndexerExitCode::Fine)
}
