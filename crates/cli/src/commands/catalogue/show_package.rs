//! `catalogue show`: prints what the index contains about a server or a tool.

use anyhow::Result;
use gatelodge_catalogue::{
    Classification, IndexedServer, PackageIndex, RiskLevel, ServerCatalogueEntry, StarterPolicyStrictness, ToolSpec,
    grade_server, precheck_indexed, recommendation_effect, starter_policy,
};
use serde_json::{Value, json};

use super::{classification_io, index_access, search_index};
use crate::cli::{ShowPackageArgs, StrictnessArg};
use crate::diagnostic_report::{count_noun, escape_for_terminal, print_stderr};
use crate::exit_code::{CommandExitCode, ExitError};
use crate::stdout_output;

pub fn run(args: &ShowPackageArgs) -> Result<CommandExitCode> {
    let index = index_access::open_index(&args.index_source)?;
    let (named, server) = index_access::require_package(&index, &args.package)?;
    let (doubt, unread) = (
        index_access::ambiguous_source_warning(&index, &named, &server),
        index_access::version_mismatch(&named, &server),
    );
    doubt.iter().chain(&unread).for_each(|doubt| print_stderr(doubt));
    if let Some(name) = &args.tool {
        show_tool(&server, name, args)?;
    } else if let Some(strictness) = args.policy {
        stdout_output::print(&server_policy(&ServerCatalogueEntry::of(&server), strictness.into())?)?;
    } else if args.json {
        let mut all = package_json(&index, &server)?;
        if let Value::Object(all) = &mut all {
            all.extend(doubt.map(|doubt| ("doubt".to_owned(), doubt.into())));
            all.extend(unread.map(|unread| ("unread".to_owned(), unread.into())));
        }
        stdout_output::print_json(&all)?;
    } else {
        stdout_output::print(&package_text(&server))?;
    }
    Ok(CommandExitCode::Success)
}

impl From<StrictnessArg> for StarterPolicyStrictness {
    fn from(name: StrictnessArg) -> Self {
        match name {
            StrictnessArg::Recommended => Self::Recommended,
            StrictnessArg::Strict => Self::Strict,
            StrictnessArg::Permissive => Self::Permissive,
        }
    }
}

/// Generates a policy that covers all tools of a server.
pub fn server_policy(known: &ServerCatalogueEntry, strictness: StarterPolicyStrictness) -> Result<String> {
    known.with_classifications(|tools| {
        let tools: Vec<_> = tools.iter().map(|(tool, known)| (tool, known)).collect();
        tools_policy(&known.name, &tools, strictness)
    })
}

fn tools_policy(
    server: &str,
    tools: &[(&ToolSpec<'_>, &Classification)],
    strictness: StarterPolicyStrictness,
) -> Result<String> {
    starter_policy(server, tools, strictness)
        .map_err(|error| ExitError(CommandExitCode::Findings, error.to_string()).into())
}

/// Returns everything the index contains about a server, for `--json`.
pub fn package_json(index: &PackageIndex, server: &IndexedServer<'_>) -> Result<Value> {
    let known = ServerCatalogueEntry::of(server);
    let name = escape_for_terminal(server.package());
    let mut all = search_index::server_json(server);
    let tools: Result<Vec<Value>> = known.with_classifications(|tools| {
        tools.iter().map(|(tool, own)| classification_io::classification_json(&name, tool, own)).collect()
    });
    if let Value::Object(all) = &mut all {
        all.insert("reasons".to_owned(), json!(grade_server(&known.tools).reasons));
        all.insert("precheck".to_owned(), serde_json::to_value(precheck_indexed(server, &known.tools))?);
        all.insert("tokens".to_owned(), known.estimated_tokens().into());
        all.insert("tools".to_owned(), tools?.into());
        all.insert("policy".to_owned(), server_policy(&known, StarterPolicyStrictness::Recommended)?.into());
        all.insert("index".to_owned(), serde_json::to_value(index.metadata())?);
    }
    Ok(all)
}

fn package_text(server: &IndexedServer<'_>) -> String {
    let known = ServerCatalogueEntry::of(server);
    let grade = grade_server(&known.tools);
    let date = server.date().map(|date| format!(", {}", escape_for_terminal(date))).unwrap_or_default();
    let mut out = format!(
        "{} {}{date} ({})\n",
        escape_for_terminal(server.package()),
        escape_for_terminal(server.version()),
        server.source().as_str()
    );
    out.push_str(&format!("Grade {}: {}.\n", grade.letter, grade.reasons.join("; ")));
    let advice = precheck_indexed(server, &known.tools);
    out.push_str(&format!("Before connecting: {}\n", advice.verdict.as_str()));
    advice.reasons.iter().for_each(|reason| out.push_str(&format!("  - {reason}\n")));
    let (count, tokens) = (count_noun(known.tools.len(), "tool"), known.estimated_tokens());
    let take = if known.tools.len() == 1 { "takes" } else { "take" };
    out.push_str(&format!("{count} {take} about {tokens} tokens of a model's context, without descriptions.\n\n"));
    known.with_classifications(|tools| {
        let mut tools: Vec<&(ToolSpec<'_>, Classification)> = tools.iter().collect();
        tools.sort_by(|(one, first), (other, second)| {
            second.level.cmp(&first.level).then_with(|| one.name.cmp(&other.name))
        });
        let rows: Vec<_> =
            tools.into_iter().map(|(tool, own)| classification_io::classification_row(tool, own)).collect();
        out.push_str(&stdout_output::format_table(&rows));
    });
    out
}

fn show_tool(server: &IndexedServer<'_>, name: &str, args: &ShowPackageArgs) -> Result<()> {
    let known = ServerCatalogueEntry::of(server);
    known.with_classifications(|tools| {
        let found = tools.iter().find(|(tool, _)| tool.name == name);
        let (tool, own) = found.ok_or_else(|| {
            let package = escape_for_terminal(server.package());
            ExitError(
                CommandExitCode::Findings,
                format!(
                    "`{package}` has no tool `{}`; `catalogue show {package}` lists its tools",
                    escape_for_terminal(name)
                ),
            )
        })?;
        if let Some(strictness) = args.policy {
            return stdout_output::print(&tools_policy(&known.name, &[(tool, own)], strictness.into())?);
        }
        if args.json {
            return stdout_output::print_json(&classification_io::classification_json(server.package(), tool, own)?);
        }
        let level = RiskLevel::as_str(own.level);
        let mut out = format!("{} on {}\n", escape_for_terminal(&tool.name), escape_for_terminal(server.package()));
        let there = if own.optional { ", only under a setting" } else { "" };
        out.push_str(&format!(
            "{level} risk, {}, confidence {:.2}{there}\n\n",
            own.qualified_category_name(),
            own.confidence
        ));
        let doubt = own.uncertainty_note().map(|doubt| format!("{doubt}. ")).unwrap_or_default();
        out.push_str(&format!("{doubt}{}\n", own.rationale));
        own.evidence.iter().for_each(|fact| out.push_str(&format!("  - {fact}\n")));
        if !own.attacks.is_empty() {
            out.push_str(&format!("\nAttack patterns: {}\n", own.attacks.join(", ")));
        }
        out.push_str(&format!(
            "\n{}{}\n",
            stdout_output::json_text(&own.recommended)?,
            recommendation_effect(own.category)
        ));
        stdout_output::print(&out)
    })
}
