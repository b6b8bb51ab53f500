//! `policy fmt`: the usual layout.

use std::path::Path;

use anyhow::{Result, anyhow};
use gatelodge_policy::DocumentFormat;

use super::file_diagnostics::{FileDiagnostics, suggest_yaml};
use super::print;
use crate::cli::FormatPolicyArgs;
use crate::diagnostic_report;
use crate::exit_code::{CommandExitCode, UsageError};

pub fn run(args: &FormatPolicyArgs) -> Result<CommandExitCode> {
    let mut findings = FileDiagnostics::default();
    let formatted = findings.read(&args.file).and_then(|source| {
        let language = source.policy_format(None);
        let formatted = gatelodge_policy::format(&source.text, language);
        let refuse = |faults| findings.add(&source, suggest_yaml(&source, language, faults));
        Some((formatted.map_err(refuse).ok()?, source, language))
    });
    let Some((formatted, source, language)) = formatted else {
        findings.print(false)?;
        return Ok(findings.exit_code());
    };
    let name = diagnostic_report::escape_for_terminal(&source.name);
    let is_input = args.file == Path::new("-");
    let is_same = formatted.text.as_bytes() == source.text;
    if args.check {
        if !is_same {
            diagnostic_report::print_stderr(&format!(
                "{name}: {}",
                format_advice(&name, language, is_input, formatted.comments_lost)
            ));
        }
        return Ok(if is_same { CommandExitCode::Success } else { CommandExitCode::Findings });
    }
    if !args.write {
        if formatted.comments_lost > 0 {
            diagnostic_report::print_stderr(&format!(
                "{name}: {} lost in JSON",
                comment_count_text(formatted.comments_lost)
            ));
        }
        print(&formatted.text)?;
        return Ok(CommandExitCode::Success);
    }
    if language == DocumentFormat::Yaml || is_input {
        let message = "only a JSON file is changed in place; leave `--write` out and send the output to a new file";
        return Err(UsageError(message.into()).into());
    }
    if !is_same {
        refuse_read_only(&args.file)?;
        let path = args.file.display();
        let help = "it is as it was: see that there is room in its folder, and that you may write there";
        replace_policy(&args.file, &formatted.text)
            .map_err(|error| anyhow!("cannot write `{path}`: {error}; {help}"))?;
    }
    Ok(CommandExitCode::Success)
}

/// What to do about a text that is not laid out.
fn format_advice(name: &str, language: DocumentFormat, is_input: bool, comments_lost: usize) -> String {
    match language {
        DocumentFormat::Yaml => {
            let lost = match comments_lost {
                0 => String::new(),
                count => format!("; {} lost in it", comment_count_text(count)),
            };
            format!(
                "the usual layout is JSON, and this is YAML; `gatelodge policy fmt` without `--check` prints it as JSON{lost}"
            )
        }
        DocumentFormat::Json if is_input => "not in the usual layout; `gatelodge policy fmt -` prints it so".to_owned(),
        DocumentFormat::Json => format!("not in the usual layout; `gatelodge policy fmt --write {name}` mends it"),
    }
}

fn comment_count_text(count: usize) -> String {
    if count == 1 { "1 YAML comment is".to_owned() } else { format!("{count} YAML comments are") }
}

/// A file that its owner protects is not replaced, though its folder would let us.
fn refuse_read_only(path: &Path) -> Result<()> {
    if std::fs::metadata(path).is_ok_and(|metadata| metadata.permissions().readonly()) {
        let path = path.display();
        let message =
            format!("`{path}` is read-only; make it writable, or leave `--write` out and send the output elsewhere");
        return Err(UsageError(message).into());
    }
    Ok(())
}

/// Writes a new file beside the old one and puts it in its place, so that a full disk costs nobody a policy.
fn replace_policy(path: &Path, text: &str) -> std::io::Result<()> {
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
