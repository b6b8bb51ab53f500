//! `server classify`: overrides the category that the catalogue assigns to a tool.

use anyhow::Result;
use gatelodge_policy::Category;
use gatelodge_store::CategoryOverride;
use serde_json::json;

use super::accept_tools::known_tools;
use crate::cli::OverrideCategoryArgs;
use crate::diagnostic_report::{escape_for_terminal, print_stderr};
use crate::exit_code::{CommandExitCode, UsageError};
use crate::stdout_output;
use crate::store_command_context::{self, StoreCreationMode};

/// Maximum length of the reason that the user gives for an override.
const MAX_REASON_BYTES: usize = 1_000;

pub fn run(args: OverrideCategoryArgs) -> Result<CommandExitCode> {
    store_command_context::with_store(&args.store, StoreCreationMode::Existing, async |ctx| {
        let (name, known) = known_tools(&ctx, &args.name).await?;
        let tool = escape_for_terminal(&args.tool);
        if args.undo {
            let entry = ctx.admin_log_entry("server.unclassify", name.as_str(), json!({"tool": args.tool}));
            ctx.stores.tool_pins.clear_category(&name, &args.tool, entry).await?;
            if args.json {
                stdout_output::print_json(&json!({"server": name, "tool": args.tool, "category": null}))?;
            }
            print_stderr(&format!("`{tool}` of `{name}` has the catalogue's category again"));
            return Ok(CommandExitCode::Success);
        }
        let Some(pin) = known.pinned.iter().find(|pin| pin.definition.name == args.tool) else {
            let help = format!("`gatelodge server show {name}` lists the accepted tools");
            return Err(UsageError(format!("no tool `{tool}` of `{name}` was accepted; {help}")).into());
        };
        let category = parse_category(args.category.as_deref().unwrap_or_default())?;
        let why = check_reason(args.why.as_deref().unwrap_or_default())?;
        let fingerprint = (!args.even_if_changed).then(|| pin.definition.fingerprint.clone());
        let detail = json!({"tool": args.tool, "category": category.as_str(), "why": why, "fingerprint": fingerprint});
        let entry = ctx.admin_log_entry("server.classify", name.as_str(), detail.clone());
        let (set_at, set_by) = (entry.at, entry.by.clone());
        let category_override =
            CategoryOverride { tool: args.tool.clone(), category, reason: why, fingerprint, set_at, set_by };
        ctx.stores.tool_pins.set_category(&name, category_override, entry).await?;
        if args.json {
            stdout_output::print_json(&detail)?;
        }
        print_stderr(&format!("`{tool}` of `{name}` now has the category {}", category.as_str()));
        Ok(CommandExitCode::Success)
    })
}

fn parse_category(word: &str) -> Result<Category, UsageError> {
    let message = || {
        format!("`{}` is not a category; the categories are {}", escape_for_terminal(word), Category::WORDS.join(", "))
    };
    Category::from_word(&word.to_ascii_lowercase()).ok_or_else(|| UsageError(message()))
}

fn check_reason(why: &str) -> Result<String, UsageError> {
    match why.trim() {
        "" => Err(UsageError("give the reason, for later readers: `--why TEXT`".to_owned())),
        why if why.len() > MAX_REASON_BYTES => {
            Err(UsageError(format!("a reason has at most {MAX_REASON_BYTES} bytes")))
        }
        why => Ok(why.to_owned()),
    }
}
