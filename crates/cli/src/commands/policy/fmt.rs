//! `policy fmt`: the usual layout.

use std::path::Path;

use anyhow::{Context, Result};
use gatelodge_policy::Format;

use super::print;
use crate::cli::FmtArgs;
use crate::exit::{Exit, Usage};
use crate::file;
use crate::report;

pub fn run(args: &FmtArgs) -> Result<Exit> {
    let source = file::read(&args.file)?;
    let language = source.format(None);
    let formatted = match gatelodge_policy::format(&source.text, language) {
        Ok(formatted) => formatted,
        Err(faults) => {
            report::faults(&source, &faults);
            return Ok(Exit::Findings);
        }
    };
    if formatted.comments_lost > 0 {
        report::say(&format!(
            "{}: {} YAML comments are lost in JSON",
            report::shown(&source.name),
            formatted.comments_lost
        ));
    }
    let is_same = formatted.text.as_bytes() == source.text;
    if args.check {
        if !is_same {
            report::say(&format!(
                "{}: not in the usual layout; `gatelodge policy fmt --write` mends it",
                report::shown(&source.name)
            ));
        }
        return Ok(if is_same { Exit::Fine } else { Exit::Findings });
    }
    if !args.write {
        print(&formatted.text)?;
        return Ok(Exit::Fine);
    }
    if language == Format::Yaml || args.file == Path::new("-") {
        let message = "only a JSON file is changed in place; leave `--write` out and send the output to a new file";
        return Err(Usage(message.into()).into());
    }
    if !is_same {
        replace(&args.file, &formatted.text).with_context(|| format!("cannot write `{}`", args.file.display()))?;
    }
    Ok(Exit::Fine)
}

/// Writes a new file beside the old one and puts it in its place, so that a full disk costs nobody a policy.
fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    // A link stays a link: what it names is replaced.
    let path = path.canonicalize()?;
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(".new");
    let beside = path.with_file_name(name);
    let written = std::fs::write(&beside, text)
        .and_then(|()| std::fs::set_permissions(&beside, std::fs::metadata(&path)?.permissions()))
        .and_then(|()| std::fs::rename(&beside, &path));
    if written.is_err() {
        let _ = std::fs::remove_file(&beside);
    }
    written
}
