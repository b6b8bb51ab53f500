//! Suggestions for names that do not exist.

/// Suggests the nearest known name, or lists all known names.
pub fn suggest_name(word: &str, known: &[&str]) -> String {
    // A long word is not a misspelling, and comparing it is expensive.
    let short: String = word.chars().take(64).collect();
    let distance = |known: &&&str| strsim::damerau_levenshtein(&short, known);
    let nearest = known.iter().min_by_key(distance).filter(|nearest| distance(nearest) <= 1 + nearest.len() / 3);
    match nearest {
        Some(nearest) => format!("did you mean `{nearest}`?"),
        None if known.is_empty() => "there are none yet".to_owned(),
        None => {
            let all: Vec<String> = known.iter().map(|known| format!("`{known}`")).collect();
            let noun = if let [_] = known { "the only known name is" } else { "the known names are" };
            format!("{noun} {}", all.join(", "))
        }
    }
}
