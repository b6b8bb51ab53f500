//! Takes back what was last written into a client's file.

use std::path::Path;

use anyhow::Result;
use serde_json::json;

use super::write::{JOURNAL, of_file};
use crate::ask;
use crate::cli::ConnectArgs;
use crate::clients::{Journal, Spot, Standing};
use crate::exit::{Exit, Failed, Usage};
use crate::output;
use crate::report::{say, shown};

pub fn run(args: &ConnectArgs, spot: &Spot, data: &Path) -> Result<Exit> {
    let path = std::path::absolute(&spot.file)?;
    let name = shown(&path.display().to_string());
    let journal_file = data.join(JOURNAL);
    let mut journal = Journal::find(&journal_file)?.unwrap_or_default();
    let Some(at) = journal.steps.iter().rposition(|step| step.file == path) else {
        return Err(Usage(format!("`connect` wrote nothing into `{name}`")).into());
    };
    let step = journal.steps.remove(at);
    if step.standing().map_err(|trouble| of_file(&name, &trouble))? == Standing::Changed && !args.force {
        let what = format!("`{name}` was changed since; `--force` takes our entry back, and keeps the changes");
        return Err(Failed(Exit::Findings, what).into());
    }
    if !ask::leave(args.yes, &format!("Put `{name}` back as it was?"))? {
        return Err(Usage("nothing was taken back".to_owned()).into());
    }
    step.undo().map_err(|trouble| of_file(&name, &trouble))?;
    journal.keep(&journal_file)?;
    say(&format!("`{name}` is as it was"));
    if args.json {
        output::json(&json!({"restored": path}))?;
    }
    Ok(Exit::Fine)
}
