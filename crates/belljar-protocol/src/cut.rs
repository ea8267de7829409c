//! Counting what is left out of a text that is cut more than once on its way.

/// How many bytes a reader misses without this part of a text. A mark in it, of an earlier cut, counts
/// for what it stands for: else the count would be that of the last cut only.
pub fn bytes_left_out(part: &str) -> usize {
    let mut bytes = part.len();
    for (at, _) in part.match_indices('[') {
        if let Some((mark, left_out)) = mark(&part[at..]) {
            bytes = (bytes - mark).saturating_add(left_out);
        }
    }
    bytes
}

/// The length of the mark that a text begins with, and its count. Characters count as bytes, of which they
/// are at least one.
fn mark(text: &str) -> Option<(usize, usize)> {
    let (dots, rest) = ["… ", "... "]
        .into_iter()
        .find_map(|dots| Some((dots, text.strip_prefix('[')?.strip_prefix(dots)?)))?;
    let (count, rest) = rest.split_once(' ')?;
    let count = count.parse().ok()?;
    let rest = rest
        .strip_prefix("bytes ")
        .or_else(|| rest.strip_prefix("characters "))?;
    let rest = rest.strip_prefix("are ").unwrap_or(rest);
    let rest = rest.strip_prefix("left out ")?;
    let rest = rest.strip_prefix("here ").unwrap_or(rest);
    let rest = rest.strip_prefix(dots.trim_end())?.strip_prefix(']')?;
    Some((text.len() - rest.len(), count))
}

#[cfg(test)]
mod tests {
    use super::bytes_left_out;

    #[test]
    fn an_earlier_cut_counts_for_what_it_left_out() {
        assert_eq!(bytes_left_out(""), 0);
        assert_eq!(bytes_left_out("äb"), 3);
        for mark in [
            "[… 434600 bytes left out …]",
            "[... 434600 characters left out ...]",
            "[… 434600 bytes are left out here …]",
        ] {
            assert_eq!(bytes_left_out(mark), 434_600, "{mark}");
            assert_eq!(bytes_left_out(&format!("a[{mark}]b")), 434_604, "{mark}");
        }
    }

    #[test]
    fn what_only_looks_like_a_mark_is_text() {
        for text in [
            "[… many bytes left out …]",
            "[… 5 bytes left out",
            "[... 99999999999999999999999 characters left out ...]",
            "[",
            "[… ",
        ] {
            assert_eq!(bytes_left_out(text), text.len(), "{text}");
        }
        let huge = format!("[… {} bytes left out …]", usize::MAX).repeat(2);
        assert_eq!(bytes_left_out(&huge), usize::MAX);
    }
}
