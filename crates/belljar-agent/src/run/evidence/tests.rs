use super::*;

fn look(answer: &str, output: &str) -> Vec<(String, Option<bool>)> {
    look_at(answer, output, "")
}

fn look_at(answer: &str, output: &str, code: &str) -> Vec<(String, Option<bool>)> {
    let outputs = [Source {
        step: 1,
        cell: Some(1),
        text: output.into(),
        code: code.into(),
        failed: false,
    }];
    let sources = Sources {
        outputs: &outputs,
        task: "the task says 77",
        exists: &|name| name == "made.png",
        has_data: true,
    };
    evidence(answer, &sources)
        .into_iter()
        .map(|found| {
            let rounded = match found.seen {
                Some(Seen::Output { rounded, .. }) => Some(rounded),
                Some(Seen::Task | Seen::File) => Some(false),
                Some(Seen::Code { .. }) | None => None,
            };
            (found.value, rounded)
        })
        .collect()
}

#[test]
fn numbers_are_found_however_they_are_written() {
    for (answer, output, expected) in [
        ("It is 21,386.41.", "21386.413...\n", Some(true)),
        ("It is 21386.41", "total 21,386.41", Some(false)),
        ("-5 degrees", "x = -5.0", Some(false)),
        ("5 degrees", "x = -5", None),
        ("1e3 of them", "1000", Some(false)),
        ("100", "99.97", Some(true)),
        ("0.13", "0.125", Some(true)),
        ("77", "", Some(false)),
        (
            "118630475888464041783523321036",
            "118630475888464041783523321036",
            Some(false),
        ),
        ("12", "3112 120", None),
    ] {
        let found = look(answer, output);
        assert_eq!(found.len(), 1, "{answer}: {found:?}");
        assert_eq!(found[0].1, expected, "{answer} in {output}");
    }
}

#[test]
fn texts_are_found_if_they_are_quoted_or_look_like_codes() {
    let found = look(
        "The reverse is `aQue9ScN`, and Bob's name is 'Ann'.",
        "aQue9ScN",
    );
    let expected = [
        ("aQue9ScN".to_owned(), Some(false)),
        ("Ann".to_owned(), None),
    ];
    assert_eq!(found, expected);
    assert_eq!(look("It is jvEgm4RSGJ5m", "x")[0].1, None);
    assert!(look("plain words only", "").is_empty());
}

#[test]
fn percentages_and_large_numbers_are_found_by_what_they_mean() {
    for (answer, output, code, expected) in [
        ("41.7 %", "0.41666", "m()", Some(true)),
        ("41.67%", "41.67", "x * 100", Some(false)),
        ("0.42%", "0.41666", "m()", None),
        ("0.42%", "0.42%", "m()", Some(false)),
        ("1.72 million", "1724590", "", Some(true)),
        ("12.3万", "123000", "", Some(false)),
        ("1.72", "1724590", "", None),
    ] {
        let found = look_at(answer, output, code);
        assert_eq!(found[0].1, expected, "{answer} in {output}");
    }
}

#[test]
fn a_scale_is_a_part_of_a_number() {
    for (answer, output, code, expected) in [
        ("48 million", "48", "print(n)", None),
        ("48 million", "48000000", "print(n)", Some(false)),
        ("48 million", "48", "print(n / 1e6)", Some(false)),
        ("48 million", "48", "print(n / 1_000_000)", Some(false)),
        ("48 million", "48 (millions)", "print(n)", Some(false)),
        ("48 thousand", "48", "print(n // 10**6)", None),
        ("12.3万", "12.3", "print(n)", None),
    ] {
        let found = look_at(answer, output, code);
        assert_eq!(found[0].1, expected, "{answer} in {output} by {code}");
    }
}

#[test]
fn dates_times_and_versions_are_one_value() {
    for (answer, output, expected) in [
        ("in 2026-06", "month = 2026-06", Some(false)),
        ("in 2026-06", "2026-05 06", None),
        ("on 2026-06-15", "2026-06-15 00:00:00", Some(false)),
        ("on 2026-06-15", "15/6/2026", Some(false)),
        ("on 2026-06-15", "2026-06-16", None),
        ("at 10:30", "the train leaves at 10:30", Some(false)),
        ("at 10:30", "10 trains, 31 late", None),
        ("3.11.2", "Python 3.11.2 (main)", Some(false)),
        ("3.11.2", "13.11.2", None),
    ] {
        let found = look(answer, output);
        assert_eq!(found.len(), 1, "{answer}: {found:?}");
        assert_eq!(found[0].1, expected, "{answer} in {output}");
    }
    // A range is two numbers.
    assert_eq!(look("from 2020-2024", "2020 2024").len(), 2);
}

#[test]
fn a_constant_of_the_code_is_no_result() {
    assert_eq!(
        look_at("42.3", "It is 42.3", "a = 42.3\nprint(a)")[0].1,
        None
    );
    assert_eq!(look_at("42.3", "42.3", "print(x.mean())")[0].1, Some(false));
    assert_eq!(look_at("100", "100", "print(n * 100)")[0].1, Some(false));
}

#[test]
fn files_are_found_by_their_names() {
    assert_eq!(
        look("It is in made.png.", "")[0],
        ("made.png".into(), Some(false))
    );
    assert_eq!(look("It is in `made.png`.", "").len(), 1);
    assert_eq!(
        look("See 2024-report.csv", "")[0],
        ("2024-report.csv".into(), None)
    );
    let listed = look_at("The largest is b.pdf", "b.pdf 12", "print(files)");
    assert_eq!(listed[0].1, Some(false));
    assert_eq!(
        look_at("Saved as b.pdf", "saved b.pdf", "print('saved b.pdf')")[0].1,
        None
    );
}

#[test]
fn a_row_is_the_one_that_the_answer_names() {
    let output = "North 120\nSouth 80\nall 200";
    for (answer, value, is_strong) in [
        ("North sold 120 of 200 in all.", "120", true),
        ("North sold 120 of 200 in all.", "200", true),
        ("North sold 80.", "80", false),
        ("80 were sold in the South, 120 in the North.", "80", true),
        ("The highest of the two is 80.", "80", false),
    ] {
        let outputs = [Source {
            step: 1,
            cell: Some(1),
            text: output.into(),
            code: "print(totals)".into(),
            failed: false,
        }];
        let sources = Sources {
            outputs: &outputs,
            task: "",
            exists: &|_| false,
            has_data: true,
        };
        let found = evidence(answer, &sources);
        let found = found.iter().find(|one| one.value == value).unwrap();
        assert_eq!(found.is_strong(), is_strong, "{answer}: {found:?}");
    }
}

/// What the only value of an answer was cited as, if that makes it derived.
fn cited(cells: &[(&str, &str)], answer: &str) -> Option<String> {
    let source = |(number, (code, output)): (u32, &(&str, &str))| Source {
        step: number,
        cell: Some(number),
        text: (*output).into(),
        code: (*code).into(),
        failed: false,
    };
    let outputs: Vec<Source> = (1..).zip(cells).map(source).collect();
    let sources = Sources {
        outputs: &outputs,
        task: "",
        exists: &|_| false,
        has_data: true,
    };
    let found = evidence(answer, &sources);
    match found.into_iter().next()?.seen? {
        Seen::Output { derived, .. } => derived?.label,
        _ => None,
    }
}

#[test]
fn a_cited_value_is_what_its_label_says() {
    let read = ("import pandas as pd\ndf = pd.read_csv('s.csv')", "");
    let north = (
        "north = df[df['region'] == 'North']\ncite(north['amount'].sum(), 'turnover of North')",
        "turnover of North: 4830.5",
    );
    let label = Some("turnover of North".to_owned());
    let found = |answer| cited(&[read, north], answer);
    assert_eq!(found("North has a turnover of 4,830.50."), label);
    assert_eq!(found("The turnover of the North was 4,831."), label);
    assert_eq!(found("South has a turnover of 4,830.50."), None);
    assert_eq!(found("North has a median turnover of 4,830.50."), None);
    assert_eq!(found("North has a turnover of 4.8305 million."), None);
    assert_eq!(found("The company has 4,830.5 employees."), None);
}

#[test]
fn a_label_that_the_code_contradicts_is_no_proof() {
    for (code, output, answer) in [
        (
            "cite(df[df['region'] == 'South']['amount'].sum(), 'turnover of North')",
            "turnover of North: 2135.5",
            "North has a turnover of 2,135.5.",
        ),
        (
            "cite(df['days'].median(), 'average days')",
            "average days: 20.5",
            "The average is 20.5 days.",
        ),
        (
            "cite(df['amount'].max(), 'total turnover')",
            "total turnover: 1935.5",
            "The total turnover is 1,935.5.",
        ),
        // Written, not computed.
        (
            "cite(2135, 'turnover')",
            "turnover: 2135",
            "The turnover is 2,135.",
        ),
        // Another function of that name.
        (
            "def cite(a, b):\n    print(b, a * 2)\ncite(df['a'].sum(), 'turnover')",
            "turnover 2135",
            "The turnover is 2,135.",
        ),
    ] {
        let read = ("import pandas as pd\ndf = pd.read_csv('s.csv')", "");
        assert_eq!(cited(&[read, (code, output)], answer), None, "{code}");
    }
}

#[test]
fn a_citation_is_compared_with_the_others_of_the_run() {
    let code = "for name in money:\n    cite(money[name], f'takings from {name}')\n    cite(pieces[name], f'pieces of {name} sold')";
    let output = "takings from Lamp: 1380\npieces of Lamp sold: 92\ntakings from Widget: 4980\npieces of Widget sold: 41";
    let found = |answer| cited(&[(code, output)], answer);
    assert_eq!(
        found("92 pieces of the Lamp were sold.").as_deref(),
        Some("pieces of Lamp sold")
    );
    assert_eq!(found("92 pieces of the Widget were sold."), None);
    assert_eq!(found("1,380 pieces of the Lamp were sold."), None);
}

/// Output that makes each rule look far: it must not keep a run waiting.
#[test]
fn a_hostile_output_takes_a_bounded_time() {
    let rows: Vec<String> = (0..5000).map(|at| format!("n{at} 7 7 7")).collect();
    let numbers = "7\n".repeat(30_000);
    let nested = "  \"a\": [\n".repeat(7000);
    let source = |text| Source {
        step: 1,
        cell: Some(1),
        text,
        code: "x = 1\n".repeat(1000),
        failed: false,
    };
    let outputs = [rows.join("\n"), numbers, nested].map(source);
    let sources = Sources {
        outputs: &outputs,
        task: "",
        exists: &|_| false,
        has_data: true,
    };
    let answer = "n1 sold 7, n2 7.0, n3 7.00 and 2026-01-07. ".repeat(200);
    let begun = std::time::Instant::now();
    evidence(&answer, &sources);
    // Unoptimised, on a busy machine.
    assert!(begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
}

proptest::proptest! {
    #[test]
    fn any_text_is_looked_through(answer in ".{0,200}", output in ".{0,200}") {
        look(&answer, &output);
    }
}
