//! The MIME types of the other languages are those of `src/mime.rs`.

use belljar_protocol::{MimeType, TABLE_MIME};

#[path = "../examples/mime_tables.rs"]
mod generator;

#[test]
fn the_generated_tables_are_up_to_date() {
    for (path, text) in generator::tables() {
        assert!(
            std::fs::read_to_string(&path).is_ok_and(|now| now == text),
            "{} is not up to date: cargo run -p belljar-protocol --example mime_tables",
            path.display()
        );
    }
}

/// The guest has no table: it maps methods such as `_repr_png_` to MIME types.
#[test]
fn the_guest_sends_known_types() {
    let guest = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../belljar-guest/python/belljar_guest"
    );
    let read = |name| std::fs::read_to_string(format!("{guest}/{name}")).unwrap();
    assert!(read("tables.py").contains(&format!("MIME = \"{TABLE_MIME}\"\n")));
    let displays = read("displays.py");
    let methods = displays
        .lines()
        .filter(|line| line.starts_with("    (\"_repr_"));
    let mimes: Vec<&str> = methods.filter_map(|line| line.split('"').nth(3)).collect();
    assert_eq!(mimes.len(), 8, "{mimes:?}");
    for mime in mimes {
        let known = MimeType::named(mime).expect(mime);
        let is_shown = known.view.is_some() || known.notebook;
        assert!(is_shown, "{mime} is never shown");
    }
}
