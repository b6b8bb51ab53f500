//! How good the classifier is, held against labels.

use std::collections::BTreeMap;

use gatelodge_catalogue::{Classification, category_name, escape_for_display};
use gatelodge_policy::Category;
use serde::Serialize;

use crate::category_labels::CategoryLabel;
use crate::training::HeldOutPrediction;

/// Into so many bins confidences are sorted.
const BIN_COUNT: usize = 10;

/// A part of a whole.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct EvaluationRatio {
    /// How many.
    pub count: usize,
    /// Of how many.
    #[serde(rename = "of")]
    pub total: usize,
}

impl EvaluationRatio {
    fn add(&mut self, counts: bool) {
        self.total += 1;
        self.count += usize::from(counts);
    }

    /// The share, 0 to 1; of nothing it is 0.
    pub fn ratio(self) -> f64 {
        if self.total == 0 { 0.0 } else { self.count as f64 / self.total as f64 }
    }
}

/// Precision and recall.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct PrecisionRecall {
    /// Of those that we call so, how many are.
    pub precision: EvaluationRatio,
    /// Of those that are so, how many we call so.
    pub recall: EvaluationRatio,
}

/// One bin of confidences.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct ConfidenceBin {
    /// How many were right.
    pub right: EvaluationRatio,
    /// What they claimed together.
    #[serde(rename = "claimed")]
    pub confidence_sum: f64,
}

/// A wrong answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Misclassification {
    /// The server.
    pub server: String,
    /// The tool.
    pub tool: String,
    /// What it is.
    pub label: &'static str,
    /// What we said.
    pub answer: &'static str,
    /// How sure we were.
    pub confidence: f64,
    /// Why.
    pub rationale: String,
    /// A tool that is not Read and was called Read is the worst.
    #[serde(skip)]
    severity: u8,
}

/// All figures.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ClassifierEvaluation {
    /// Tools with a label, and how many were right.
    pub right: EvaluationRatio,
    /// Lines without a label; they count as siblings only.
    pub unlabelled: usize,
    /// Read or not: how many agree.
    pub read_or_not: EvaluationRatio,
    /// Destructive or not: how many agree.
    pub destructive_or_not: EvaluationRatio,
    /// Of those that are not Read, how many were called Read.
    #[serde(rename = "called_read")]
    pub misread_as_read: EvaluationRatio,
    /// By what we said (precision) and by label (recall).
    pub categories: BTreeMap<&'static str, PrecisionRecall>,
    /// By label, then by what we said.
    pub confusion: BTreeMap<&'static str, BTreeMap<&'static str, usize>>,
    /// Ten bins of confidence.
    pub bins: [ConfidenceBin; BIN_COUNT],
    /// All wrong answers, the worst first.
    #[serde(skip)]
    pub mistakes: Vec<Misclassification>,
}

impl ClassifierEvaluation {
    /// Adds one answer.
    pub fn add(&mut self, server: &str, tool: &str, label: Option<CategoryLabel>, answer: &Classification) {
        let Some(label) = label else {
            self.unlabelled += 1;
            return;
        };
        self.count(label, answer.category, answer.confidence);
        if !label.matches(answer.category) {
            self.mistakes.push(Misclassification {
                server: escape_for_display(server),
                tool: escape_for_display(tool),
                label: label.as_str(),
                answer: category_name(answer.category),
                confidence: answer.confidence,
                rationale: answer.rationale.clone(),
                severity: if answer.category == Category::Read { 2 } else { u8::from(label.is_destructive()) },
            });
        }
    }

    /// Adds a tool that was judged while learning.
    pub fn add_held_out(&mut self, unseen: &HeldOutPrediction) {
        self.count(unseen.label, unseen.category, unseen.confidence);
    }

    fn count(&mut self, label: CategoryLabel, category: Category, confidence: f64) {
        let is_right = label.matches(category);
        let (is_read, is_gone) = (category == Category::Read, category == Category::Destructive);
        self.right.add(is_right);
        self.read_or_not.add(label.is_read() == is_read);
        self.destructive_or_not.add(label.is_destructive() == is_gone);
        if !label.is_read() {
            self.misread_as_read.add(is_read);
        }
        self.categories.entry(category_name(category)).or_default().precision.add(is_right);
        self.categories.entry(label.as_str()).or_default().recall.add(is_right);
        *self.confusion.entry(label.as_str()).or_default().entry(category_name(category)).or_default() += 1;
        let bin = ((confidence * BIN_COUNT as f64) as usize).min(BIN_COUNT - 1);
        if let Some(bin) = self.bins.get_mut(bin) {
            bin.right.add(is_right);
            bin.confidence_sum += confidence;
        }
    }

    /// Sorts the mistakes, the worst first: what was called Read, then what destroys, then by how sure we were.
    pub fn sort_mistakes(&mut self) {
        self.mistakes.sort_by(|one, other| {
            let sure = other.confidence.total_cmp(&one.confidence);
            other
                .severity
                .cmp(&one.severity)
                .then(sure)
                .then_with(|| (&one.server, &one.tool).cmp(&(&other.server, &other.tool)))
        });
    }

    /// The expected calibration error: how far claims are from what was right, over all bins.
    pub fn calibration_error(&self) -> f64 {
        let all = self.right.total.max(1) as f64;
        let apart = |bin: &ConfidenceBin| (bin.confidence_sum - bin.right.count as f64).abs() / all;
        self.bins.iter().map(apart).sum()
    }
}
