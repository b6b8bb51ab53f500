//! Category labels that people assigned to tools, used to train and evaluate the classifier.

use gatelodge_catalogue::{ReadToolError, ToolAnnotations, ToolListEntry, category_name};
use gatelodge_policy::Category;

/// The true category of a tool, as precise as its label allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CategoryLabel {
    /// The tool has exactly this category.
    Category(Category),
    /// The tool is Write, Execute or Financial. Labels derived from annotations cannot be more precise than this.
    NotReadNotDestructive,
}

impl CategoryLabel {
    /// Returns a tool's label from its line in a label file, or `None` if the line has no `category`.
    pub fn of(item: &ToolListEntry<'_>) -> Result<Option<Self>, ReadToolError> {
        let Some(label) = item.entry.get("category") else { return Ok(None) };
        let word = label.as_str().unwrap_or_default();
        if word.is_empty() {
            return Ok(None);
        }
        let found = match word.as_ref() {
            "NotReadNotDestructive" => Some(Self::NotReadNotDestructive),
            word => Category::from_word(&word.to_lowercase()).map(Self::Category),
        };
        let why = || "`category` is Read, Write, Execute, Destructive, Financial or NotReadNotDestructive".to_owned();
        found.map(Some).ok_or_else(|| ReadToolError { number: item.line_number, why: why() })
    }

    /// Returns whether a predicted category is compatible with the label.
    pub fn matches(self, category: Category) -> bool {
        match self {
            Self::Category(own) => own == category,
            Self::NotReadNotDestructive => {
                matches!(category, Category::Write | Category::Execute | Category::Financial)
            }
        }
    }

    /// Returns whether the label is Read.
    pub fn is_read(self) -> bool {
        self == Self::Category(Category::Read)
    }

    /// Returns whether the label is Destructive.
    pub fn is_destructive(self) -> bool {
        self == Self::Category(Category::Destructive)
    }

    /// Returns the label as it is spelled in label files.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Category(category) => category_name(category),
            Self::NotReadNotDestructive => "NotReadNotDestructive",
        }
    }
}

/// A tool with its label, if it has one.
#[derive(Debug)]
pub struct LabeledTool<'a> {
    /// The tool without its annotations, because some labels are derived from them.
    pub item: ToolListEntry<'a>,
    /// The tool's label, if it has one.
    pub label: Option<CategoryLabel>,
}

/// Reads a tool's label and removes the tool's annotations.
pub fn read_labeled_tool(item: ToolListEntry<'_>) -> Result<LabeledTool<'_>, ReadToolError> {
    let label = CategoryLabel::of(&item)?;
    let mut item = item;
    item.tool.annotations = ToolAnnotations::default();
    Ok(LabeledTool { item, label })
}
