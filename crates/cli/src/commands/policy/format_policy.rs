//! `policy fmt`: formats a policy file.

use std::path::Path;

use anyhow::{Result, anyhow};
use gatelodge_policy::DocumentFormat;

use super::file_diagnostics::{FileDiagnostics, suggest_yaml};
use super::print;
use crate::cli::FormatPolicyArgs;
use crate::diagnostic_report;
use crate::exit_code::{CommandExitCode, UsageError};

pub fn run(args: &FormatPolicyArgs) -> Result<CommandExitCode> {
    let mut diagnostics = FileDiagnostics::default();
    let formatted = diagnostics.read(&args.file).and_then(|source| {
        let language = source.policy_format(None);
        let formatted = gatelodge_policy::format(&source.text, language);
        let refuse = |errors| diagnostics.add(&source, suggest_yaml(&source, language, errors));
        Some((formatted.map_err(refuse).ok()?, source, language))
    });
    let Some((formatted, source, language)) = formatted else {
        diagnostics.print(false)?;
        return Ok(diagnostics.exit_code());
    };
    let name = diagnostic_report::escape_for_terminal(&source.name);
    let is_stdin = args.file == Path::new("-");
    let is_same = formatted.text.as_bytes() == source.text;
    if args.check {
        if !is_same {
            diagnostic_report::print_stderr(&format!(
                "{name}: {}",
                format_advice(&name, language, is_stdin, formatted.comments_lost)
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
    if language == DocumentFormat::Yaml || is_stdin {
        let message = "only a JSON file can be changed in place; omit `--write` and redirect the output to a new file";
        return Err(UsageError(message.into()).into());
    }
    if !is_same {
        refuse_read_only(&args.file)?;
        let path = args.file.display();
        let help = "it is unchanged: check that its folder is writable and has free space";
        replace_policy(&args.file, &formatted.text)
            .map_err(|error| anyhow!("cannot write `{path}`: {error}; {help}"))?;
    }
    Ok(CommandExitCode::Success)
}

/// Returns the message for a policy that is not in the standard format.
fn format_advice(name: &str, language: DocumentFormat, is_stdin: bool, comments_lost: usize) -> String {
    match language {
        DocumentFormat::Yaml => {
            let lost = match comments_lost {
                0 => String::new(),
                count => format!("; {} lost in it", comment_count_text(count)),
            };
            format!(
                "the standard format is JSON, and this is YAML; `gatelodge policy fmt` without `--check` prints it as JSON{lost}"
            )
        }
        DocumentFormat::Json if is_stdin => "not formatted; `gatelodge policy fmt -` prints it formatted".to_owned(),
        DocumentFormat::Json => format!("not formatted; `gatelodge policy fmt --write {name}` formats it"),
    }
}

fn comment_count_text(count: usize) -> String {
    if count == 1 { "1 YAML comment is".to_owned() } else { format!("{count} YAML comments are") }
}

/// Returns an error if the file is read-only. The check is needed because replacing a file requires write permission
/// only for its folder, not for the file.
fn refuse_read_only(path: &Path) -> Result<()> {
    if std::fs::metadata(path).is_ok_and(|metadata| metadata.permissions().readonly()) {
        let path = path.display();
        let message = format!("`{path}` is read-only; make it writable, or omit `--write` and redirect the output");
        return Err(UsageError(message).into());
    }
    Ok(())
}

/// Writes a new file next to the old one and then renames it, so that the policy is not lost if the disk is full.
fn replace_policy(path: &Path, text: &str) -> std::io::Result<()> {
    // A symbolic link stays one: the file it points to is replaced.
    let path = path.canonicalize()?;
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(".new");
    let new_path = path.with_file_name(name);
    let written = std::fs::write(&new_path, text)
        .and_then(|()| std::fs::set_permissions(&new_path, std::fs::metadata(&path)?.permissions()))
        .and_then(|()| std::fs::rename(&new_path, &path));
    if written.is_err() {
        let _ = std::fs::remove_file(&new_path);
    }
    written
}
