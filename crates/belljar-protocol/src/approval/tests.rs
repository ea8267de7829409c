use proptest::prelude::*;

use super::*;

#[path = "tricks.rs"]
mod tricks;

/// As plain text: a row a line, without numbers.
fn text(code: &str) -> String {
    let rows = Shown::new(code).rows;
    let mut out = String::new();
    for row in &rows {
        out.push_str(if row.line.is_some() { "\n" } else { "\n┊" });
        out.push_str(&row.text());
    }
    out.trim_start_matches('\n').to_owned()
}

/// The code that rows were made of: if there is a way back, no two codes are shown alike.
fn code_of(shown: &Shown) -> String {
    // Rows that continue a line belong to it; those after a carriage return don't.
    let mut lines: Vec<String> = Vec::new();
    for row in &shown.rows {
        match lines.last_mut() {
            Some(line) if row.line.is_none() && !line.ends_with("⟨carriage return⟩") => {
                line.push_str(&row.text());
            }
            _ => lines.push(row.text()),
        }
    }
    let number = |words: &str| -> usize {
        let (number, _) = words.split_once(' ').unwrap();
        number.replace(',', "").parse().unwrap()
    };
    let mut code = String::new();
    for line in &lines {
        if let Some((mark, of)) = line.strip_prefix('⟨').and_then(|mark| mark.split_once('⟩')) {
            if mark.contains(" lines of this") || mark.contains(" line of this") {
                code.push_str(&line_of(of).repeat(number(mark)));
                continue;
            }
            if mark.contains("empty line") {
                code.push_str(&"\n".repeat(number(mark)));
                continue;
            }
            if let Some((lines, blanks)) = mark.split_once(" of ") {
                let blanks = line_of(&format!("⟨{blanks}⟩"));
                code.push_str(&blanks.repeat(number(lines)));
                continue;
            }
        }
        code.push_str(&line_of(line));
    }
    code
}

fn line_of(text: &str) -> String {
    let mut code = String::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if let Some(escape) = rest.strip_prefix("\\u{") {
            let (number, after) = escape.split_once('}').unwrap();
            let number = u32::from_str_radix(number, 16).unwrap();
            code.push(char::from_u32(number).unwrap());
            rest = after;
        } else if let Some(after) = rest.strip_prefix(TAB) {
            code.push('\t');
            rest = after;
        } else if let Some(mark) = rest.strip_prefix('⟨') {
            let (mark, after) = mark.split_once('⟩').unwrap();
            rest = after;
            if mark == "carriage return" {
                assert_eq!(rest, "");
                return code + "\r";
            }
            let number = |words: &str| -> usize { words.replace(',', "").parse().unwrap() };
            if let Some((times, what)) = mark.split_once(" × ") {
                let what = match what.strip_prefix("\\u{") {
                    Some(_) => line_of(what),
                    None => what.to_owned(),
                };
                code.push_str(&what.trim_end_matches('\n').repeat(number(times)));
                continue;
            }
            for run in mark.split(", ") {
                let (times, what) = run.split_once(' ').unwrap();
                let blank = if what.starts_with("tab") { "\t" } else { " " };
                code.push_str(&blank.repeat(number(times)));
            }
        } else {
            code.push(c);
            rest = &rest[c.len_utf8()..];
        }
    }
    code + "\n"
}

/// L5: nothing of what is approved is hidden.
#[test]
fn l5_every_trick_is_seen() {
    for trick in tricks::tricks() {
        let shown = Shown::new(&trick.code());
        let all = format!("{}\n\n{}", shown.remarks.join("\n"), text(&trick.code()));
        trick.check(&all);
        trick.check_nothing_unseen(
            &shown_line(&trick.code())
                .chars()
                .take(300)
                .collect::<String>(),
        );
    }
}

#[test]
fn ordinary_code_is_shown_as_it_is() {
    for code in [
        "",
        "import pandas as pd\n\n\n\n\ndf = pd.read_csv('销售.csv')\nprint(f'{总和} Δx = {Δx}, α, straße，（℃）')\nσ_x = dα",
        "# обычный комментарий по-русски: с налогом, о нас\nprint('Привет', 'а потом и я')\n    x",
        "print('שלום עולם')  # héllo",
    ] {
        let shown = Shown::new(code);
        let lines: Vec<&str> = code.lines().collect();
        let rows: Vec<String> = shown.rows.iter().map(ShownRow::text).collect();
        assert_eq!(rows, lines);
        assert!(
            shown
                .rows
                .iter()
                .flat_map(|row| &row.parts)
                .all(|part| !part.odd)
        );
        let numbers: Vec<_> = shown.rows.iter().filter_map(|row| row.line).collect();
        assert_eq!(
            numbers,
            (1..=u32::try_from(lines.len()).unwrap()).collect::<Vec<_>>()
        );
        let remarks: Vec<_> = shown
            .remarks
            .iter()
            .filter(|it| !it.contains("right to left"))
            .collect();
        assert_eq!(remarks, [""; 0], "{code}");
    }
}

#[test]
fn what_can_not_be_seen_is_shown() {
    for (code, expected) in [
        ("a\x1b[2J\u{202e}b", "a\\u{1b}[2J\\u{202e}b"),
        (
            "a\rb\r\nc\x0c\x0b\u{85}",
            "a⟨carriage return⟩\n┊b\\u{d}\nc\\u{c}\\u{b}\\u{85}",
        ),
        // What looks like an escape or a mark is none.
        (r"\u{202e} \\u{41}", r"\u{5c}u{202e} \\u{5c}u{41}"),
        ("⟨137 spaces⟩", "\\u{27e8}137 spaces\\u{27e9}"),
        ("⇥   x", "\\u{21e5}   x"),
        ("\tx\t y", "⇥   x⇥    y"),
    ] {
        assert_eq!(text(code), expected, "{code:?}");
    }
}

#[test]
fn gaps_and_repeats_are_folded() {
    let spaces = |n| " ".repeat(n);
    let lines = |n| "\n".repeat(n);
    for (code, expected) in [
        (format!("a{}b", spaces(60)), format!("a{}b", spaces(60))),
        (format!("a{}b", spaces(1137)), "a⟨1,137 spaces⟩b".into()),
        (
            format!("{}\t\tb", spaces(59)),
            "⟨59 spaces, 2 tabs⟩b".into(),
        ),
        (format!("a\n{}b", lines(4)), format!("a\n{}b", lines(4))),
        (format!("a\n{}b", lines(5)), "a\n⟨5 empty lines⟩\nb".into()),
        (
            format!("a\n{} \n \n\t\n{}", lines(3), spaces(2)),
            "a\n⟨3 empty lines⟩\n⟨2 lines of 1 space⟩\n⟨1 line of 1 tab⟩\n  ".into(),
        ),
        ("=".repeat(121), "⟨121 × =⟩".into()),
        ("\u{a0}".repeat(9), "⟨9 × \\u{a0}⟩".into()),
    ] {
        assert_eq!(text(&code), expected, "{code:?}");
    }
    let numbers: Vec<_> = Shown::new("a\n\n\n\n\n\n\nb")
        .rows
        .iter()
        .map(|row| row.line)
        .collect();
    assert_eq!(numbers, [Some(1), Some(2), Some(8)]);
}

/// Nothing is cut, however long it is.
#[test]
fn long_code_is_shown_whole() {
    let code = "x = 1  # and so on\n".repeat(10_000) + &"xyz".repeat(30_000);
    let shown = Shown::new(&code);
    assert_eq!(shown.rows.len(), 10_900);
    assert_eq!(code_of(&shown), code + "\n");
}

#[test]
fn oddities_are_told() {
    for (code, remarks) in [
        (
            "a\u{202e}\u{2066}b\x1b[2J\r",
            &["2 bidirectional controls", "2 control characters"][..],
        ),
        ("x = 'שלום'", &["4 letters that run from right to left"]),
        (
            "\u{440}\u{430}ypal = \u{43e}s; \u{43e}s",
            &["2 names with Latin and Cyrillic letters: \\u{43e}s, \\u{440}\\u{430}ypal"],
        ),
        // Of a sentence, and of code beside one.
        ("# сумма с налогом", &[]),
        (
            "с = 1  # сумма",
            &["1 name in Cyrillic letters that look Latin: \\u{441}"],
        ),
    ] {
        assert_eq!(Shown::new(code).remarks, remarks, "{code:?}");
    }
    let remarks = |code: &str| Shown::new(code).remarks;
    let long = format!("{}\n", "a".repeat(10_400));
    assert_eq!(remarks(&long), ["one line has 10,400 characters"]);
    let two = ["2 lines have more than 400 characters, one 10,400"];
    assert_eq!(remarks(&long.repeat(2)), two);
    assert_eq!(remarks(&"x\n".repeat(9800)), ["9,800 lines"]);
}

/// What has to be dealt with, in any order and number.
fn hostile_code() -> impl Strategy<Value = String> {
    let parts = [
        "a",
        " ",
        "\t",
        "\n",
        "\r",
        "\\",
        "u",
        "{",
        "}",
        "202e",
        "\\u{",
        "⟨",
        "⟩",
        "⇥",
        "3 spaces",
        "×",
        "\u{202e}",
        "1 empty line",
        "\u{a0}",
        "é",
        "\u{0}",
        "x = 1",
        "о",
        "ｅ",
        "א",
        "carriage return",
    ];
    let part = (
        proptest::sample::select(parts.to_vec()),
        prop_oneof![3 => Just(1), 1 => 1usize..150],
    );
    let part = part.prop_map(|(part, times)| part.repeat(times));
    proptest::collection::vec(part, 0..30).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn no_two_codes_are_shown_alike(code in prop_oneof![hostile_code(), "(?s).{0,200}"]) {
        let shown = Shown::new(&code);
        prop_assume!(!shown.rows.iter().any(|row| row.text().contains(" lines with nothing to see")));
        let ended = code.is_empty() || code.ends_with('\n') || code.ends_with('\r');
        let expected = if ended { code.clone() } else { code.clone() + "\n" };
        prop_assert_eq!(code_of(&shown), expected);
        for row in &shown.rows {
            let text = row.text();
            prop_assert!(text.chars().all(|c| !is_escaped(c) && !c.is_control()));
            prop_assert!(text.chars().count() <= WIDTH + 40);
        }
        for remark in &shown.remarks {
            prop_assert!(remark.len() < 2000 && !remark.chars().any(is_escaped));
        }
    }

    #[test]
    fn a_name_is_one_line(name in prop_oneof![hostile_code(), "(?s).{0,200}"]) {
        let line = shown_line(&name);
        prop_assert!(line.chars().all(|c| !is_escaped(c) && !c.is_control()));
    }
}
