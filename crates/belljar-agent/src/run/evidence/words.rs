//! Words of outputs and answers, so that "northern" finds `North` and `weight_g` has a weight.

/// Words that name nothing.
const EMPTY: [&str; 29] = [
    "the", "of", "is", "and", "or", "in", "for", "with", "by", "to", "at", "on", "was", "were",
    "are", "has", "have", "s", "nan", "none", "true", "false", "dtype", "name", "float64", "int64",
    "object", "np", "array",
];

/// The words of a text that may name a number, in small letters, each once.
pub(super) fn labels(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for word in pieces(text) {
        let word = stem(word);
        let is_name = word.chars().any(char::is_alphabetic);
        if is_name && !EMPTY.contains(&word.as_str()) && !found.contains(&word) {
            found.push(word);
        }
    }
    found
}

/// Where a text has a word: the first byte of each.
pub(super) fn mentions(text: &str, label: &str) -> Vec<usize> {
    if !label.is_ascii() {
        let text = text.to_lowercase();
        return text.match_indices(label).map(|(at, _)| at).collect();
    }
    let start = text.as_ptr() as usize;
    pieces(text)
        .filter(|word| is_same(&stem(word), label))
        .map(|word| word.as_ptr() as usize - start)
        .collect()
}

/// Whether a text has one of these words.
pub(super) fn says(text: &str, words: &[&str]) -> bool {
    words.iter().any(|word| !mentions(text, word).is_empty())
}

/// Words, with the numbers that belong to them: `A-3`, `2024-01`.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let ends = |c: char| !(c.is_alphanumeric() || c == '-');
    text.split(ends)
        .map(|word| word.trim_matches('-'))
        .filter(|word| !word.is_empty())
        // In Chinese and English at once, each is a word.
        .flat_map(|word| {
            let at = word.char_indices().zip(word.chars().skip(1));
            let cut = at.filter(|((_, one), two)| one.is_ascii() != two.is_ascii());
            let mut from = 0;
            let mut parts = Vec::new();
            for ((at, one), _) in cut {
                let to = at + one.len_utf8();
                parts.push(&word[from..to]);
                from = to;
            }
            parts.push(&word[from..]);
            parts
        })
}

fn stem(word: &str) -> String {
    let word = word.to_lowercase();
    let shorter = |end: &str| word.strip_suffix(end).filter(|rest| rest.len() > 2);
    let plain = shorter("ern")
        .or_else(|| shorter("'s"))
        .or_else(|| shorter("s"));
    plain.map_or(word.clone(), str::to_owned)
}

fn is_same(one: &str, other: &str) -> bool {
    let (short, long) = if one.len() < other.len() {
        (one, other)
    } else {
        (other, one)
    };
    one == other || short.len() >= 5 && long.len() <= short.len() + 3 && long.starts_with(short)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_in_their_forms() {
        assert_eq!(
            labels("The North_region's A-3: "),
            ["north", "region", "a-3"]
        );
        assert_eq!(mentions("the northern regions", "north"), [4]);
        assert_eq!(mentions("the northern regions", "region"), [13]);
        assert_eq!(mentions("华东地区", "华东"), [0]);
        assert!(mentions("the south", "north").is_empty());
    }
}
