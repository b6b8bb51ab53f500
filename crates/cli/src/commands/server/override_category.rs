//! `server classify`: overrides the category that the catalogue assigns to a tool.

use anyhow::Result;
use gatelodge_admin::{NewCategoryOverride, OverrideCategoryError};
use gatelodge_store::ServerName;
use serde_json::json;

use super::accept_tools::known_tools;
use crate::cli::OverrideCategoryArgs;
use crate::diagnostic_report::{escape_for_terminal, print_stderr};
use crate::exit_code::{CommandExitCode, UsageError};
use crate::stdout_output;
use crate::store_command_context::{self, StoreCreationMode};

pub fn run(args: OverrideCategoryArgs) -> Result<CommandExitCode> {
    store_command_context::with_store(&args.store, StoreCreationMode::Existing, async |ctx| {
        let (name, _) = known_tools(&ctx, &args.name).await?;
        let tool = escape_for_terminal(&args.tool);
        if args.undo {
            ctx.administration().clear_category(&name, &args.tool).await?;
            if args.json {
                stdout_output::print_json(&json!({"server": name, "tool": args.tool, "category": null}))?;
            }
            print_stderr(&format!("`{tool}` of `{name}` has the catalogue's category again"));
            return Ok(CommandExitCode::Success);
        }
        let new = NewCategoryOverride {
            tool: &args.tool,
            category: args.category.as_deref().unwrap_or_default(),
            reason: args.why.as_deref().unwrap_or_default(),
            even_if_changed: args.even_if_changed,
        };
        let stored = ctx.administration().override_category(&name, new).await;
        let stored = stored.map_err(|error| override_category_error(&name, error))?;
        let category = stored.category.as_str();
        if args.json {
            stdout_output::print_json(&json!({"tool": stored.tool, "category": category, "why": stored.reason,
                "fingerprint": stored.fingerprint}))?;
        }
        print_stderr(&format!("`{tool}` of `{name}` now has the category {category}"));
        Ok(CommandExitCode::Success)
    })
}

fn override_category_error(server: &ServerName, error: OverrideCategoryError) -> anyhow::Error {
    let text = error.to_string();
    let message = match error {
        OverrideCategoryError::Store(error) => return error.into(),
        OverrideCategoryError::NotAccepted { .. } => {
            format!("{text}; `gatelodge server show {server}` lists the accepted tools")
        }
        OverrideCategoryError::MissingReason => format!("{text}: `--why TEXT`"),
        OverrideCategoryError::UnknownCategory(_) | OverrideCategoryError::LongReason => text,
    };
    UsageError(message).into()
}
