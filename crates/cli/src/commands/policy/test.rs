//! `policy test`: case files.

use std::path::Path;

use anyhow::Result;
use gatelodge_policy::{CaseFile, CaseReport, Fault, Policy, PolicySource, load_inline, parse};
use serde::Serialize;

use super::{print, print_json};
use crate::cli::TestArgs;
use crate::exit::Exit;
use crate::file;
use crate::report::{self, shown};

/// The cases of one file.
#[derive(Debug, Serialize)]
struct FileReport {
    file: String,
    cases: Vec<CaseReport>,
}

pub fn run(args: &TestArgs) -> Result<Exit> {
    let mut reports = Vec::new();
    let mut is_readable = true;
    for path in &args.files {
        match run_file(path)? {
            Some(report) => reports.push(report),
            None => is_readable = false,
        }
    }
    let failed = reports.iter().flat_map(|file| &file.cases).filter(|case| !case.differences.is_empty()).count();
    let passed = reports.iter().map(|file| file.cases.len()).sum::<usize>() - failed;
    if args.json {
        print_json(&reports)?;
    } else {
        reports.iter().try_for_each(|file| print(&told(file)))?;
        print(&format!("{passed} passed, {failed} failed\n"))?;
    }
    Ok(if failed == 0 && is_readable { Exit::Fine } else { Exit::Findings })
}

/// Runs one file; none if it is not a case file, which has been said then.
fn run_file(path: &Path) -> Result<Option<FileReport>> {
    let source = file::read(path)?;
    let cases = match CaseFile::read(&source.text, source.format(None)) {
        Ok(cases) => cases,
        Err(faults) => {
            report::faults(&source, &faults);
            return Ok(None);
        }
    };
    let mut policies = Vec::new();
    for wanted in cases.sources() {
        policies.push((wanted.clone(), load(path, wanted)?));
    }
    let find = |wanted: &PolicySource| {
        let found = policies.iter().find(|(source, _)| source == wanted);
        found.map_or(Err(&[][..]), |(_, loaded)| loaded.as_ref().map_err(Vec::as_slice))
    };
    Ok(Some(FileReport { file: source.name, cases: cases.run(&find) }))
}

fn load(cases: &Path, source: &PolicySource) -> Result<Result<Policy, Vec<Fault>>> {
    match source {
        PolicySource::Inline(json) => Ok(load_inline(json)),
        PolicySource::Path(name) => {
            let policy = file::read(&cases.parent().unwrap_or(Path::new("")).join(name))?;
            Ok(parse(&policy.text, policy.format(None)))
        }
    }
}

fn told(file: &FileReport) -> String {
    let mut out = String::new();
    for case in file.cases.iter().filter(|case| !case.differences.is_empty()) {
        out.push_str(&format!("FAILED {}: {}\n", shown(&file.file), shown(&case.name)));
        for difference in &case.differences {
            out.push_str(&format!("  {}\n", shown(difference)));
        }
        if let Some(step) = case.explanation.iter().flat_map(|told| &told.trace).find(|step| step.outcome == "refuse") {
            out.push_str(&format!(
                "  refused by {}: {}\n",
                shown(step.rule.as_deref().unwrap_or(step.step)),
                shown(&step.note)
            ));
        }
    }
    out
}
