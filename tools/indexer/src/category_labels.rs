//! Category labels of tools, which people assign and the classifier is trained and evaluated with.

use gatelodge_catalogue::{ReadToolError, ToolAnnotations, ToolEntry, category_name};
use gatelodge_policy::Category;

/// True category of a tool, as far as the label says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CategoryLabel {
    /// Exactly this category.
    Category(Category),
    /// Write, Execute or Financial. Labels that are derived from annotations cannot be more precise.
    NotReadNotDestructive,
}

impl CategoryLabel {
    /// Returns the label of a line, or `None` if the line has no `category`.
    pub fn of(item: &ToolEntry<'_>) -> Result<Option<Self>, ReadToolError> {
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

    /// Spelling of the label in files.
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
    /// The tool without its annotations: some labels are derived from them.
    pub item: ToolEntry<'a>,
    /// The label.
    pub label: Option<CategoryLabel>,
}

/// Reads the label of a tool and removes its annotations.
pub fn read_labelled_tool(item: ToolEntry<'_>) -> Result<LabelledTool<'_>, ReadToolError> {
    let label = CategoryLabel::of(&item)?;
    let mut item = item;
    item.tool.annotations = ToolAnnotations::default();
    Ok(LabelledTool { item, label })
}
