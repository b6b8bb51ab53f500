//! Accuracy of the classifier, measured against labels.

use std::collections::BTreeMap;

use gatelodge_catalogue::{Classification, category_name, escape_for_display};
use gatelodge_policy::Category;
use serde::Serialize;

use crate::category_labels::CategoryLabel;
use crate::training::HeldOutPrediction;

/// Number of confidence bins. All bins have the same width.
const BIN_COUNT: usize = 10;

/// The number of cases that met a criterion, out of a total.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct EvaluationRatio {
    /// Number of cases that met the criterion.
    pub count: usize,
    /// Total number of cases.
    #[serde(rename = "of")]
    pub total: usize,
}

impl EvaluationRatio {
    fn add(&mut self, counts: bool) {
        self.total += 1;
        self.count += usize::from(counts);
    }

    /// Returns the ratio, from 0 to 1, or 0 if there are no cases.
    pub fn ratio(self) -> f64 {
        if self.total == 0 { 0.0 } else { self.count as f64 / self.total as f64 }
    }
}

/// Precision and recall of one category.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct PrecisionRecall {
    /// Of the tools classified as this category, how many are labeled with it.
    pub precision: EvaluationRatio,
    /// Of the tools labeled with this category, how many were classified as it.
    pub recall: EvaluationRatio,
}

/// One confidence bin of the calibration table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct ConfidenceBin {
    /// Number of predictions in this bin, and how many of them were right.
    pub right: EvaluationRatio,
    /// Sum of the confidences in this bin.
    #[serde(rename = "claimed")]
    pub confidence_sum: f64,
}

/// A tool that was classified wrongly.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Misclassification {
    /// The server that offers the tool.
    pub server: String,
    /// Name of the tool.
    pub tool: String,
    /// The tool's label.
    pub label: &'static str,
    /// The predicted category.
    pub answer: &'static str,
    /// Confidence of the prediction.
    pub confidence: f64,
    /// The classifier's rationale.
    pub rationale: String,
    /// Severity of the mistake, by which mistakes are sorted. Classifying a tool as Read when it is not is the most
    /// severe mistake.
    #[serde(skip)]
    severity: u8,
}

/// All results of an evaluation.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ClassifierEvaluation {
    /// Number of labeled tools, and how many of them were classified correctly.
    pub right: EvaluationRatio,
    /// Number of tools without a label. They only provide context for the labeled tools of the same server.
    pub unlabeled: usize,
    /// How often the prediction and the label agree on whether the tool is Read.
    pub read_or_not: EvaluationRatio,
    /// How often the prediction and the label agree on whether the tool is Destructive.
    pub destructive_or_not: EvaluationRatio,
    /// Of the tools that are not Read, how many were classified as Read.
    #[serde(rename = "called_read")]
    pub misread_as_read: EvaluationRatio,
    /// Precision and recall for each category. Precision is keyed by the predicted category, recall by the label.
    pub categories: BTreeMap<&'static str, PrecisionRecall>,
    /// Number of tools by label, then by predicted category.
    pub confusion: BTreeMap<&'static str, BTreeMap<&'static str, usize>>,
    /// The calibration table.
    pub bins: [ConfidenceBin; BIN_COUNT],
    /// All mistakes, worst first.
    #[serde(skip)]
    pub mistakes: Vec<Misclassification>,
}

impl ClassifierEvaluation {
    /// Adds the prediction for one tool.
    pub fn add(&mut self, server: &str, tool: &str, label: Option<CategoryLabel>, answer: &Classification) {
        let Some(label) = label else {
            self.unlabeled += 1;
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

    /// Adds a prediction for a tool that was held out of training.
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

    /// Sorts the mistakes: tools wrongly classified as Read first, then missed Destructive tools, then by confidence.
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

    /// Returns the expected calibration error: the mean distance between confidence and accuracy over all bins.
    pub fn calibration_error(&self) -> f64 {
        let all = self.right.total.max(1) as f64;
        let distance = |bin: &ConfidenceBin| (bin.confidence_sum - bin.right.count as f64).abs() / all;
        self.bins.iter().map(distance).sum()
    }
}
