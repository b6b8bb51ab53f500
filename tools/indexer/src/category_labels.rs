//! Labels: what a tool truly is, as somebody said.

use gatelodge_catalogue::{ReadToolError, ToolAnnotations, ToolEntry, category_name};
use gatelodge_policy::Category;

/// What is said of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CategoryLabel {
    /// Exactly this.
    Category(Category),
    /// It changes something and removes nothing: Write, Execute or Financial. Annotations say no more.
    NotReadNotDestructive,
}

impl CategoryLabel {
    /// The label that a line has; none if it has none.
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

    /// Whether an answer is right.
    pub fn matches(self, category: Category) -> bool {
        match self {
            Self::Category(own) => own == category,
            Self::NotReadNotDestructive => {
                matches!(category, Category::Write | Category::Execute | Category::Financial)
            }
        }
    }

    /// Whether it is Read.
    pub fn is_read(self) -> bool {
        self == Self::Category(Category::Read)
    }

    /// Whether it is Destructive.
    pub fn is_destructive(self) -> bool {
        self == Self::Category(Category::Destructive)
    }

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Category(category) => category_name(category),
            Self::NotReadNotDestructive => "NotReadNotDestructive",
        }
    }
}

/// A tool and what it truly is, if that is said.
#[derive(Debug)]
pub struct LabelledTool<'a> {
    /// The tool, without the server's claims: they are what labels are made from.
    pub item: ToolEntry<'a>,
    /// What it is.
    pub label: Option<CategoryLabel>,
}

/// Reads labels beside tools; the server's own claims are hidden.
pub fn read_labelled_tool(item: ToolEntry<'_>) -> Result<LabelledTool<'_>, ReadToolError> {
    let label = CategoryLabel::of(&item)?;
    let mut item = item;
    item.tool.annotations = ToolAnnotations::default();
    Ok(LabelledTool { item, label })
}
