//! From pieces to text: what goes on one line, and what is opened.

use super::remark::{Container, Piece, Remark, Shape, Sheet};

/// A line is not longer than this if it can be helped.
const WIDTH: usize = 100;
const INDENT: &str = "  ";

/// The level of rule blocks under `tools`, `categories`, `resources` and `prompts`.
const BLOCK: usize = 2;
/// A rule block that stands one level higher than the others, and is laid out like them.
const HIGH_BLOCK: &str = "\"all_tools\"";

pub(super) fn lay_out(sheet: &Sheet<'_>) -> String {
    let mut writer = Writer { out: String::new(), indent: 0 };
    writer.piece(&sheet.root, 0, true);
    for text in &sheet.root.behind {
        writer.remark_behind(text);
    }
    writer.out.push('\n');
    for remark in &sheet.tail {
        writer.remark(remark, false);
    }
    writer.out
}

struct Writer {
    out: String,
    indent: usize,
}

impl Writer {
    /// Writes the comments before a piece, its key and its value; level 0 is the document's.
    fn piece(&mut self, piece: &Piece<'_>, level: usize, is_first: bool) {
        for (at, remark) in piece.before.iter().enumerate() {
            self.remark(remark, is_first && at == 0);
        }
        if piece.is_apart && !(is_first && piece.before.is_empty()) {
            self.out.push('\n');
        }
        let line_start = self.out.len();
        self.margin();
        if let Some(key) = piece.key {
            self.out.push_str(key);
            self.out.push_str(": ");
        }
        match &piece.value {
            Shape::Scalar(text) => self.out.push_str(text),
            Shape::Container(container) => {
                // A comma may follow.
                let used = self.out.get(line_start..).unwrap_or_default().chars().count() + 1;
                let line = may_be_flat(container, level).then(|| flat(container, WIDTH.saturating_sub(used))).flatten();
                match line {
                    Some(line) => self.out.push_str(&line),
                    None => self.opened(container, level),
                }
            }
        }
    }

    fn opened(&mut self, container: &Container<'_>, level: usize) {
        let (open, close) = brackets(container);
        self.out.push_str(open);
        for text in &container.head {
            self.remark_behind(text);
        }
        self.out.push('\n');
        self.indent += 1;
        for (at, piece) in container.pieces.iter().enumerate() {
            let is_high = level == 0 && piece.key == Some(HIGH_BLOCK);
            self.piece(piece, if is_high { BLOCK } else { level + 1 }, at == 0);
            if at + 1 < container.pieces.len() {
                self.out.push(',');
            }
            for text in &piece.behind {
                self.remark_behind(text);
            }
            self.out.push('\n');
        }
        for (at, remark) in container.tail.iter().enumerate() {
            self.remark(remark, at == 0 && container.pieces.is_empty());
        }
        self.indent -= 1;
        self.margin();
        self.out.push_str(close);
    }

    /// Writes a comment on lines of its own.
    fn remark(&mut self, remark: &Remark<'_>, is_first: bool) {
        if remark.is_apart && !is_first {
            self.out.push('\n');
        }
        self.margin();
        self.out.push_str(remark.text);
        self.out.push('\n');
    }

    fn remark_behind(&mut self, text: &str) {
        self.out.push(' ');
        self.out.push_str(text);
    }

    fn margin(&mut self) {
        for _ in 0..self.indent {
            self.out.push_str(INDENT);
        }
    }
}

fn brackets(container: &Container<'_>) -> (&'static str, &'static str) {
    if container.is_object { ("{", "}") } else { ("[", "]") }
}

/// Whether a container is one that reads well on one line: rule blocks are opened, what stands in them is not.
fn may_be_flat(container: &Container<'_>, level: usize) -> bool {
    let is_scalar = |piece: &Piece<'_>| matches!(piece.value, Shape::Scalar(_));
    let has_scalars_only = container.pieces.iter().all(is_scalar);
    let is_plain_list = !container.is_object && has_scalars_only;
    let is_plain_block = level == BLOCK && has_scalars_only;
    let is_short = container.pieces.is_empty() || is_plain_list || is_plain_block || level > BLOCK;
    is_short && !container.has_remarks
}

/// The container on one line, if it has no more than this many characters.
fn flat(container: &Container<'_>, room: usize) -> Option<String> {
    let mut line = String::new();
    write_flat(container, room, &mut line)?;
    (line.chars().count() <= room).then_some(line)
}

fn write_flat(container: &Container<'_>, room: usize, line: &mut String) -> Option<()> {
    let (open, close) = brackets(container);
    let padding = if container.is_object && !container.pieces.is_empty() { " " } else { "" };
    line.push_str(open);
    line.push_str(padding);
    for (at, piece) in container.pieces.iter().enumerate() {
        line.push_str(if at > 0 { ", " } else { "" });
        if let Some(key) = piece.key {
            line.push_str(key);
            line.push_str(": ");
        }
        match &piece.value {
            Shape::Scalar(text) => line.push_str(text),
            Shape::Container(inner) => write_flat(inner, room, line)?,
        }
        // A character has at most four bytes; beyond that no counting is needed.
        if line.len() > 4 * room {
            return None;
        }
    }
    line.push_str(padding);
    line.push_str(close);
    Some(())
}
