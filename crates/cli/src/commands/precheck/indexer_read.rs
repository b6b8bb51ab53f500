//! Fetches and reads a published package by running `gatelodge-indexer read`.
//!
//! The parsers for untrusted source code are part of `gatelodge-indexer`, not of this program.

use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use gatelodge_catalogue::{
    ConnectionAdvice, PackageFacts, PackageIndex, PackageReference, PackageRegistry, PrecheckVerdict,
    ServerCatalogueEntry, VersionComparison, precheck,
};
use gatelodge_server::process_environment;
use serde::Deserialize;
use tokio::io::AsyncReadExt;
use tokio::process::{Child, Command};

use super::package_facts_source::PackagePrecheck;
use crate::commands::catalogue::{INDEXER, INSTALL_INDEXER, index_access};
use crate::diagnostic_report::escape_for_terminal;
use crate::exit_code::{CommandExitCode, ExitError, UnreachableError, UsageError};
use crate::store_command_context;

/// Maximum size of the indexer's JSON output for one package, which is enough for 4,000 tools with 256 parameters each.
const MAX_OUTPUT_BYTES: u64 = 64 << 20;
/// Time limit for reading one package. If the registry refuses connections, the indexer gives up by itself after two
/// minutes and prints a more precise message.
const READ_TIMEOUT: Duration = Duration::from_secs(300);

/// The members of the `gatelodge-indexer read` output that `precheck` uses.
#[derive(Debug, Deserialize)]
struct IndexerOutput {
    outcome: String,
    #[serde(default, rename = "why")]
    reason: Option<String>,
    #[serde(default)]
    facts: Option<PackageFacts>,
}

/// Fetches a package and rates it. Uses the newest version unless `named` has an exact version.
pub fn check_package(index: &PackageIndex, named: &PackageReference) -> Result<PackagePrecheck> {
    let source = named.source.ok_or_else(|| {
        let name = escape_for_terminal(&named.name);
        UsageError(format!("`--read` needs the registry of `{name}`: write `npm:{name}` or `pypi:{name}`"))
    })?;
    let program = process_environment::find_program(INDEXER).ok_or_else(|| {
        UsageError(format!(
            "`--read` needs the program `{INDEXER}`, which is neither in the folder of `gatelodge` nor on `PATH`; {INSTALL_INDEXER}"
        ))
    })?;
    let package = package_argument(source, &named.name, named.exact_version(source));
    let output = store_command_context::block_on(run_indexer(&program, &package, READ_TIMEOUT))?;
    let name = format!("{}:{}", source.as_str(), escape_for_terminal(&named.name));
    let Some(facts) = output.facts else {
        let advice = advise_unread(index, named, &output.outcome, output.reason.as_deref());
        return Ok(PackagePrecheck::unknown(name, advice));
    };
    let known = ServerCatalogueEntry::from_facts(&facts.package, facts.tools);
    let advice = advise_read(named, source, &facts.version, &known);
    Ok(PackagePrecheck::known(name, &facts.version, &known, advice))
}

/// Rates a package that the indexer has read.
fn advise_read(
    named: &PackageReference,
    source: PackageRegistry,
    version: &str,
    known: &ServerCatalogueEntry,
) -> ConnectionAdvice {
    let mut advice = precheck(&known.tools);
    if named.compare_version(source, version) != VersionComparison::Same {
        let why = format!("version {} was read; another one may start", escape_for_terminal(version));
        advice = advice.at_least(PrecheckVerdict::ConnectWithRule, why);
    }
    let version = named.version.clone().or_else(|| Some(version.to_owned()));
    advice.with_incidents(&PackageReference { version, ..named.clone() }.incidents(None))
}

/// Rates a package that the indexer could not read, or in which it found no tools.
fn advise_unread(
    index: &PackageIndex,
    named: &PackageReference,
    outcome: &str,
    detail: Option<&str>,
) -> ConnectionAdvice {
    let detail = detail.map(|detail| format!(" ({})", escape_for_terminal(detail))).unwrap_or_default();
    let reason = format!("{}{detail}, so its tools are not known", outcome_reason(outcome));
    let mut advice = index_access::advise_unknown(index, named);
    // The first reason is that the package is not in the index, which was not searched for it.
    match advice.reasons.first_mut() {
        Some(first) => *first = reason,
        None => advice.reasons.push(reason),
    }
    advice
}

/// Converts an outcome code from the indexer to a message that explains why nothing is known about the package.
fn outcome_reason(outcome: &str) -> &'static str {
    match outcome {
        "not-found" => "the registry has no such package",
        "no-files" => "the registry has no readable file of it in this version",
        "no-sources" => "it has no source files",
        "no-mcp" => "its source files do not use MCP",
        "no-tools" => "no tool was found in its source files",
        "too-large" => "it is too large to be read completely",
        "wrong-hash" => "its archive does not match the hash that the registry lists",
        "hostile" => "its archive is corrupt or malicious",
        _ => "it could not be read",
    }
}

/// Formats a package as an argument for `gatelodge-indexer read`.
fn package_argument(source: PackageRegistry, name: &str, version: Option<&str>) -> String {
    let separator = if source == PackageRegistry::Pypi { "==" } else { "@" };
    let version = version.map(|version| format!("{separator}{version}")).unwrap_or_default();
    format!("{}:{name}{version}", source.as_str())
}

/// Runs the indexer for one package and parses its output. The indexer's messages go to standard error.
async fn run_indexer(program: &Path, package: &str, timeout: Duration) -> Result<IndexerOutput> {
    let mut child = Command::new(program)
        .args(["read", "--", package])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .with_context(|| format!("cannot run `{}`", program.display()))?;
    let (program, package) = (program.display(), escape_for_terminal(package));
    let Ok(finished) = tokio::time::timeout(timeout, read_output(&mut child)).await else {
        // The process must not outlive this command.
        let _ = child.kill().await;
        let time = gatelodge_policy::format_duration(timeout);
        return Err(UnreachableError(format!(
            "`{program}` did not finish reading `{package}` within {time} and was stopped"
        ))
        .into());
    };
    let (output, status) = finished.with_context(|| format!("cannot read the output of `{program}`"))?;
    match status.code() {
        Some(0) => serde_json::from_slice(&output).with_context(|| {
            format!(
                "the output of `{program}` for `{package}` is not valid (is it from the same version as `gatelodge`?)"
            )
        }),
        Some(4) => Err(UnreachableError(format!("cannot fetch `{package}`: the registry does not answer")).into()),
        Some(2) => Err(UsageError(format!("`{program}` refused to read `{package}`")).into()),
        _ => {
            Err(ExitError(CommandExitCode::InternalError, format!("`{program}` failed for `{package}`: {status}"))
                .into())
        }
    }
}

async fn read_output(child: &mut Child) -> Result<(Vec<u8>, ExitStatus)> {
    let mut output = Vec::new();
    if let Some(stdout) = child.stdout.take() {
        stdout.take(MAX_OUTPUT_BYTES + 1).read_to_end(&mut output).await?;
    }
    if output.len() as u64 > MAX_OUTPUT_BYTES {
        anyhow::bail!("it is larger than {} MiB", MAX_OUTPUT_BYTES >> 20);
    }
    Ok((output, child.wait().await?))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::path::PathBuf;
    use std::time::Instant;

    use super::*;

    fn write_script(folder: &tempfile::TempDir, commands: &str) -> PathBuf {
        let path = folder.path().join(INDEXER);
        std::fs::write(&path, format!("#!/bin/sh\n{commands}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    fn run(program: &Path, timeout: Duration) -> Result<IndexerOutput> {
        store_command_context::block_on(run_indexer(program, "npm:new", timeout))
    }

    #[test]
    fn indexer_over_the_time_limit_is_killed() {
        let folder = tempfile::tempdir().unwrap();
        let pid_file = folder.path().join("pid");
        let script = format!("echo $$ >'{}'\nexec sleep 600", pid_file.display());
        let start = Instant::now();
        let error = run(&write_script(&folder, &script), Duration::from_secs(1)).unwrap_err();
        assert!(start.elapsed() < Duration::from_secs(60));
        assert_eq!(CommandExitCode::of_error(&error), CommandExitCode::Unreachable);
        assert!(error.to_string().contains("did not finish reading `npm:new` within 1 s"), "{error}");
        let pid = std::fs::read_to_string(pid_file).unwrap();
        assert!(!Path::new("/proc").join(pid.trim()).exists(), "process {pid} still runs");
    }

    #[test]
    fn output_over_the_size_limit_is_refused_and_the_indexer_killed() {
        let folder = tempfile::tempdir().unwrap();
        let error = run(&write_script(&folder, "exec cat /dev/zero"), Duration::from_secs(60)).unwrap_err();
        assert_eq!(CommandExitCode::of_error(&error), CommandExitCode::InternalError);
        assert!(format!("{error:#}").contains("larger than 64 MiB"), "{error:#}");
    }
}
