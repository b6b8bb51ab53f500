//! Renders a commented document, and decides which containers go on one line.

use super::comment_attachment::{CommentedContainer, CommentedDocument, CommentedNode, CommentedValue, OwnLineComment};

/// Preferred maximum line width in characters; some lines cannot be made shorter.
const MAX_LINE_WIDTH: usize = 100;
const INDENT: &str = "  ";

/// Nesting level of rule blocks under `tools`, `categories`, `resources` and `prompts`.
const BLOCK_LEVEL: usize = 2;
/// Key of the only rule block at the top level of a policy. It is laid out like the other blocks, which are one level
/// deeper.
const ALL_TOOLS_KEY: &str = "\"all_tools\"";

pub(super) fn render_layout(document: &CommentedDocument<'_>) -> String {
    let mut writer = LayoutWriter { out: String::new(), indent: 0 };
    writer.write_node(&document.root, 0, true);
    for text in &document.root.trailing_comments {
        writer.write_trailing_comment(text);
    }
    writer.out.push('\n');
    for comment in &document.closing_comments {
        writer.write_comment(comment, false);
    }
    writer.out
}

struct LayoutWriter {
    out: String,
    indent: usize,
}

impl LayoutWriter {
    /// Writes a node: the comments in front of it, its key and its value. The root is at level 0.
    fn write_node(&mut self, node: &CommentedNode<'_>, level: usize, is_first: bool) {
        for (at, comment) in node.leading_comments.iter().enumerate() {
            self.write_comment(comment, is_first && at == 0);
        }
        if node.has_blank_line_before && !(is_first && node.leading_comments.is_empty()) {
            self.out.push('\n');
        }
        let line_start = self.out.len();
        self.write_indent();
        if let Some(key) = node.key {
            self.out.push_str(key);
            self.out.push_str(": ");
        }
        match &node.value {
            CommentedValue::Scalar(text) => self.out.push_str(text),
            CommentedValue::Container(container) => {
                // One more, because a comma may follow.
                let used = self.out.get(line_start..).unwrap_or_default().chars().count() + 1;
                let line = can_be_flat(container, level)
                    .then(|| flat_text(container, MAX_LINE_WIDTH.saturating_sub(used)))
                    .flatten();
                match line {
                    Some(line) => self.out.push_str(&line),
                    None => self.write_multiline(container, level),
                }
            }
        }
    }

    fn write_multiline(&mut self, container: &CommentedContainer<'_>, level: usize) {
        let (open, close) = brackets(container);
        self.out.push_str(open);
        for text in &container.opening_comments {
            self.write_trailing_comment(text);
        }
        self.out.push('\n');
        self.indent += 1;
        for (at, node) in container.nodes.iter().enumerate() {
            let is_high = level == 0 && node.key == Some(ALL_TOOLS_KEY);
            self.write_node(node, if is_high { BLOCK_LEVEL } else { level + 1 }, at == 0);
            if at + 1 < container.nodes.len() {
                self.out.push(',');
            }
            for text in &node.trailing_comments {
                self.write_trailing_comment(text);
            }
            self.out.push('\n');
        }
        for (at, comment) in container.closing_comments.iter().enumerate() {
            self.write_comment(comment, at == 0 && container.nodes.is_empty());
        }
        self.indent -= 1;
        self.write_indent();
        self.out.push_str(close);
    }

    /// Writes a comment on lines of its own.
    fn write_comment(&mut self, comment: &OwnLineComment<'_>, is_first: bool) {
        if comment.has_blank_line_before && !is_first {
            self.out.push('\n');
        }
        self.write_indent();
        self.out.push_str(comment.text);
        self.out.push('\n');
    }

    fn write_trailing_comment(&mut self, text: &str) {
        self.out.push(' ');
        self.out.push_str(text);
    }

    fn write_indent(&mut self) {
        for _ in 0..self.indent {
            self.out.push_str(INDENT);
        }
    }
}

fn brackets(container: &CommentedContainer<'_>) -> (&'static str, &'static str) {
    if container.is_object { ("{", "}") } else { ("[", "]") }
}

/// Returns whether a container may be written on one line. A rule block that contains lists or objects is split over
/// several lines, but each of these may be written on one line.
fn can_be_flat(container: &CommentedContainer<'_>, level: usize) -> bool {
    let is_scalar = |node: &CommentedNode<'_>| matches!(node.value, CommentedValue::Scalar(_));
    let has_scalars_only = container.nodes.iter().all(is_scalar);
    let is_plain_list = !container.is_object && has_scalars_only;
    let is_plain_block = level == BLOCK_LEVEL && has_scalars_only;
    let is_short = container.nodes.is_empty() || is_plain_list || is_plain_block || level > BLOCK_LEVEL;
    is_short && !container.has_comments
}

/// Formats a container on one line. `None` if that line would be longer than `room` characters.
fn flat_text(container: &CommentedContainer<'_>, room: usize) -> Option<String> {
    let mut line = String::new();
    write_flat(container, room, &mut line)?;
    (line.chars().count() <= room).then_some(line)
}

fn write_flat(container: &CommentedContainer<'_>, room: usize, line: &mut String) -> Option<()> {
    let (open, close) = brackets(container);
    let padding = if container.is_object && !container.nodes.is_empty() { " " } else { "" };
    line.push_str(open);
    line.push_str(padding);
    for (at, node) in container.nodes.iter().enumerate() {
        line.push_str(if at > 0 { ", " } else { "" });
        if let Some(key) = node.key {
            line.push_str(key);
            line.push_str(": ");
        }
        match &node.value {
            CommentedValue::Scalar(text) => line.push_str(text),
            CommentedValue::Container(inner) => write_flat(inner, room, line)?,
        }
        // A character has at most four bytes, so a longer line cannot fit.
        if line.len() > 4 * room {
            return None;
        }
    }
    line.push_str(padding);
    line.push_str(close);
    Some(())
}
