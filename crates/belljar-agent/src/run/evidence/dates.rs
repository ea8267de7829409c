//! Dates, however they are written.

use super::values::offset;

/// Year, month, day.
pub(super) type Date = [u32; 3];

const MONTHS: [&str; 12] = [
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
];

/// The dates of a text, each with its words. `1/6/2026` is two dates: it may be either.
pub(super) fn dates(text: &str) -> Vec<(&str, Date)> {
    let digits = runs(text);
    let mut found = Vec::new();
    for three in digits.windows(3) {
        let [a, b, c] = [three[0], three[1], three[2]];
        let between = |one: &str, two: &str| {
            let to = offset(text, one) + one.len();
            text[to..offset(text, two)].trim()
        };
        let whole = &text[offset(text, a)..offset(text, c) + c.len()];
        let (first, second) = (between(a, b), between(b, c));
        let orders: &[[&str; 3]] = match (a.len(), c.len(), first, second) {
            (4, 1 | 2, "-", "-")
            | (4, 1 | 2, "/", "/")
            | (4, 1 | 2, ",", ",")
            | (4, 1 | 2, "年", "月") => &[[a, b, c]],
            (1 | 2, 4, "/" | ".", "/" | ".") => &[[c, b, a], [c, a, b]],
            _ => continue,
        };
        found.extend(
            orders
                .iter()
                .filter_map(|parts| date(*parts))
                .map(|date| (whole, date)),
        );
    }
    for (at, month) in month_names(text) {
        let (before, after) = (text[..at].trim_end(), &text[at..]);
        let day_before = digits.iter().rfind(|run| offset(text, run) < at);
        let day_before = day_before.filter(|run| {
            before
                .trim_end_matches(['t', 'h', 's', 'n', 'd', 'r'])
                .ends_with(**run)
        });
        let mut next = digits.iter().filter(|run| offset(text, run) > at);
        let word = after
            .find(|c: char| !c.is_alphabetic())
            .unwrap_or(after.len());
        let (Some(one), two) = (next.next(), next.next()) else {
            continue;
        };
        let starts = after[word..]
            .trim_start_matches([' ', '.', ','])
            .starts_with(*one);
        let (from, day, year) = match (day_before, two) {
            _ if !starts => continue,
            (Some(day), _) if one.len() == 4 => (offset(text, day), *day, *one),
            (None, Some(year)) if one.len() <= 2 && year.len() == 4 => (at, *one, *year),
            _ => continue,
        };
        let whole = &text[from..offset(text, year) + year.len()];
        found.extend(date([year, &month.to_string(), day]).map(|date| (whole, date)));
    }
    found
}

fn date(parts: [&str; 3]) -> Option<Date> {
    let [year, month, day] = parts.map(|part| part.parse().unwrap_or(0));
    ((1..=12).contains(&month) && (1..=31).contains(&day)).then_some([year, month, day])
}

/// Digits that follow each other.
fn runs(text: &str) -> Vec<&str> {
    let runs = text.split(|c: char| !c.is_ascii_digit());
    runs.filter(|run| !run.is_empty()).collect()
}

fn month_names(text: &str) -> Vec<(usize, usize)> {
    let words = text.split(|c: char| !c.is_ascii_alphabetic());
    let months = words.filter(|word| word.len() >= 3).filter_map(|word| {
        let start = word[..3].to_lowercase();
        let month = MONTHS.iter().position(|month| *month == start)?;
        Some((offset(text, word), month + 1))
    });
    months.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_found_in_many_forms() {
        let june = [2026, 6, 15];
        for text in [
            "2026-06-15",
            "on 15 June 2026,",
            "June 15, 2026",
            "Jun. 15, 2026",
            "the 15th June 2026",
            "2026年6月15日",
            "datetime.date(2026, 6, 15)",
            "15/6/2026",
            "6/15/2026",
            "2026-06-15T07:00:00",
        ] {
            assert_eq!(
                dates(text).first().map(|(_, date)| *date),
                Some(june),
                "{text}"
            );
        }
        for text in ["1 2 3", "may 5", "2026", "10.0.0.7", "2026-13-40"] {
            assert!(dates(text).is_empty(), "{text}");
        }
        assert_eq!(dates("3/7/2026").len(), 2);
    }
}
