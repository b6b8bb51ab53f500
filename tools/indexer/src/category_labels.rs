//! Category labels of tools. People assign them, and the classifier is trained and evaluated with them.

use gatelodge_catalogue::{ReadToolError, ToolAnnotations, ToolListEntry, category_name};
use gatelodge_policy::Category;

/// The true category of a tool, as precisely as the label states it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CategoryLabel {
    /// The tool has exactly this category.
    Category(Category),
    /// Write, Execute or Financial. Labels derived from annotations cannot be more precise than this.
    NotReadNotDestructive,
}

impl CategoryLabel {
    /// Returns the label that a line gives its tool, or `None` if the line has no `category`.
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

    /// Whether a predicted category agrees with the label.
    pub fn matches(self, category: Category) -> bool {
        match self {
            Self::Category(own) => own == category,
            Self::NotReadNotDestructive => {
                matches!(category, Category::Write | Category::Execute | Category::Financial)
            }
        }
    }

    /// Whether the label is Read.
    pub fn is_read(self) -> bool {
        self == Self::Category(Category::Read)
    }

    /// Whether the label is Destructive.
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
pub struct LabelledTool<'a> {
    /// The tool without its annotations, because some labels are derived from them.
    pub item: ToolListEntry<'a>,
    /// The label, if the line has one.
    pub label: Option<CategoryLabel>,
}

/// Reads a tool's label and removes the tool's annotations.
pub fn read_labelled_tool(item: ToolListEntry<'_>) -> Result<LabelledTool<'_>, ReadToolError> {
    let label = CategoryLabel::of(&item)?;
    let mut item = item;
    item.tool.annotations = ToolAnnotations::default();
    Ok(LabelledTool { item, label })
}
