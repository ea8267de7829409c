use super::*;
use proptest::prelude::*;

/// What goes in, and what is shown of it.
const TABLE: &[(&str, &str)] = &[
    // Nothing to do.
    ("", ""),
    ("a\tb\n\nc", "a\tb\n\nc"),
    ("北京 é 👩‍💻 \u{202e}x", "北京 é 👩‍💻 \u{202e}x"),
    // E5, whole and its parts.
    (
        "\x1b]52;c;ZXZpbA==\x07\x1b[2J\x1b[1A\u{9b}31m\x1b]8;;http://evil\x07ok\x1b]8;;\x07",
        "ok",
    ),
    ("a\x1b]52;c;ZXZpbA==\x1b\\b", "ab"),
    ("a\u{9d}52;c;ZXZpbA==\u{9c}b", "ab"),
    ("\x1b]8;id=1;http://evil\x1b\\link\x1b]8;;\x1b\\", "link"),
    ("\x1b]0;a title, 北京\x07x", "x"),
    // CSI: parameters, private ones, intermediates, every kind of final.
    ("\x1b[0;1;38:5:196mred\x1b[m", "red"),
    ("\x1b[?1049h\x1b[>0c\x1b[!p\x1b[2 q\x1b[@\x1b[~x", "x"),
    ("\u{9b}31mred\u{9b}0m", "red"),
    // DCS, SOS, PM, APC, in 7 and 8 bits.
    ("a\x1bPq#0;2;0\x1b\\b", "ab"),
    (
        "a\x1bXsos\x1b\\b\x1b^pm\x1b\\c\x1b_Ga=T;AAAA\x1b\\d",
        "abcd",
    ),
    (
        "a\u{90}x\u{9c}b\u{98}x\u{9c}c\u{9e}x\u{9c}d\u{9f}x\u{9c}e",
        "abcde",
    ),
    ("a\x1bPx\u{9c}b\u{90}x\x1b\\c", "abc"),
    ("a\x1bPbell\x07is not its end\x1b\\b", "ab"),
    // Other escapes, with intermediates and without.
    ("\x1bc\x1b7\x1b8\x1b=\x1b>\x1bM\x1bNx", "x"),
    ("\x1b(B\x1b)0\x1b%G\x1b#8\x1b F\x1b$(Cx", "x"),
    ("\x1b\x1b\x1b[31mx", "x"),
    // C0, DEL, C1.
    ("a\0b\x01c\x07d\x0b\x0ce\x0e\x0ff\x7fg", "abcdefg"),
    ("a\u{80}b\u{84}c\u{85}d\u{8d}e\u{9c}f\u{9f}", "abcdef"),
    // A line written over stays readable.
    ("one\r\ntwo\r\n", "one\ntwo\n"),
    ("one\r\r\ntwo", "one\ntwo"),
    ("rm -rf /\rls      ", "rm -rf /\nls      "),
    ("\r10%\r20%\r30%\n", "10%\n20%\n30%\n"),
    ("10%\x1b[K\r\x1b[K20%\r\x1b[K\n", "10%\n20%\n"),
    ("a\n\rb\n\r\nc", "a\nb\n\nc"),
    ("a\r\n\nb", "a\n\nb"),
    ("secret\x08\x08\x08\x08\x08\x08public", "secretpublic"),
    // What is no whole sequence is shown.
    ("a\x1b", "a"),
    ("a\x1b[", "a"),
    ("a\x1b[31", "a31"),
    ("a\x1b[31\nb", "a31\nb"),
    ("a\x1b[3\x081mb", "a31mb"),
    ("a\x1b[é", "aé"),
    ("a\x1bé", "aé"),
    ("a\x1b(\nb", "a(\nb"),
    ("a\x1b]0;never ended", "a0;never ended"),
    ("a\x1b]0;never ended\nb\r\nc", "a0;never ended\nb\nc"),
    ("a\x1b]0;cut off\x18b\x1bPcut\x1ac", "a0;cut offbcutc"),
    ("a\x1b]0;x\x1b[31mb", "a0;xb"),
    ("a\x1b]0;x\x1b", "a0;x"),
    ("a\x1b]0;x\x1b\x1b\\b", "a0;xb"),
    ("a\x1b]0;x\u{9b}31mb", "a0;xb"),
    ("a\x1b[31\x1b[32mb", "a31b"),
    // UTF-8 that was taken for Latin-1 is full of C1.
    (
        "â\u{80}\u{9c}quoted\u{e2}\u{80}\u{9d} and more\n",
        "âquotedâ and more\n",
    ),
    // Taking one out must not make another.
    ("\x1b\x1b[m[31mx", "[31mx"),
    ("\x1b]\x1b[m0;x\x07y", "0;xy"),
];

#[test]
fn e5_terminals_get_no_commands() {
    for (text, expected) in TABLE {
        assert_eq!(plain(text), *expected, "{text:?}");
    }
}

#[test]
fn e5_a_cut_makes_no_difference() {
    for (text, expected) in TABLE {
        for (cut, _) in text.char_indices() {
            let (a, b) = text.split_at(cut);
            assert_eq!(chunked([a, b]), *expected, "{text:?} cut at {cut}");
        }
        let characters = text
            .char_indices()
            .map(|(at, c)| &text[at..at + c.len_utf8()]);
        assert_eq!(chunked(characters), *expected, "{text:?}");
    }
}

#[test]
fn every_control_is_gone_and_every_introducer_takes_its_sequence_along() {
    for code in (0..0x20).chain(0x7f..0xa0) {
        let c = char::from_u32(code).unwrap();
        let shown = plain(&format!("a{c}")).into_owned();
        let expected = match c {
            '\n' | '\t' => format!("a{c}"),
            '\r' => "a\n".into(),
            _ => "a".into(),
        };
        assert_eq!(shown, expected, "{c:?}");
    }
    for introducer in ["\x1b[", "\u{9b}"] {
        for last in '\x40'..='\x7e' {
            assert_eq!(
                plain(&format!("a{introducer}1;2 {last}b")),
                "ab",
                "{last:?}"
            );
        }
    }
    for (introducer, bell) in [
        ("\x1b]", true),
        ("\u{9d}", true),
        ("\x1bP", false),
        ("\u{90}", false),
        ("\x1bX", false),
        ("\u{98}", false),
        ("\x1b^", false),
        ("\u{9e}", false),
        ("\x1b_", false),
        ("\u{9f}", false),
    ] {
        for (end, ends) in [("\x1b\\", true), ("\u{9c}", true), ("\x07", bell)] {
            let shown = plain(&format!("a{introducer}é\tx{end}b\n")).into_owned();
            let expected = if ends { "ab\n" } else { "aé\txb\n" };
            assert_eq!(shown, expected, "{introducer:?} {end:?}");
        }
    }
    for last in '\x30'..='\x7e' {
        assert_eq!(plain(&format!("a\x1b({last}b")), "ab", "{last:?}");
        if !"[]PX^_".contains(last) {
            assert_eq!(plain(&format!("a\x1b{last}b")), "ab", "{last:?}");
        }
    }
}

#[test]
fn a_string_without_an_end_hides_nothing() {
    for introducer in ["\x1b]", "\x1b[", "\x1bP", "\u{9d}"] {
        let endless = "1".repeat(3 * MAX_SEQUENCE);
        assert_eq!(plain(&format!("{introducer}{endless}")), endless);
        // Whatever comes after the limit is shown at once.
        let mut stream = PlainStream::default();
        let mut shown = 0;
        for _ in 0..100 {
            shown += stream.push(if shown == 0 { introducer } else { "" }).len();
            shown += stream.push(&endless).len();
            assert!(stream.held.capacity() <= 2 * MAX_SEQUENCE);
        }
        assert_eq!(shown + stream.finish().len(), 100 * endless.len());
    }
    let fits = "1".repeat(MAX_SEQUENCE - 1);
    assert_eq!(plain(&format!("a\x1b]{fits}\x07b")), "ab");
    assert_eq!(plain(&format!("a\x1b]1{fits}\x07b")), format!("a1{fits}b"));
}

#[test]
fn nothing_is_copied_where_nothing_is_to_be_done() {
    for text in ["", "plain\n\ttext\n", "北京 — é 🙂\u{a0}\u{200b}"] {
        assert!(matches!(plain(text), Cow::Borrowed(_)), "{text:?}");
    }
    for name in ["", "report.csv", "北京.csv", "❤️.png", "naïve"] {
        assert!(matches!(visible(name), Cow::Borrowed(_)), "{name:?}");
    }
}

#[test]
fn a_finished_stream_is_as_new() {
    let mut stream = PlainStream::default();
    assert_eq!(stream.push("a\x1b]0;b"), "a");
    assert_eq!(stream.finish(), "0;b");
    assert_eq!(stream.push("\r31m\x07c"), "31mc");
    assert_eq!(stream.finish(), "");
}

#[test]
fn a_terminal_redraws_a_line_and_an_outcome_has_its_last_state() {
    let bar = [
        "\r 10%",
        "\r 20%\r",
        " 30%",
        "\r 40%",
        "\r 50%\r\n",
        "done\r\nok",
    ];
    let mut stream = PlainStream::redrawing();
    let shown: String = bar
        .iter()
        .map(|piece| stream.push(piece).into_owned())
        .collect();
    let clear = "\r\x1b[K";
    let expected = format!(" 10%\n 20%\n 30%{clear} 40%{clear} 50%\ndone\nok");
    assert_eq!(shown, expected);
    assert_eq!(redrawn(&bar.concat()), " 50%\r\ndone\r\nok");
    let mut stream = PlainStream::redrawing();
    assert_eq!(stream.push("rm -rf /\rls\n"), "rm -rf /\nls\n");
    assert!(matches!(redrawn("a\nb"), Cow::Borrowed(_)));
    // Nothing is hidden by a line that is written over.
    assert_eq!(redrawn("rm -rf /\rls      \n"), "rm -rf /\rls      \n");
}

#[test]
fn e6_what_can_not_be_seen_in_a_name_is_shown() {
    for (name, expected) in [
        ("invoice\u{202e}fdp.exe", "invoice<U+202E>fdp.exe"),
        (
            "a\u{2066}b\u{2069}\u{200f}\u{61c}",
            "a<U+2066>b<U+2069><U+200F><U+061C>",
        ),
        (
            "pay\u{200b}pal\u{200d}\u{feff}\u{2060}",
            "pay<U+200B>pal<U+200D><U+FEFF><U+2060>",
        ),
        (
            "x\u{e0001}\u{e0041}\u{e007f}",
            "x<U+E0001><U+E0041><U+E007F>",
        ),
        (
            "a\nb\tc\rd\x1b[2Je\u{9b}m\u{85}\0",
            "a<U+000A>b<U+0009>c<U+000D>d<U+001B>[2Je<U+009B>m<U+0085><U+0000>",
        ),
        ("a\u{2028}b\u{ad}c\u{3164}d", "a<U+2028>b<U+00AD>c<U+3164>d"),
        // A selector that follows an emoji is what it is for; a second one is a hidden message.
        ("❤\u{fe0f}", "❤\u{fe0f}"),
        ("❤\u{fe0f}\u{fe0e}", "❤\u{fe0f}<U+FE0E>"),
        ("a\u{fe0f}", "a<U+FE0F>"),
        ("1\u{fe0f}\u{20e3}", "1<U+FE0F>\u{20e3}"),
        ("😀\u{fe00}\u{e0100}", "😀<U+FE00><U+E0100>"),
        ("\u{fe0f}", "<U+FE0F>"),
        ("❤️‍🔥", "❤️<U+200D>🔥"),
        ("Ångström 数据 é", "Ångström 数据 é"),
    ] {
        assert_eq!(visible(name), expected, "{name:?}");
    }
}

fn chunked<'a>(chunks: impl IntoIterator<Item = &'a str>) -> String {
    let mut stream = PlainStream::default();
    let mut out = String::new();
    for chunk in chunks {
        out += &stream.push(chunk);
    }
    out + &stream.finish()
}

fn harmless(text: &str) -> bool {
    text.chars()
        .all(|c| c == '\n' || c == '\t' || !c.is_control())
}

/// Text in which sequences, whole, broken and nested, are likely.
fn hostile() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        "[\\x1b\\x07\\x08\\r\\n\\t\\x18\\x7f\\u{80}-\\u{9f}]",
        "[\\[\\]PX^_\\\\()0-9;?a-zA-Z ]{1,4}",
        "[\\u{9b}\\u{9d}\\u{9c}\\x1b]",
        any::<char>().prop_map(String::from),
    ];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn nothing_is_left_and_nothing_grows(text in hostile()) {
        let once = plain(&text);
        prop_assert!(harmless(&once), "{once:?}");
        prop_assert!(once.len() <= text.len());
        let twice = plain(&once);
        prop_assert_eq!(&twice, &once);
        prop_assert!(matches!(twice, Cow::Borrowed(_)));
    }

    #[test]
    fn chunks_do_not_matter(pieces in prop::collection::vec(hostile(), 0..6)) {
        let whole = pieces.concat();
        prop_assert_eq!(chunked(pieces.iter().map(String::as_str)), plain(&whole));
    }

    #[test]
    fn text_without_controls_is_left_alone(text in "[ -~\\n\\t]{0,200}|[^\\p{Cc}]{0,50}") {
        prop_assert!(matches!(plain(&text), Cow::Borrowed(same) if same == text));
    }

    #[test]
    fn names_are_seen_whole(name in hostile()) {
        let shown = visible(&name);
        prop_assert!(!shown.chars().any(|c| c.is_control() || c == '\u{202e}'), "{shown:?}");
        prop_assert_eq!(&visible(&shown), &shown);
    }
}

#[test]
fn only_the_beginning_of_a_character_is_unfinished() {
    for (bytes, expected) in [
        (&b""[..], 0),
        (b"a", 0),
        (b"a\xe2", 1),
        (b"a\xe2\x82", 2),
        (b"\xe2\x82\xac", 0),
        (b"\xf0\x9f\x98", 3),
        (b"\xf0\x9f\x98\x80", 0),
        (b"\xff", 0),
        (b"\x82\x82\x82\x82", 0),
        (b"\xe2\xe2", 1),
    ] {
        assert_eq!(unfinished(bytes), expected, "{bytes:?}");
    }
}
