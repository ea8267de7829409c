//! Deceptive characters: those that are not what they look like.
//!
//! Written by hand: crates for look-alike letters bring a table of ten thousand, of which code that is read by an
//! English or Chinese speaker needs few.

use std::collections::BTreeSet;

use crate::plain::is_hidden;

/// What is odd about a character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Bidirectional,
    Control,
    Space,
    Invisible,
    Combining,
    /// Its look is up to the font.
    Private,
    /// Python takes it for a letter, digit or underscore of ASCII: `ｅｖａｌ` is `eval`.
    TakenForAnother,
    /// It looks like a sign of ASCII.
    LooksLikeSign,
    RightToLeft,
}

pub(super) fn kind(c: char) -> Option<Kind> {
    Some(match c {
        ' '..='~' => return None,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
            Kind::Bidirectional
        }
        // Line and paragraph separators among them.
        c if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') => Kind::Control,
        c if c.is_whitespace() => Kind::Space,
        c if is_hidden(c) || matches!(c, '\u{fffc}' | '\u{1d159}') => Kind::Invisible,
        c if is_combining(c) => Kind::Combining,
        '\u{e000}'..='\u{f8ff}' | '\u{fdd0}'..='\u{fdef}' | '\u{f0000}'.. => Kind::Private,
        c if u32::from(c) & 0xfffe == 0xfffe => Kind::Private,
        c if is_taken_for_another(c) => Kind::TakenForAnother,
        c if looks_like_sign(c) => Kind::LooksLikeSign,
        '\u{590}'..='\u{8ff}'
        | '\u{fb1d}'..='\u{fdff}'
        | '\u{fe70}'..='\u{fefe}'
        | '\u{10800}'..='\u{10fff}'
        | '\u{1e800}'..='\u{1efff}' => Kind::RightToLeft,
        _ => return None,
    })
}

/// Whether a character is written out wherever it stands.
pub(super) fn is_escaped(c: char) -> bool {
    kind(c).is_some_and(|kind| kind != Kind::RightToLeft)
}

/// Marks that go onto letters of any script.
fn is_combining(c: char) -> bool {
    matches!(c, '\u{300}'..='\u{36f}' | '\u{483}'..='\u{489}' | '\u{1ab0}'..='\u{1aff}'
        | '\u{1dc0}'..='\u{1dff}' | '\u{20d0}'..='\u{20ff}' | '\u{2de0}'..='\u{2dff}'
        | '\u{302a}'..='\u{302f}' | '\u{3099}'..='\u{309a}' | '\u{a66f}'..='\u{a672}'
        | '\u{a674}'..='\u{a67d}' | '\u{fe20}'..='\u{fe2f}' | '\u{1d165}'..='\u{1d169}'
        | '\u{1d16d}'..='\u{1d172}')
}

/// All that Python may have in a name and whose NFKC form is ASCII, by the Unicode database of `CPython` 3.11; with
/// letters between them that have another form.
fn is_taken_for_another(c: char) -> bool {
    matches!(c, 'ª' | 'º' | '\u{132}'..='\u{133}' | 'ſ' | '\u{1c7}'..='\u{1cc}' | '\u{1f1}'..='\u{1f3}'
        | '\u{2b0}'..='\u{2b8}' | '\u{2e1}'..='\u{2e3}' | '\u{1d2c}'..='\u{1d6a}' | '\u{1d9c}'
        | '\u{1da0}' | '\u{1dbb}' | '\u{2071}' | '\u{207f}' | '\u{2090}'..='\u{209c}' | '\u{2102}'
        | '\u{210a}'..='\u{2113}' | '\u{2115}' | '\u{2119}'..='\u{211d}' | '\u{2124}' | '\u{2128}'
        | '\u{212a}' | '\u{212c}'..='\u{2134}' | '\u{2139}' | '\u{2145}'..='\u{2149}'
        | '\u{2160}'..='\u{217f}' | '\u{2c7c}'..='\u{2c7d}' | '\u{a7f2}'..='\u{a7f4}'
        | '\u{fb00}'..='\u{fb06}' | '\u{fe33}'..='\u{fe34}' | '\u{fe4d}'..='\u{fe4f}'
        | '\u{ff10}'..='\u{ff19}' | '\u{ff21}'..='\u{ff3a}' | '\u{ff3f}' | '\u{ff41}'..='\u{ff5a}'
        | '\u{107a5}' | '\u{1d400}'..='\u{1d7ff}' | '\u{1fbf0}'..='\u{1fbf9}')
}

/// Signs that pass for `;`, `:`, `.`, `,`, `/`, `\`, `'`, `!`, `|`, `*` or `=`. Not those of Chinese text, which are wide.
fn looks_like_sign(c: char) -> bool {
    let is_chinese = matches!(c, '！' | '（' | '）' | '，' | '：' | '；' | '？' | '～');
    !is_chinese
        && matches!(c, '\u{1c0}'..='\u{1c3}' | '\u{2b9}'..='\u{2bf}' | '\u{2c8}' | '\u{2d0}' | '\u{37e}' | '\u{387}'
        | '\u{589}' | '\u{5be}' | '\u{5c0}' | '\u{5c3}' | '\u{5f3}'..='\u{5f4}' | '\u{201a}' | '\u{201b}' | '\u{2024}'
        | '\u{2044}' | '\u{204e}' | '\u{2215}'..='\u{2217}' | '\u{2223}' | '\u{2236}' | '\u{2758}' | '\u{29f5}'
        | '\u{29f8}'..='\u{29f9}' | '\u{a4f8}'..='\u{a4fd}' | '\u{a789}'..='\u{a78a}' | '\u{fe50}'..='\u{fe6b}'
        | '\u{ff01}'..='\u{ff5e}')
}

/// Letters that look like Latin ones, by script.
const LOOK_ALIKES: [(&str, &str); 4] = [
    ("Cyrillic", "асеорхуіјѕһԁԛԝӏАВЕЗКМНОРСТХУІЈЅҮԌԚԜӀ"),
    ("Greek", "νοΑΒΕΖΗΙΚΜΝΟΡΤΥΧϲϳ"),
    ("Armenian", "օոսհցզքՏՕԼՍ"),
    ("phonetic", "ɑɡɩɪ"),
];

/// Greek letters that formulas use. They look like Latin ones where these are all around them.
const OF_FORMULAS: &str = "αγηικρτυχω";

/// The script of a letter that looks like a Latin one.
fn look_alike(c: char) -> Option<&'static str> {
    match c {
        '\u{13a0}'..='\u{13ff}' | '\u{ab70}'..='\u{abbf}' => return Some("Cherokee"),
        '\u{2c80}'..='\u{2cff}' => return Some("Coptic"),
        '\u{a4d0}'..='\u{a4ff}' => return Some("Lisu"),
        '\u{10400}'..='\u{1044f}' => return Some("Deseret"),
        _ => {}
    }
    let found = LOOK_ALIKES.iter().find(|(_, all)| all.contains(c));
    found.map(|(script, _)| *script)
}

fn is_latin(c: char) -> bool {
    matches!(c, 'a'..='z' | 'A'..='Z' | '\u{c0}'..='\u{24f}')
}

/// A deceptive name.
pub(super) struct Disguise<'a> {
    pub(super) name: &'a str,
    /// In words.
    pub(super) why: String,
    /// Where in the line the letters are that make it so. Those that are written out anyway are not among them.
    letters: Vec<usize>,
}

/// The deceptive names of a line.
pub(super) fn disguises(line: &str) -> Vec<Disguise<'_>> {
    if line.is_ascii() {
        return Vec::new();
    }
    let names = names(line);
    let mut found = Vec::new();
    for (place, (start, name)) in names.iter().enumerate() {
        if name.chars().any(is_taken_for_another) {
            found.push(Disguise {
                name,
                why: "in letters that Python takes for others".into(),
                letters: Vec::new(),
            });
        }
        let (script, letters) = look_alikes(name);
        let Some(script) = script else { continue };
        let why = if name.chars().any(is_latin) {
            format!("with Latin and {script} letters")
        } else if letters.len() == name.chars().filter(|c| c.is_alphabetic()).count()
            && !is_in_a_sentence(line, &names, place)
        {
            format!("in {script} letters that look Latin")
        } else {
            continue;
        };
        let letters = letters.iter().map(|at| start + at).collect();
        found.push(Disguise { name, why, letters });
    }
    found
}

/// The names and words of a line, with where they begin.
fn names(line: &str) -> Vec<(usize, &str)> {
    let is_of_name = |c: char| c.is_alphanumeric() || c == '_' || is_taken_for_another(c);
    let (mut names, mut at) = (Vec::new(), 0);
    for name in line.split(|c| !is_of_name(c)) {
        if !name.is_empty() {
            names.push((at, name));
        }
        let after = line[at + name.len()..].chars().next();
        at += name.len() + after.map_or(0, char::len_utf8);
    }
    names
}

/// The letters of a name that look like Latin ones, and their script.
fn look_alikes(name: &str) -> (Option<&'static str>, Vec<usize>) {
    let (mut script, mut found, mut start) = (None, Vec::new(), 0);
    for word in name.split('_') {
        let latin = word.chars().filter(char::is_ascii_alphabetic).count();
        for (at, c) in word.char_indices() {
            let of_formula = latin > 1 && OF_FORMULAS.contains(c);
            let Some(is) = look_alike(c).or(of_formula.then_some("Greek")) else {
                continue;
            };
            script = script.or(Some(is));
            found.push(start + at);
        }
        start += word.len() + 1;
    }
    (script, found)
}

/// Whether one space is between a word and another one that can only be of its own script: so it is in code only
/// where it is text.
fn is_in_a_sentence(line: &str, names: &[(usize, &str)], place: usize) -> bool {
    let is_one_space = |(at, name): (usize, &str), next: (usize, &str)| {
        line.get(at + name.len()..next.0) == Some(" ")
    };
    let is_word = |(_, name): (usize, &str)| {
        let mut letters = name.chars().filter(|c| c.is_alphabetic());
        !name.chars().any(is_latin) && letters.any(|c| look_alike(c).is_none())
    };
    let Some(own) = names.get(place).copied() else {
        return false;
    };
    let before = place.checked_sub(1).and_then(|at| names.get(at)).copied();
    let after = names.get(place + 1).copied();
    before.is_some_and(|one| is_one_space(one, own) && is_word(one))
        || after.is_some_and(|one| is_one_space(own, one) && is_word(one))
}

/// Where in a line the letters are that are written out because of what stands around them.
pub(super) fn disguised(line: &str) -> BTreeSet<usize> {
    let mut found = BTreeSet::new();
    if line.is_ascii() {
        return found;
    }
    for disguise in disguises(line) {
        found.extend(disguise.letters);
    }
    if is_reordered(line) {
        let right_to_left = line.char_indices().filter(|(_, c)| is_right_to_left(*c));
        found.extend(right_to_left.map(|(at, _)| at));
    }
    found
}

fn is_right_to_left(c: char) -> bool {
    kind(c) == Some(Kind::RightToLeft)
}

/// Whether letters that run from right to left change the order of what stands around them: signs between two words
/// of them, numbers after them, and all of a line that begins with them.
fn is_reordered(line: &str) -> bool {
    let (Some(first), Some(last)) = (line.find(is_right_to_left), line.rfind(is_right_to_left))
    else {
        return false;
    };
    let is_of_words = |c: char| c == ' ' || is_right_to_left(c);
    let begins = line.chars().find(|c| c.is_alphabetic());
    !line[first..last].chars().all(is_of_words)
        || line[last..].contains(char::is_numeric)
        || begins.is_some_and(is_right_to_left) && line.contains(is_latin)
}
