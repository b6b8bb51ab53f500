//! How good the classifier is, held against labels.

use std::collections::BTreeMap;

use gatelodge_catalogue::{Classification, category_name, escape_for_display};
use gatelodge_policy::Category;
use serde::Serialize;

use crate::labels::Label;
use crate::train::Unseen;

/// Into so many bins confidences are sorted.
const BINS: usize = 10;

/// A part of a whole.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Share {
    /// How many.
    pub count: usize,
    /// Of how many.
    pub of: usize,
}

impl Share {
    fn add(&mut self, counts: bool) {
        self.of += 1;
        self.count += usize::from(counts);
    }

    /// The share, 0 to 1; of nothing it is 0.
    pub fn value(self) -> f64 {
        if self.of == 0 { 0.0 } else { self.count as f64 / self.of as f64 }
    }
}

/// Precision and recall.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Counts {
    /// Of those that we call so, how many are.
    pub precision: Share,
    /// Of those that are so, how many we call so.
    pub recall: Share,
}

/// One bin of confidences.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Bin {
    /// How many were right.
    pub right: Share,
    /// What they claimed together.
    pub claimed: f64,
}

/// A wrong answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Mistake {
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
    harm: u8,
}

/// All figures.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Evaluation {
    /// Tools with a label, and how many were right.
    pub right: Share,
    /// Lines without a label; they count as siblings only.
    pub unlabelled: usize,
    /// Read or not: how many agree.
    pub read_or_not: Share,
    /// Destructive or not: how many agree.
    pub destructive_or_not: Share,
    /// Of those that are not Read, how many were called Read.
    pub called_read: Share,
    /// By what we said (precision) and by label (recall).
    pub categories: BTreeMap<&'static str, Counts>,
    /// By label, then by what we said.
    pub confusion: BTreeMap<&'static str, BTreeMap<&'static str, usize>>,
    /// Ten bins of confidence.
    pub bins: [Bin; BINS],
    /// All wrong answers, the worst first.
    #[serde(skip)]
    pub mistakes: Vec<Mistake>,
}

impl Evaluation {
    /// Adds one answer.
    pub fn add(&mut self, server: &str, tool: &str, label: Option<Label>, answer: &Classification) {
        let Some(label) = label else {
            self.unlabelled += 1;
            return;
        };
        self.count(label, answer.category, answer.confidence);
        if !label.fits(answer.category) {
            self.mistakes.push(Mistake {
                server: escape_for_display(server),
                tool: escape_for_display(tool),
                label: label.as_str(),
                answer: category_name(answer.category),
                confidence: answer.confidence,
                rationale: answer.rationale.clone(),
                harm: if answer.category == Category::Read { 2 } else { u8::from(label.is_destructive()) },
            });
        }
    }

    /// Adds a tool that was judged while learning.
    pub fn add_unseen(&mut self, unseen: &Unseen) {
        self.count(unseen.label, unseen.category, unseen.confidence);
    }

    fn count(&mut self, label: Label, category: Category, confidence: f64) {
        let is_right = label.fits(category);
        let (is_read, is_gone) = (category == Category::Read, category == Category::Destructive);
        self.right.add(is_right);
        self.read_or_not.add(label.is_read() == is_read);
        self.destructive_or_not.add(label.is_destructive() == is_gone);
        if !label.is_read() {
            self.called_read.add(is_read);
        }
        self.categories.entry(category_name(category)).or_default().precision.add(is_right);
        self.categories.entry(label.as_str()).or_default().recall.add(is_right);
        *self.confusion.entry(label.as_str()).or_default().entry(category_name(category)).or_default() += 1;
        let bin = ((confidence * BINS as f64) as usize).min(BINS - 1);
        if let Some(bin) = self.bins.get_mut(bin) {
            bin.right.add(is_right);
            bin.claimed += confidence;
        }
    }

    /// Sorts the mistakes, the worst first: what was called Read, then what destroys, then by how sure we were.
    pub fn finish(&mut self) {
        self.mistakes.sort_by(|one, other| {
            let sure = other.confidence.total_cmp(&one.confidence);
            other
                .harm
                .cmp(&one.harm)
                .then(sure)
                .then_with(|| (&one.server, &one.tool).cmp(&(&other.server, &other.tool)))
        });
    }

    /// The expected calibration error: how far claims are from what was right, over all bins.
    pub fn calibration_error(&self) -> f64 {
        let all = self.right.of.max(1) as f64;
        let apart = |bin: &Bin| (bin.claimed - bin.right.count as f64).abs() / all;
        self.bins.iter().map(apart).sum()
    }
}
