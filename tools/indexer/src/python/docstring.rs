//! Removes indentation from docstrings.

/// Removes the indentation from a docstring in the same way as Python does.
pub fn clean_docstring(text: &str) -> String {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let rest = text.lines().skip(1).filter(|line| !line.trim().is_empty());
    let margin = rest.map(indent).min().unwrap_or_default();
    let mut lines = text.lines();
    let mut out = lines.next().unwrap_or_default().trim().to_owned();
    for line in lines {
        out.push('\n');
        out.push_str(line.get(margin..).unwrap_or(line.trim_start()).trim_end());
    }
    out.trim().to_owned()
}
