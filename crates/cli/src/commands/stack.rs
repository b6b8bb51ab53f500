//! `gatelodge stack`: reports all servers that each client's agents can reach, and the risks of combining them.
//!
//! A client's configuration may contain secrets. The reports therefore print only the parts of it that
//! `collect_servers` returns. If a file given on the command line cannot be read, the error shows the file name exactly
//! as the user typed it.

mod collect_servers;
mod report_relative_uri;
mod stack_markdown_report;
mod stack_sarif_report;

use std::collections::HashSet;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use gatelodge_catalogue::{
    ConnectionAdvice, PrecheckVerdict, RiskLevel, ServerCatalogueEntry, ServerStackMember, ServerStackSummary,
    StarterPolicyStrictness, VersionComparison, leaking_combinations, precheck, summarize_stack,
};
use serde_json::{Value, json};

use super::catalogue::{index_access, show_package};
use crate::cli::{ServerStackArgs, StackReportFormat};
use crate::diagnostic_report::{count_noun, escape_for_terminal, print_stderr};
use crate::exit_code::CommandExitCode;
use crate::stdout_output;
use collect_servers::ServerInventoryEntry;

/// Maximum number of leaking server combinations to list; the rest are only counted.
const MAX_LEAKS: usize = 20;

/// The content of a stack report.
struct ServerStackReport {
    servers: Vec<ServerInventoryEntry>,
    members: Vec<ServerStackMember>,
    /// Totals for the enabled servers.
    totals: ServerStackSummary,
    /// The first [`MAX_LEAKS`] server combinations that can leak data; `leak_count` is the total number.
    leaks: Vec<LeakCombination>,
    leak_count: usize,
    /// Messages about client files that could not be read.
    unread: Vec<String>,
    date: String,
}

/// A set of servers that together give one agent access to private data, untrusted text and a way to send data out.
#[derive(Clone, PartialEq, Eq, Hash)]
struct LeakCombination {
    client: &'static str,
    /// Indices of the combined servers in the report.
    servers: Vec<usize>,
}

impl ServerStackReport {
    fn new(servers: Vec<ServerInventoryEntry>, unread: Vec<String>, date: String) -> Self {
        let member = |own: &ServerInventoryEntry| ServerStackMember {
            name: own.name.clone(),
            tools: own.tools.clone(),
            is_package_guessed: own.is_guess,
        };
        let members: Vec<ServerStackMember> = servers.iter().map(member).collect();
        let on: Vec<ServerStackMember> = servers.iter().filter(|own| !own.is_disabled).map(member).collect();
        let (mut leaks, mut leak_count, mut is_whole) = (Vec::new(), 0_usize, true);
        let mut seen = HashSet::new();
        for (client, own) in collect_servers::agent_servers(&servers) {
            let together: Vec<&ServerStackMember> = own.iter().filter_map(|at| members.get(*at)).collect();
            let (sets, count) = leaking_combinations(&together);
            is_whole &= sets.len() == count;
            leak_count = leak_count.saturating_add(count);
            for set in sets {
                let servers = set.iter().filter_map(|at| own.get(*at).copied()).collect();
                let leak = LeakCombination { client, servers };
                // Projects of one client share the user's servers, so a combination can occur repeatedly.
                if seen.insert(leak.clone()) {
                    leaks.push(leak);
                }
            }
        }
        let leak_count = if is_whole { leaks.len() } else { leak_count };
        leaks.truncate(MAX_LEAKS);
        Self { totals: summarize_stack(&on), members, servers, leaks, leak_count, unread, date }
    }

    /// Returns the names of the servers in a leaking combination.
    fn leak_names(&self, leak: &LeakCombination) -> Vec<&str> {
        leak.servers.iter().filter_map(|at| self.servers.get(*at)).map(|entry| entry.name.as_str()).collect()
    }

    /// Returns the public incidents that affect, or may affect, the configured version of an enabled server.
    fn public_incidents(&self) -> impl Iterator<Item = (&str, &str)> {
        let on = self.servers.iter().filter(|entry| !entry.is_disabled);
        let all = on.flat_map(|entry| entry.concerns.iter().map(|own| (entry.name.as_str(), own)));
        all.filter(|(_, own)| own.is_affected).map(|(name, own)| (name, own.message.as_str()))
    }

    /// Returns the stack's overall risk level. Leaks and public incidents raise it.
    fn overall_level(&self) -> Option<RiskLevel> {
        self.totals.overall_level(self.leak_count > 0, self.public_incidents().next().is_some())
    }

    /// Says why the stack has its level, unless it is the level of a tool.
    fn level_reason(&self, level: RiskLevel) -> &'static str {
        if self.totals.levels.contains_key(level.as_str()) {
            ""
        } else if self.leak_count > 0 {
            ", because servers together can leak data"
        } else if self.public_incidents().next().is_some() {
            ", because of a public incident of a package"
        } else {
            ", because a server or its package is not known"
        }
    }

    fn disabled_count(&self) -> usize {
        self.servers.iter().filter(|entry| entry.is_disabled).count()
    }
}

pub fn run(args: &ServerStackArgs) -> Result<CommandExitCode> {
    let format = if args.json { StackReportFormat::Json } else { args.format.unwrap_or(StackReportFormat::Text) };
    let report = build_report(args);
    if let (StackReportFormat::Sarif, Err((why, _))) = (format, &report) {
        // An empty output is not valid SARIF, and the importing tool would fail with a misleading error.
        stdout_output::print_json(&stack_sarif_report::sarif_report(&ServerStackReport::new(
            Vec::new(),
            vec![why.clone()],
            String::new(),
        )))?;
    }
    let report = report.map_err(|(_, error)| error)?;
    match format {
        StackReportFormat::Json => stdout_output::print_json(&report_json(&report))?,
        StackReportFormat::Markdown => stdout_output::print(&stack_markdown_report::markdown_report(&report))?,
        StackReportFormat::Sarif => stdout_output::print_json(&stack_sarif_report::sarif_report(&report))?,
        StackReportFormat::Text => stdout_output::print(&report_text(&report))?,
    }
    report.unread.iter().for_each(|unread| print_stderr(unread));
    if let Some(folder) = &args.policies {
        write_policies(&report, folder)?;
    }
    let fails = report.overall_level().is_some_and(|own| args.fail_on.is_some_and(|level| own >= level));
    if let Some(level) = report.overall_level().filter(|_| fails) {
        let why = report.level_reason(level);
        print_stderr(&format!("the stack reaches {}{why}, which `--fail-on` does not allow", level.as_str()));
    }
    Ok(if fails || !report.unread.is_empty() { CommandExitCode::Findings } else { CommandExitCode::Success })
}

/// Builds the report. If that fails, returns a message that is safe to include in a report, and the underlying error.
fn build_report(args: &ServerStackArgs) -> Result<ServerStackReport, (String, anyhow::Error)> {
    // The report must not contain the path of the index.
    let no_index = |error| ("the package index cannot be used; the error of the command says why".to_owned(), error);
    let index = index_access::open_index(&args.index_source).map_err(no_index)?;
    let collected = collect_servers::collect_servers(args, &index)
        .map_err(|error| (escape_for_terminal(&format!("{error:#}")), error));
    let (entries, unread) = collected?;
    Ok(ServerStackReport::new(entries, unread, index.metadata().date.clone()))
}

/// Returns the recommended policy for a server that is in the index.
fn server_policy(entry: &ServerInventoryEntry) -> Option<String> {
    let package = entry.package.as_ref()?;
    let known = ServerCatalogueEntry::from_facts(package, entry.tools.clone()?);
    show_package::server_policy(&known, StarterPolicyStrictness::Recommended).ok()
}

/// Writes the recommended policies to new files and prints the file names.
fn write_policies(report: &ServerStackReport, folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("cannot create `{}`", folder.display()))?;
    let mut count = 0;
    for entry in &report.servers {
        let Some(policy) = server_policy(entry) else { continue };
        let plain = |letter: char| if letter.is_ascii_alphanumeric() || letter == '-' { letter } else { '_' };
        let name: String = entry.name.chars().take(80).map(plain).collect();
        let path = write_policy(folder, &name, &policy)?;
        print_stderr(&format!("`{}`: `{}`", entry.name, path.display()));
        count += 1;
    }
    print_stderr(&format!("{} in `{}`", count_noun(count, "policy"), folder.display()));
    Ok(())
}

/// Writes a policy to the first unused file name and returns the path. If a file with the same name and content exists,
/// returns its path instead.
fn write_policy(folder: &Path, name: &str, policy: &str) -> Result<PathBuf> {
    /// Limit on the number of files with the same base name. With more files, users could not tell them apart.
    const MAX_FILES_PER_NAME: usize = 1_000;
    for number in 1..MAX_FILES_PER_NAME {
        let name = if number == 1 { format!("{name}.json") } else { format!("{name}-{number}.json") };
        let path = folder.join(name);
        match OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(mut file) => {
                let written = file.write_all(policy.as_bytes()).and_then(|()| file.sync_all());
                return written.map(|()| path.clone()).map_err(|error| {
                    // A partial policy is worse than a missing one.
                    let _ = std::fs::remove_file(&path);
                    anyhow!("cannot write `{}`: {error}; the file was removed", path.display())
                });
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                if std::fs::read(&path).is_ok_and(|bytes| bytes == policy.as_bytes()) {
                    return Ok(path);
                }
            }
            Err(error) => return Err(anyhow!("cannot write `{}`: {error}", path.display())),
        }
    }
    Err(anyhow!("`{}` has too many policies with this name", folder.display()))
}

fn report_json(report: &ServerStackReport) -> Value {
    let servers = report.servers.iter().zip(&report.members).map(|(entry, member)| {
        let tools = entry.tools.iter().flatten().map(|tool| {
            json!({"name": escape_for_terminal(&tool.name), "category": gatelodge_catalogue::category_name(tool.category),
                "level": RiskLevel::of(tool.category), "confidence": tool.confidence, "flow": tool.flow, "optional": tool.optional})
        });
        let advice = entry.advice();
        json!({
            "name": entry.name, "clients": entry.clients, "package": entry.package, "source": entry.source,
            "version": entry.version, "is_guess": entry.is_guess, "is_off": entry.is_disabled, "what": entry.kind_text, "level": member.level(),
            "grade": member.grade(), "verdict": advice.verdict, "reasons": advice.reasons,
            "tools": tools.collect::<Vec<_>>(), "policy": server_policy(entry),
        })
    });
    let leaks = report.leaks.iter().map(|leak| json!({"client": leak.client, "servers": report.leak_names(leak)}));
    let mut sum = json!(report.totals);
    if let Value::Object(sum) = &mut sum {
        sum.insert("level".to_owned(), json!(report.overall_level()));
        sum.insert("combinations".to_owned(), leaks.collect());
        sum.insert("combination_count".to_owned(), report.leak_count.into());
    }
    json!({"stack": sum, "servers": servers.collect::<Vec<_>>(), "unread": report.unread, "index_date": report.date})
}

fn report_text(report: &ServerStackReport) -> String {
    let mut rows = Vec::new();
    for (entry, member) in report.servers.iter().zip(&report.members) {
        let known = match (&entry.package, &entry.tools) {
            (Some(package), Some(tools)) => {
                let likely = if entry.is_guess { "perhaps " } else { "" };
                format!("{likely}{package}{}, {}", version_note(entry, str::to_owned), count_noun(tools.len(), "tool"))
            }
            _ => format!("{}, not in the index", entry.kind_text),
        };
        let grade = member.grade().map_or("?".to_owned(), |grade| grade.letter.to_string());
        let level = member.level().as_str().to_owned();
        let off = if entry.is_disabled { " (off)" } else { "" };
        let verdict = entry.advice().verdict.as_str().to_owned();
        rows.push(vec![
            level,
            format!("grade {grade}"),
            format!("{}{off}", entry.name),
            known,
            verdict,
            entry.clients.join(", "),
        ]);
    }
    let mut out = stdout_output::format_table(&rows);
    out.push_str(&format!("\n{}\n", summary_text(report)));
    for unread in &report.unread {
        out.push_str(&format!("  not read: {unread}\n"));
    }
    for leak in &report.leaks {
        out.push_str(&format!("  together they leak ({}): {}\n", leak.client, report.leak_names(leak).join(" + ")));
    }
    for (name, says) in report.public_incidents() {
        out.push_str(&format!("  public incident ({name}): {says}\n"));
    }
    out
}

/// Returns a note if the server may start a version other than the indexed one, else an empty string. `format` escapes
/// the indexed version, which is untrusted.
fn version_note(entry: &ServerInventoryEntry, format: impl Fn(&str) -> String) -> String {
    let read = format(entry.version.as_deref().unwrap_or_default());
    match (entry.version_match, &entry.launched_version) {
        (VersionComparison::Same, _) => String::new(),
        (VersionComparison::Different, Some(started)) => format!(" (indexed: {read}, starts: {started})"),
        (VersionComparison::Different, None) => format!(" (indexed: {read}, starts: another version)"),
        (VersionComparison::Unknown, _) => format!(" (indexed: {read})"),
    }
}

/// Summarizes the stack in a few sentences.
fn summary_text(report: &ServerStackReport) -> String {
    let sum = &report.totals;
    let off = match report.disabled_count() {
        0 => String::new(),
        1 => " One server is switched off and not counted.".to_owned(),
        count => format!(" {count} servers are switched off and not counted."),
    };
    let Some(level) = report.overall_level() else {
        return format!("{}{off}", if off.is_empty() { "No server was found." } else { "No server is switched on." });
    };
    let by_level: Vec<String> = RiskLevel::ALL
        .iter()
        .rev()
        .filter_map(|level| sum.levels.get(level.as_str()).map(|count| format!("{count} {}", level.as_str())))
        .collect();
    let unknown = match sum.unknown.len() {
        0 => String::new(),
        1 => " One server is not in the index, so its tools are not known.".to_owned(),
        count => format!(" {count} servers are not in the index, so their tools are not known."),
    };
    let leaks = match report.leak_count {
        0 => " No agent has a combination of known servers with private data, untrusted text and a channel to send data out."
            .to_owned(),
        1 => " One combination within an agent has private data, untrusted text and a channel to send data out.".to_owned(),
        count => format!(" {count} combinations within an agent have private data, untrusted text and a channel to send data out."),
    };
    let tools = match by_level.is_empty() {
        true => "no known tools".to_owned(),
        false => format!("{} ({})", count_noun(sum.tool_count, "tool"), by_level.join(", ")),
    };
    let on = count_noun(report.servers.len() - report.disabled_count(), "server");
    format!("The stack is {}: {on}, {tools}.{unknown}{off}{leaks}", level.as_str())
}

impl ServerInventoryEntry {
    /// Rates the server, taking into account its command, its version and public incidents.
    fn advice(&self) -> ConnectionAdvice {
        let mut advice = match &self.tools {
            Some(tools) => precheck(tools),
            None => ConnectionAdvice::unknown("it is not in the index; check it with `gatelodge scan`"),
        };
        if self.is_guess {
            let why = "its package is only guessed from its command and variables; check it with `gatelodge scan`";
            advice = advice.at_least(PrecheckVerdict::AskFirst, why.to_owned());
        }
        if let Some(why) = self.version_concern() {
            advice = advice.at_least(PrecheckVerdict::ConnectWithRule, why);
        }
        advice.with_incidents(&self.concerns)
    }

    /// Returns why the server may start a version other than the indexed one, or `None` if it starts the indexed one.
    fn version_concern(&self) -> Option<String> {
        let read = format!("the indexed version is {}", self.version.as_deref()?);
        match (self.version_match, &self.launched_version) {
            (VersionComparison::Same, _) => None,
            (VersionComparison::Different, Some(started)) => Some(format!("{read}, but {started} starts")),
            (VersionComparison::Different, None) => Some(format!("{read}, but another version starts")),
            (VersionComparison::Unknown, _) => Some(format!("{read}; the version that starts is not known")),
        }
    }
}
