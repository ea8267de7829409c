//! A program's text made plain, and names made visible: nothing is left that a terminal would obey,
//! nothing is hidden, and pieces don't matter.
//!
//! The input: one byte that says how it is cut, then text.
#![no_main]

use std::borrow::Cow;

use belljar_protocol::{PlainStream, plain, visible};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((step, bytes)) = input.split_first() else {
        return;
    };
    let text = String::from_utf8_lossy(bytes);
    let once = plain(&text);
    assert!(
        once.chars()
            .all(|c| c == '\n' || c == '\t' || !c.is_control()),
        "a control is left: {once:?}"
    );
    assert!(once.len() <= text.len(), "it grew: {once:?}");
    let twice = plain(&once);
    assert!(
        matches!(twice, Cow::Borrowed(same) if same == once),
        "not idempotent: {twice:?}"
    );
    if !text.contains(char::is_control) {
        assert_eq!(once, text, "text without controls was changed");
    }
    // A line without an escape is shown to its last character, in order.
    if !text.contains(|c: char| c == '\x1b' || ('\u{80}'..='\u{9f}').contains(&c)) {
        let seen = text.chars().filter(|c| !c.is_control());
        assert!(
            seen.eq(once.chars().filter(|c| !c.is_control())),
            "text is hidden: {once:?}"
        );
    }

    let step = usize::from(*step) + 1;
    let characters: Vec<char> = text.chars().collect();
    let mut stream = PlainStream::default();
    let mut joined = String::new();
    for piece in characters.chunks(step) {
        let piece: String = piece.iter().collect();
        joined += &stream.push(&piece);
    }
    joined += &stream.finish();
    assert_eq!(joined, once, "pieces of {step} matter");

    let name = visible(&text);
    assert!(
        !name.contains(|c: char| c.is_control() || c == '\u{202e}' || c == '\u{200b}'),
        "hidden in {name:?}"
    );
    assert_eq!(visible(&name), name, "not idempotent");
    assert!(name.len() <= 10 * text.len(), "it grew too much");
});
