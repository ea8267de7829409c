//! Replacing the values of secrets in what a session sends.
//!
//! A value is found as it is, and in the forms in which ordinary code shows it: escaped as in JSON, in Python's `repr`, in
//! HTML, in an URL and in CSV. It is found however the output is cut into pieces.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::sync::Arc;

/// The secrets of a session, as what is searched for.
pub(crate) struct Scrubber {
    patterns: Vec<Pattern>,
    /// Whether a form begins with this byte.
    first: [bool; 256],
    secrets: BTreeMap<String, String>,
}

struct Pattern {
    bytes: Vec<u8>,
    /// How much of the form still matches if the next byte does not (Knuth, Morris and Pratt).
    back: Vec<usize>,
    mark: Vec<u8>,
    /// Whether it is the value itself.
    is_value: bool,
}

impl fmt::Debug for Scrubber {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_set().entries(self.secrets.keys()).finish()
    }
}

impl Scrubber {
    pub(super) fn new(secrets: &BTreeMap<String, String>) -> Self {
        let mut patterns: Vec<Pattern> = Vec::new();
        for (name, value) in secrets {
            for form in forms(value) {
                if !patterns
                    .iter()
                    .any(|pattern| pattern.bytes == form.as_bytes())
                {
                    patterns.push(Pattern {
                        is_value: form == *value,
                        ..Pattern::new(form.into_bytes(), name)
                    });
                }
            }
        }
        let mut first = [false; 256];
        for pattern in &patterns {
            first[usize::from(pattern.bytes[0])] = true;
        }
        Self {
            patterns,
            first,
            secrets: secrets.clone(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.patterns.is_empty()
    }

    /// The secrets themselves, for the guest that has them anyway.
    pub(crate) fn secrets(&self) -> &BTreeMap<String, String> {
        &self.secrets
    }

    /// Whole bytes without secrets.
    pub(crate) fn bytes(self: &Arc<Self>, bytes: Vec<u8>) -> Vec<u8> {
        if self.is_empty() {
            return bytes;
        }
        let mut stream = StreamScrubber::new(Arc::clone(self));
        let mut scrubbed = stream.push(&bytes).into_owned();
        scrubbed.extend(stream.finish());
        scrubbed
    }

    /// A whole text without secrets.
    pub(crate) fn text(self: &Arc<Self>, text: &mut String) {
        if !self.is_empty() {
            let bytes = self.bytes(std::mem::take(text).into_bytes());
            // A form is whole characters, so the rest is, too.
            *text = String::from_utf8_lossy(&bytes).into_owned();
        }
    }

    /// JSON whose strings have no secrets; names of fields stay as they are, and so does what is no JSON.
    /// However a string is escaped, it is read before it is searched.
    pub(crate) fn json<'a>(self: &Arc<Self>, json: impl Into<Cow<'a, [u8]>>) -> Cow<'a, [u8]> {
        let json = json.into();
        if self.is_empty() {
            return json;
        }
        let mut scrubbed = Vec::with_capacity(json.len());
        let mut rest = &*json;
        while let Some(start) = rest.iter().position(|byte| *byte == b'"') {
            let Some(length) = string_length(&rest[start..]) else {
                break;
            };
            let (before, literal) = rest[..start + length].split_at(start);
            rest = &rest[start + length..];
            scrubbed.extend_from_slice(before);
            let next = rest.iter().find(|byte| !byte.is_ascii_whitespace());
            match serde_json::from_slice::<String>(literal) {
                Ok(text) if next != Some(&b':') => {
                    let mut clean = text.clone();
                    self.text(&mut clean);
                    match serde_json::to_vec(&clean) {
                        Ok(clean_literal) if clean != text => scrubbed.extend(clean_literal),
                        _ => scrubbed.extend_from_slice(literal),
                    }
                }
                _ => scrubbed.extend_from_slice(literal),
            }
        }
        scrubbed.extend_from_slice(rest);
        scrubbed.into()
    }
}

/// The length of the string that JSON begins with, with its quotes.
fn string_length(json: &[u8]) -> Option<usize> {
    let mut at = 1;
    loop {
        match json.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

/// The forms in which ordinary code shows a value.
fn forms(value: &str) -> [String; 7] {
    let json = serde_json::to_string(value).unwrap_or_default();
    let json = json
        .get(1..json.len().saturating_sub(1))
        .unwrap_or_default();
    let json = if json.is_empty() { value } else { json };
    let (mut ascii, mut python, mut html, mut url) =
        (String::new(), String::new(), String::new(), String::new());
    for character in json.chars() {
        match character {
            ' '..='~' => ascii.push(character),
            _ => {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    let _ = write!(ascii, "\\u{unit:04x}");
                }
            }
        }
    }
    for character in value.chars() {
        match character {
            '\n' => python.push_str("\\n"),
            '\r' => python.push_str("\\r"),
            '\t' => python.push_str("\\t"),
            '\\' => python.push_str("\\\\"),
            '\0'..='\x1f' | '\x7f' => {
                let _ = write!(python, "\\x{:02x}", u32::from(character));
            }
            _ => python.push(character),
        }
        match character {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#x27;"),
            _ => html.push(character),
        }
    }
    for byte in value.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                url.push(char::from(byte));
            }
            _ => {
                let _ = write!(url, "%{byte:02X}");
            }
        }
    }
    let csv = value.replace('"', "\"\"");
    [
        value.to_owned(),
        json.to_owned(),
        ascii,
        python,
        html,
        url,
        csv,
    ]
}

impl Pattern {
    fn new(bytes: Vec<u8>, name: &str) -> Self {
        let mut back = vec![0; bytes.len()];
        let mut matched = 0;
        for at in 1..bytes.len() {
            while matched > 0 && bytes[at] != bytes[matched] {
                matched = back[matched - 1];
            }
            matched += usize::from(bytes[at] == bytes[matched]);
            back[at] = matched;
        }
        Self {
            bytes,
            back,
            mark: format!("[secret {name}]").into_bytes(),
            is_value: false,
        }
    }

    /// How much of it matches after one more byte.
    fn next(&self, mut matched: usize, byte: u8) -> usize {
        while matched > 0 && self.bytes[matched] != byte {
            matched = self.back[matched - 1];
        }
        matched + usize::from(self.bytes[matched] == byte)
    }
}

/// A stream that is scrubbed as it arrives. What may be the beginning of a secret is held back.
#[derive(Debug)]
pub(crate) struct StreamScrubber {
    scrubber: Arc<Scrubber>,
    held: Vec<u8>,
    /// How much of each form matches at the end of what is held.
    matched: Vec<usize>,
    /// Secrets in what is held: where they begin and end, and which form it is.
    found: Vec<(usize, usize, usize)>,
    /// How many of the held bytes belong to a secret whose mark was passed on.
    covered: usize,
}

impl StreamScrubber {
    pub(crate) fn new(scrubber: Arc<Scrubber>) -> Self {
        let matched = vec![0; scrubber.patterns.len()];
        Self {
            scrubber,
            held: Vec::new(),
            matched,
            found: Vec::new(),
            covered: 0,
        }
    }

    /// What can be passed on after these bytes.
    pub(crate) fn push<'a>(&mut self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        let scrubber = &self.scrubber;
        if scrubber.is_empty() {
            return Cow::Borrowed(bytes);
        }
        let mut idle = self.matched.iter().all(|matched| *matched == 0);
        for byte in bytes {
            self.held.push(*byte);
            if idle && !scrubber.first[usize::from(*byte)] {
                continue;
            }
            idle = true;
            let end = self.held.len();
            let patterns = scrubber.patterns.iter().zip(&mut self.matched);
            for (index, (pattern, matched)) in patterns.enumerate() {
                *matched = pattern.next(*matched, *byte);
                if *matched == pattern.bytes.len() {
                    *matched = 0;
                    self.found.push((end - pattern.bytes.len(), end, index));
                }
                idle &= *matched == 0;
            }
        }
        let longest = self.matched.iter().max().copied().unwrap_or(0);
        Cow::Owned(self.pass(self.held.len() - longest))
    }

    /// Whether there is the value of a secret in these bytes, or at the border to those before. They are not kept.
    pub(crate) fn finds_secret(&mut self, bytes: &[u8]) -> bool {
        let scrubber = &self.scrubber;
        let states = scrubber.patterns.iter().zip(&mut self.matched);
        let mut values = states.filter(|(pattern, _)| pattern.is_value);
        values.any(|(pattern, matched)| {
            bytes.iter().any(|byte| {
                *matched = pattern.next(*matched, *byte);
                *matched == pattern.bytes.len()
            })
        })
    }

    /// The rest: it is no secret.
    pub(crate) fn finish(&mut self) -> Vec<u8> {
        self.matched.fill(0);
        self.pass(self.held.len())
    }

    /// Passes on the first bytes that are held, with marks in the place of secrets. Secrets that
    /// overlap have one mark.
    fn pass(&mut self, safe: usize) -> Vec<u8> {
        let mut found = std::mem::take(&mut self.found);
        found.sort_by_key(|(start, end, _)| (*start, Reverse(*end)));
        let mut passed = Vec::with_capacity(safe);
        let mut at = self.covered;
        for (start, end, index) in found {
            if start >= safe {
                // What begins before it may yet become a longer one.
                self.found.push((start - safe, end - safe, index));
                continue;
            }
            if start >= at {
                passed.extend_from_slice(&self.held[at..start]);
                passed.extend_from_slice(&self.scrubber.patterns[index].mark);
            }
            at = at.max(end);
        }
        if at < safe {
            passed.extend_from_slice(&self.held[at..safe]);
        }
        self.held.drain(..safe);
        self.covered = at.saturating_sub(safe);
        passed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn scrubber(secrets: &[(&str, &str)]) -> Arc<Scrubber> {
        let secrets = secrets
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Arc::new(Scrubber::new(&secrets.collect()))
    }

    fn in_pieces(scrubber: &Arc<Scrubber>, text: &str, size: usize) -> String {
        let mut stream = StreamScrubber::new(Arc::clone(scrubber));
        let mut passed = Vec::new();
        for piece in text.as_bytes().chunks(size) {
            passed.extend_from_slice(&stream.push(piece));
        }
        passed.extend(stream.finish());
        String::from_utf8(passed).unwrap()
    }

    #[test]
    fn a_secret_is_found_however_it_is_cut() {
        let scrubber = scrubber(&[("A", "abcabcabd"), ("B", "hunter2-hunter2")]);
        let text = "abcabcabcabd, hunter2-hunter2-hunter2; abcabcab hunter2-";
        let expected = "abc[secret A], [secret B]-hunter2; abcabcab hunter2-";
        for size in 1..text.len() {
            assert_eq!(in_pieces(&scrubber, text, size), expected, "{size}");
        }
    }

    #[test]
    fn what_is_no_beginning_of_a_secret_is_passed_on_at_once() {
        let mut stream = StreamScrubber::new(scrubber(&[("A", "abcdefgh")]));
        assert_eq!(&*stream.push(b"progress 10%"), b"progress 10%");
        assert_eq!(&*stream.push(b"xab"), b"x");
        assert_eq!(&*stream.push(b"c-"), b"abc-");
    }

    #[test]
    fn a_secret_within_another_one_does_not_uncover_it() {
        let url = "postgres://me:hunter2-hunter2@db/x";
        let scrubber = scrubber(&[("PASSWORD", "hunter2-hunter2"), ("URL", url)]);
        for size in 1..url.len() {
            assert_eq!(
                in_pieces(&scrubber, &format!("<{url}>"), size),
                "<[secret URL]>"
            );
        }
        assert_eq!(
            in_pieces(&scrubber, "postgres://me:hunter2-hunter2@other", 3),
            "postgres://me:[secret PASSWORD]@other"
        );
    }

    #[test]
    fn usual_ways_of_showing_a_value_are_found() {
        let scrubber = scrubber(&[("A", "lïne 1\n\"<&>'\\")]);
        for shown in [
            "lïne 1\n\"<&>'\\",
            r#"l\u00efne 1\n\"<&>'\\"#,
            "lïne 1\\n\\\"<&>'\\\\",
            "lïne 1\\n\"<&>'\\\\",
            "lïne 1\n&quot;&lt;&amp;&gt;&#x27;\\",
            "l%C3%AFne%201%0A%22%3C%26%3E%27%5C",
        ] {
            let mut text = shown.to_owned();
            scrubber.text(&mut text);
            assert_eq!(text, "[secret A]", "{shown}");
        }
    }

    #[test]
    fn strings_of_json_are_scrubbed_and_nothing_else() {
        let scrubber = scrubber(&[("A", "12345678"), ("B", "a\"quoted\"")]);
        let json = r#"{"12345678": 12345678, "x": ["\u0031\u0032345678", "<a\"quoted\">", "\\"]}"#;
        let clean = scrubber.json(json.as_bytes());
        let expected = r#"{"12345678": 12345678, "x": ["[secret A]", "<[secret B]>", "\\"]}"#;
        assert_eq!(std::str::from_utf8(&clean).unwrap(), expected);
        for broken in ["\"", "\"\\", "{\"12345678", "", "\\\""] {
            assert_eq!(*scrubber.json(broken.as_bytes()), *broken.as_bytes());
        }
    }

    proptest! {
        /// However a stream is cut, it becomes the same, and holds no secret.
        #[test]
        fn pieces_do_not_matter(text in "[ab]{0,200}", size in 1_usize..50) {
            let scrubber = scrubber(&[("X", "abababab"), ("Y", "babababb"), ("Z", "aaaabbbbaaaa")]);
            let whole = in_pieces(&scrubber, &text, 1000);
            prop_assert_eq!(&in_pieces(&scrubber, &text, size), &whole);
            for secret in ["abababab", "babababb", "aaaabbbbaaaa"] {
                prop_assert!(!whole.contains(secret), "{}", whole);
            }
        }
    }
}
