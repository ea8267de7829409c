//! Deceptive code, for the tests of everything that shows code for approval. The web interface
//! reads the same file.

use serde::Deserialize;

/// A way to deceive, and how it is shown.
#[derive(Deserialize)]
pub(crate) struct Trick {
    pub(crate) name: String,
    code: Vec<Piece>,
    /// Characters that must not be shown as they are.
    unseen: String,
    /// What must be shown instead.
    seen: Vec<String>,
    /// What must be seen near the top.
    in_sight: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Piece {
    Once(String),
    Times(String, usize),
}

/// Rows from the top of what is shown that a person has in sight.
const IN_SIGHT: usize = 24;

pub(crate) fn tricks() -> Vec<Trick> {
    let tricks: Vec<Trick> = serde_json::from_str(include_str!("tricks.json")).unwrap();
    assert!(tricks.len() > 35);
    tricks
}

impl Trick {
    pub(crate) fn code(&self) -> String {
        let piece = |piece: &Piece| match piece {
            Piece::Once(text) => text.clone(),
            Piece::Times(text, times) => text.repeat(*times),
        };
        self.code.iter().map(piece).collect()
    }

    /// Whether a text that is shown to a person has it in the open.
    #[track_caller]
    pub(crate) fn check(&self, shown: &str) {
        let name = &self.name;
        self.check_nothing_unseen(shown);
        for seen in &self.seen {
            assert!(shown.contains(seen), "{name}: no {seen:?} in {shown}");
        }
        if let Some(payload) = &self.in_sight {
            let row = shown.lines().position(|line| line.contains(payload));
            assert!(row.is_some_and(|row| row < IN_SIGHT), "{name}: {shown}");
        }
    }

    /// The same for arguments of a call, where JSON writes some of it out.
    #[track_caller]
    pub(crate) fn check_nothing_unseen(&self, shown: &str) {
        let name = &self.name;
        let odd = |c: char| self.unseen.contains(c) || c.is_control() && c != '\n';
        let found = shown.chars().find(|c| odd(*c));
        assert_eq!(found, None, "{name}: {shown}");
        let widest = shown.lines().map(|line| line.chars().count()).max();
        assert!(widest.is_none_or(|widest| widest < 400), "{name}: {shown}");
    }
}
