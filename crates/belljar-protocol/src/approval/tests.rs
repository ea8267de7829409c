use proptest::prelude::*;

use super::*;

/// The code that a text was made of: if there is a way back, no two codes have the same text.
fn code_of(text: &str) -> String {
    let mut code = String::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if let Some(escape) = rest.strip_prefix("\\u{") {
            let (number, after) = escape.split_once('}').unwrap();
            let number = u32::from_str_radix(number, 16).unwrap();
            code.push(char::from_u32(number).unwrap());
            rest = after;
        } else if let Some(mark) = rest.strip_prefix('⟨') {
            let (mark, after) = mark.split_once('⟩').unwrap();
            rest = after;
            let number = |words: &str| -> usize {
                let (number, _) = words.split_once(' ').unwrap();
                number.replace(',', "").parse().unwrap()
            };
            let blanks = |words: &str| -> String {
                let runs = words.split(", ");
                let run =
                    |run: &str| if run.contains("tab") { "\t" } else { " " }.repeat(number(run));
                runs.map(run).collect()
            };
            if mark.contains("line") {
                let (lines, of) = mark.split_once(" of ").unwrap_or((mark, ""));
                let line = if of.is_empty() {
                    String::new()
                } else {
                    blanks(of)
                };
                code.push_str(&(line + "\n").repeat(number(lines)));
                // The line that the marks stand on is none of the code.
                if let Some(next) = rest.strip_prefix('\n') {
                    rest = next;
                }
            } else {
                code.push_str(&blanks(mark));
            }
        } else {
            code.push(c);
            rest = &rest[c.len_utf8()..];
        }
    }
    code
}

/// L5: nothing of what is approved is hidden.
#[test]
fn what_can_not_be_seen_is_shown() {
    for (code, text) in [
        ("", ""),
        (
            "print('北京 é \\n \\u202e \\x1b')\n\tx\n",
            "print('北京 é \\n \\u202e \\x1b')\n\tx\n",
        ),
        ("a\x1b[2J\u{202e}b", "a\\u{1b}[2J\\u{202e}b"),
        (
            "a\rb\r\nc\x0c\x0b\u{85}",
            "a\\u{d}b\\u{d}\nc\\u{c}\\u{b}\\u{85}",
        ),
        (
            "a\u{200b}\u{feff}\u{ad}\u{e0041}\u{fe0f}\u{3164}\u{2800}\u{2028}",
            "a\\u{200b}\\u{feff}\\u{ad}\\u{e0041}\\u{fe0f}\\u{3164}\\u{2800}\\u{2028}",
        ),
        ("a\u{a0}b\u{3000}c", "a\\u{a0}b\\u{3000}c"),
        ("a\u{338}b\u{e000}", "a\\u{338}b\\u{e000}"),
        // What looks like an escape or a mark is none.
        (r"\u{202e} \\u{41}", r"\u{5c}u{202e} \\u{5c}u{41}"),
        ("⟨137 spaces⟩", "\\u{27e8}137 spaces⟩"),
    ] {
        assert_eq!(approval_text(code), text, "{code:?}");
    }
}

#[test]
fn gaps_are_told_and_not_shown() {
    let spaces = |n| " ".repeat(n);
    let lines = |n| "\n".repeat(n);
    for (code, text) in [
        (format!("a{}b", spaces(120)), format!("a{}b", spaces(120))),
        (format!("a{}b", spaces(1137)), "a⟨1,137 spaces⟩b".into()),
        (
            format!("{}\t\tb", spaces(110)),
            "⟨110 spaces, 2 tabs⟩b".into(),
        ),
        (format!("a\n{}b", lines(20)), format!("a\n{}b", lines(20))),
        (
            format!("a\n{}b", lines(21)),
            "a\n⟨21 empty lines⟩\nb".into(),
        ),
        (
            format!("a\n{} \n \n\t\n{}", lines(19), spaces(2)),
            format!(
                "a\n⟨19 empty lines⟩⟨2 lines of 1 space⟩⟨1 line of 1 tab⟩\n{}",
                spaces(2)
            ),
        ),
    ] {
        assert_eq!(approval_text(&code), text, "{code:?}");
    }
}

/// Nothing is cut, however long it is.
#[test]
fn long_code_is_shown_whole() {
    let code = "x = 1  # and so on\n".repeat(10_000) + &"y".repeat(100_000);
    assert_eq!(approval_text(&code), code);
}

#[test]
fn ordinary_code_has_no_oddities() {
    for code in [
        "",
        "import pandas as pd\ndf = pd.read_csv('销售.csv')\r\nprint(f'{总和} Δx = {Δx}, α, straße')\n",
        "# обычный комментарий по-русски\nprint('Привет')\n",
    ] {
        assert_eq!(oddities(code), [""; 0], "{code}");
    }
}

#[test]
fn oddities_are_told() {
    for (code, remarks) in [
        (
            "a\u{202e}\u{2066}b\x1b[2J\r",
            &["2 bidirectional controls", "2 control characters"][..],
        ),
        (
            "a\u{200b}b\u{a0}c\u{301}",
            &[
                "1 invisible character",
                "1 unusual space",
                "1 combining character",
            ],
        ),
        ("x = 'שלום'", &["4 letters that run from right to left"]),
        (
            "\u{440}\u{430}ypal = \u{43e}s; \u{43e}s",
            &["2 names with Latin and Cyrillic letters: \\u{43e}s, \\u{440}\\u{430}ypal"],
        ),
        (
            "\u{441}\u{43e}\u{440}\u{443}()",
            &["1 name in Cyrillic letters that look Latin: \\u{441}\\u{43e}\\u{440}\\u{443}"],
        ),
        (
            "ｅｖａｌ(s)",
            &[
                "1 name in letters that Python takes for others: \\u{ff45}\\u{ff56}\\u{ff41}\\u{ff4c}",
            ],
        ),
    ] {
        assert_eq!(oddities(code), remarks, "{code:?}");
    }
    let long = format!("{}\n", "a".repeat(10_400));
    assert_eq!(oddities(&long), ["one line has 10,400 characters"]);
    let two = ["2 lines have more than 400 characters, one 10,400"];
    assert_eq!(oddities(&long.repeat(2)), two);
    assert_eq!(oddities(&"x\n".repeat(9800)), ["9,800 lines"]);
    assert_eq!(
        oddities(&format!("a{}b", " ".repeat(130))),
        ["a gap of 130 columns"]
    );
    assert_eq!(
        oddities(&format!("a{}b", "\n".repeat(31))),
        ["30 empty lines in a row"]
    );
}

/// What `approval_text` has to deal with, in any order and number.
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
        "3 spaces",
        "\u{202e}",
        "1 empty line",
        "\u{a0}",
        "é",
        "\u{0}",
        "x = 1",
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
        let text = approval_text(&code);
        prop_assert_eq!(code_of(&text), code);
        prop_assert!(text.chars().all(|c| !is_escaped(c)));
        prop_assert!(text.chars().all(|c| !c.is_control() || c == '\n' || c == '\t'));
    }

    #[test]
    fn any_code_is_remarked_on(code in prop_oneof![hostile_code(), "(?s).{0,200}"]) {
        for remark in oddities(&code) {
            prop_assert!(remark.len() < 2000 && !remark.chars().any(is_escaped));
        }
    }
}
