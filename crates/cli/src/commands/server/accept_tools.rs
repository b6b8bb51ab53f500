//! `server diff` and `server accept`: show how a server's tool definitions have drifted, and accept the new
//! definitions.

use anyhow::Result;
use gatelodge_policy::Category;
use gatelodge_server::{DriftKind, ToolDrift, find_drifts};
use gatelodge_store::{ServerName, ServerTools};
use serde_json::{Value, json};

use super::drift_text::{drift_headline, drift_text, lapsed_override_text};
use crate::cli::{AcceptToolsArgs, NamedItemArgs};
use crate::diagnostic_report::{count_noun, escape_for_terminal, print_stderr};
use crate::exit_code::{CommandExitCode, UsageError};
use crate::stdout_output;
use crate::store_command_context::{self, StoreCommandContext, StoreCreationMode};

pub fn diff_tools(args: NamedItemArgs) -> Result<CommandExitCode> {
    store_command_context::with_store(&args.store, StoreCreationMode::Existing, async |ctx| {
        let (name, known) = known_tools(&ctx, &args.name).await?;
        let drifts = find_drifts(&name, &known, &ctx.effective_config().await?, ctx.clock.now());
        if args.json {
            stdout_output::print_json(&json!({"server": name, "accepted": known.pinned.len(), "drifts": drifts}))?;
        } else if drifts.is_empty() {
            stdout_output::print(&format!(
                "`{name}` has no drift: {} accepted\n",
                count_noun(known.pinned.len(), "tool")
            ))?;
        } else {
            drifts.iter().try_for_each(|drift| stdout_output::print(&drift_text(drift)))?;
            if drifts.iter().any(|drift| drift.kind != DriftKind::Gone) {
                print_stderr(&format!("accept with `gatelodge server accept {name} TOOL…`, or `--all`"));
            }
        }
        Ok(if drifts.iter().all(|drift| drift.kind == DriftKind::Gone) {
            CommandExitCode::Success
        } else {
            CommandExitCode::Findings
        })
    })
}

pub fn accept_tools(args: AcceptToolsArgs) -> Result<CommandExitCode> {
    if args.tools.is_empty() && !args.all {
        return Err(UsageError("name the tools to accept, or use `--all`".to_owned()).into());
    }
    store_command_context::with_store(&args.store, StoreCreationMode::Existing, async |ctx| {
        let (name, known) = known_tools(&ctx, &args.name).await?;
        let drifts = find_drifts(&name, &known, &ctx.effective_config().await?, ctx.clock.now());
        let (chosen, mut unknown) = choose_drifts(&drifts, &args);
        // A named tool without drift needs no action.
        unknown.retain(|tool| !known.offered.iter().any(|offered| offered.name == *tool));
        if let Some(tool) = unknown.first() {
            return Err(UsageError(format!("`{name}` has no tool `{}`", escape_for_terminal(tool))).into());
        }
        let (refused, accepted): (Vec<&ToolDrift>, Vec<&ToolDrift>) =
            chosen.into_iter().partition(|drift| drift.rejection.is_some());
        for drift in &refused {
            let why = drift.rejection.as_deref().unwrap_or_default();
            print_stderr(&format!(
                "`{}` is not accepted: {why}; rename one of them in the server",
                escape_for_terminal(&drift.tool)
            ));
        }
        let tools: Vec<(String, String)> =
            accepted.iter().filter_map(|drift| Some((drift.tool.clone(), drift.fingerprint.clone()?))).collect();
        let names: Vec<&str> = accepted.iter().map(|drift| drift.tool.as_str()).collect();
        ctx.administration().accept_tools(&name, tools).await?;
        if args.json {
            let refused: Vec<&str> = refused.iter().map(|drift| drift.tool.as_str()).collect();
            let changes: Vec<Value> = accepted.iter().map(|drift| change_json(drift)).collect();
            stdout_output::print_json(
                &json!({"server": name, "accepted": names, "refused": refused, "changes": changes}),
            )?;
        } else {
            stdout_output::print(&format!("accepted {} of `{name}`\n", count_noun(names.len(), "tool")))?;
            for drift in &accepted {
                stdout_output::print(&format!("  {}\n", drift_headline(drift)))?;
                if let Some(lapse) = lapsed_override_text(drift) {
                    let help = format!("gatelodge server classify {name} TOOL --as CATEGORY --why TEXT");
                    stdout_output::print(&format!("    {lapse}; set it again with `{help}`\n"))?;
                }
            }
        }
        Ok(if refused.is_empty() { CommandExitCode::Success } else { CommandExitCode::Findings })
    })
}

/// Describes for `--json` how accepting a tool's new definition changes its category.
fn change_json(drift: &ToolDrift) -> Value {
    let word = |category: Option<Category>| category.map(Category::as_str);
    json!({"tool": drift.tool, "category": word(drift.category), "category_before": word(drift.category_before),
        "lapses": drift.lapsed_override})
}

/// Returns the tool changes to accept, and those tool names from the command line that have no change to accept.
fn choose_drifts<'d>(drifts: &'d [ToolDrift], args: &AcceptToolsArgs) -> (Vec<&'d ToolDrift>, Vec<String>) {
    let open: Vec<&ToolDrift> = drifts.iter().filter(|drift| drift.kind != DriftKind::Gone).collect();
    if args.all {
        return (open, Vec::new());
    }
    let is_open = |tool: &String| open.iter().any(|drift| drift.tool == *tool);
    let unknown = args.tools.iter().filter(|tool| !is_open(tool)).cloned().collect();
    (open.iter().filter(|drift| args.tools.contains(&drift.tool)).copied().collect(), unknown)
}

/// Loads a server's tools from the store. This includes servers run by `wrap`, which are neither in the configuration
/// nor in the list of stored servers.
pub(super) async fn known_tools(ctx: &StoreCommandContext, name: &str) -> Result<(ServerName, ServerTools)> {
    let name = super::parse_server_name(name)?;
    if let Some(known) = ctx.stores.tool_pins.server_tools(&name).await? {
        return Ok((name, known));
    }
    super::require_server(super::all_servers(ctx).await?, name.as_str())?;
    let help = "a gateway lists them when the first client connects";
    Err(UsageError(format!("the tools of `{name}` have not been listed yet; {help}")).into())
}
