//! `eval`: evaluates the classifier against labels.

use std::collections::BTreeMap;

use anyhow::Result;
use gatelodge_catalogue::{ReadToolError, ServerContext, ToolListEntry, classify, read_tools};
use gatelodge_indexer::{ClassifierEvaluation, EvaluationRatio, LabeledTool, read_labeled_tool};
use serde_json::json;

use crate::cli::EvaluateClassifierArgs;
use crate::console_output::{self, say, shown};
use crate::exit::IndexerExitCode;
use crate::file_io;

pub fn run(args: &EvaluateClassifierArgs) -> Result<IndexerExitCode> {
    let text = file_io::read(&args.labels)?;
    let documents = read_tools(&text);
    let (mut tools, mut errors): (Vec<LabeledTool<'_>>, Vec<ReadToolError>) = (Vec::new(), Vec::new());
    for (number, document) in &documents {
        let items = match document {
            Ok(document) => ToolListEntry::read_all(document, *number),
            Err(error) => vec![Err(error.clone())],
        };
        for item in items {
            match item.and_then(read_labeled_tool) {
                Ok(tool) => tools.push(tool),
                Err(error) => errors.push(error),
            }
        }
    }
    let evaluation = evaluate(&tools);
    match args.json {
        true => console_output::json(&evaluation_json(&evaluation, args.worst))?,
        false => console_output::print(&evaluation_text(&evaluation, args.worst))?,
    }
    report_refused(&errors);
    Ok(if errors.is_empty() { IndexerExitCode::Fine } else { IndexerExitCode::Findings })
}

/// Groups the tools by server, because the classifier also looks at sibling tools.
fn servers<'t>(tools: impl IntoIterator<Item = &'t ToolListEntry<'t>>) -> BTreeMap<String, ServerContext> {
    let mut families: BTreeMap<String, (String, Vec<&str>)> = BTreeMap::new();
    for item in tools {
        let family = families.entry(item.server_key()).or_insert_with(|| (item.server.to_string(), Vec::new()));
        family.1.push(&item.tool.name);
    }
    families.into_iter().map(|(family, (name, tools))| (family, ServerContext::new(&name, None, tools))).collect()
}

fn report_refused(errors: &[ReadToolError]) {
    const MAX_REPORTED_TOOL_ERRORS: usize = 20;
    for error in errors.iter().take(MAX_REPORTED_TOOL_ERRORS) {
        say(&format!("not classified: {}", shown(&error.to_string())));
    }
    if errors.len() > MAX_REPORTED_TOOL_ERRORS {
        say(&format!("and {} more", errors.len() - MAX_REPORTED_TOOL_ERRORS));
    }
}

fn evaluate(tools: &[LabeledTool<'_>]) -> ClassifierEvaluation {
    let servers = servers(tools.iter().map(|tool| &tool.item));
    let no_context = ServerContext::default();
    let mut evaluation = ClassifierEvaluation::default();
    for LabeledTool { item, label } in tools {
        let answer = classify(&item.tool, servers.get(&item.server_key()).unwrap_or(&no_context));
        evaluation.add(&item.server, &item.tool.name, *label, &answer);
    }
    evaluation.sort_mistakes();
    evaluation
}

fn evaluation_json(evaluation: &ClassifierEvaluation, worst: usize) -> serde_json::Value {
    let mistakes: Vec<_> = evaluation.mistakes.iter().take(worst).collect();
    json!({"figures": evaluation, "calibration_error": evaluation.calibration_error(), "worst": mistakes})
}

fn evaluation_text(evaluation: &ClassifierEvaluation, worst: usize) -> String {
    let mut out = console_output::table(&[
        ratio_row("right", evaluation.right),
        ratio_row("Read or not", evaluation.read_or_not),
        ratio_row("Destructive or not", evaluation.destructive_or_not),
        ratio_row("not Read, but classified as Read", evaluation.misread_as_read),
        vec!["calibration error".to_owned(), format!("{:.3}", evaluation.calibration_error())],
        vec!["without a label".to_owned(), evaluation.unlabeled.to_string()],
    ]);
    out.push_str(&format!("\n{}", console_output::table(&category_rows(evaluation))));
    out.push_str(&format!("\n{}", console_output::table(&confusion_rows(evaluation))));
    out.push_str(&format!("\n{}", console_output::table(&calibration_rows(evaluation))));
    for mistake in evaluation.mistakes.iter().take(worst) {
        let (server, tool) = (shown(&mistake.server), shown(&mistake.tool));
        let (label, answer) = (mistake.label, mistake.answer);
        let why = &mistake.rationale;
        out.push_str(&format!(
            "\n{server} / {tool}: is {label}, called {answer} ({:.2})\n  {why}\n",
            mistake.confidence
        ));
    }
    out
}

fn ratio_row(name: &str, share: EvaluationRatio) -> Vec<String> {
    vec![name.to_owned(), percent_text(share), format!("{} of {}", share.count, share.total)]
}

fn percent_text(share: EvaluationRatio) -> String {
    if share.total == 0 { "–".to_owned() } else { format!("{:.1} %", 100.0 * share.ratio()) }
}

fn category_rows(evaluation: &ClassifierEvaluation) -> Vec<Vec<String>> {
    let mut rows = vec![["", "precision", "", "recall", ""].map(str::to_owned).to_vec()];
    for (name, counts) in &evaluation.categories {
        let (precision, recall) = (counts.precision, counts.recall);
        let of = |share: EvaluationRatio| format!("{} of {}", share.count, share.total);
        rows.push(vec![(*name).to_owned(), percent_text(precision), of(precision), percent_text(recall), of(recall)]);
    }
    rows
}

/// Formats the confusion matrix: one row per label, one column per prediction.
fn confusion_rows(evaluation: &ClassifierEvaluation) -> Vec<Vec<String>> {
    let mut answers: Vec<&str> = evaluation.confusion.values().flat_map(|row| row.keys().copied()).collect();
    answers.sort_unstable();
    answers.dedup();
    let mut rows = vec![std::iter::once("is \\ called").chain(answers.iter().copied()).map(str::to_owned).collect()];
    for (label, row) in &evaluation.confusion {
        let counts = answers.iter().map(|answer| row.get(answer).copied().unwrap_or_default().to_string());
        rows.push(std::iter::once((*label).to_owned()).chain(counts).collect());
    }
    rows
}

/// Formats the calibration table: for each bin the mean confidence, the accuracy and a bar showing the accuracy.
fn calibration_rows(evaluation: &ClassifierEvaluation) -> Vec<Vec<String>> {
    const BAR_WIDTH: f64 = 40.0;
    let mut rows = vec![["confidence", "tools", "claimed", "right", ""].map(str::to_owned).to_vec()];
    for (at, bin) in evaluation.bins.iter().enumerate() {
        let count = bin.right.total;
        let claimed = if count == 0 { 0.0 } else { bin.confidence_sum / count as f64 };
        let bar = "█".repeat((bin.right.ratio() * BAR_WIDTH).round() as usize);
        let range = format!("{:.1} to {:.1}", at as f64 / 10.0, (at + 1) as f64 / 10.0);
        let (claimed, right) = if count == 0 {
            ("–".into(), "–".into())
        } else {
            (format!("{claimed:.2}"), format!("{:.2}", bin.right.ratio()))
        };
        rows.push(vec![range, count.to_string(), claimed, right, bar]);
    }
    rows
}
