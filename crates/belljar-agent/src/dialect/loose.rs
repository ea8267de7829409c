//! JSON as models write it. By hand, because crates that mend JSON guess without saying so, and not
//! in linear time.
//!
//! [`serde_json`] is asked first. Only what it refuses is read here, where the question is mostly
//! which quote ends a string: one that is followed by what may follow a value there.

use serde_json::{Map, Value};

use super::{Mended, Mending, quote};

/// Deeper values are refused, as `serde_json` does.
const DEPTH: usize = 100;

/// Whether a brace can begin an object: a cheap look before an attempt to read it.
pub(super) fn may_begin(after_brace: &str) -> bool {
    let next = after_brace.trim_start().chars().next();
    next.is_none_or(|c| !matches!(c, '{' | '[' | '(' | ')' | ']' | '%' | '.' | '$'))
}

/// Where and why reading stopped.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) at: usize,
    pub(super) expected: &'static str,
    /// The text ended in the middle of a value.
    pub(super) at_end: bool,
}

impl Fault {
    pub(super) fn near(&self, text: &str) -> String {
        let mut from = self.at.min(text.len()).saturating_sub(20);
        while !text.is_char_boundary(from) {
            from -= 1;
        }
        quote(text, from)
    }
}

/// Reads the value that begins at `start`; gives it and where it ends. `keys` are names of members
/// that may follow a string: only before one of these is a quote and a comma its end.
pub(super) fn read(
    text: &str,
    start: usize,
    keys: &[&str],
    truncated: bool,
    mended: &mut Mended,
) -> Result<(Value, usize), Fault> {
    let mut strict = serde_json::Deserializer::from_str(&text[start..]).into_iter::<Value>();
    if let Some(Ok(value)) = strict.next() {
        return Ok((value, start + strict.byte_offset()));
    }
    let mut reader = Reader {
        text,
        at: start,
        keys,
        truncated,
        mended: Mended::default(),
    };
    let value = reader.value(0)?;
    reader.mended.0.into_iter().for_each(|m| mended.add(m));
    Ok((value, reader.at))
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    keys: &'a [&'a str],
    truncated: bool,
    mended: Mended,
}

impl Reader<'_> {
    fn fault(&self, expected: &'static str) -> Fault {
        Fault {
            at: self.at,
            expected,
            at_end: self.at >= self.text.len(),
        }
    }

    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn skip(&mut self) {
        loop {
            let rest = self.rest();
            let spaces = rest.len() - rest.trim_start().len();
            let rest = &rest[spaces..];
            let comment = if rest.starts_with("//") || rest.starts_with('#') {
                rest.find('\n').unwrap_or(rest.len())
            } else if rest.starts_with("/*") {
                rest.find("*/").map_or(rest.len(), |end| end + 2)
            } else {
                0
            };
            self.at += spaces + comment;
            if comment == 0 {
                return;
            }
            self.mended.add(Mending::JsonComments);
        }
    }

    fn value(&mut self, depth: usize) -> Result<Value, Fault> {
        if depth > DEPTH {
            return Err(self.fault("fewer levels of nesting"));
        }
        self.skip();
        match self.peek() {
            Some('{') => self.object(depth),
            Some('[') => self.array(depth),
            Some(c) if quotes(c).is_some() || c == '`' => self.string(false).map(Value::String),
            Some(_) => self.word(),
            None => Err(self.fault("a value")),
        }
    }

    fn object(&mut self, depth: usize) -> Result<Value, Fault> {
        let mut members = Map::new();
        self.at += 1;
        loop {
            self.skip();
            match self.peek() {
                Some('}') => {
                    self.at += 1;
                    return Ok(Value::Object(members));
                }
                Some(',') => {
                    self.at += 1;
                    self.mended.add(Mending::JsonCommas);
                    continue;
                }
                None if !members.is_empty() && !self.truncated => {
                    self.mended.add(Mending::JsonClosed);
                    return Ok(Value::Object(members));
                }
                _ => {}
            }
            let key = self.key()?;
            self.skip();
            if !matches!(self.peek(), Some(':' | '：')) {
                return Err(self.fault("`:` after a key"));
            }
            self.at += self.peek().map_or(0, char::len_utf8);
            let value = self.value(depth + 1)?;
            members.insert(key, value);
            self.skip();
            match self.peek() {
                Some(',') => {
                    self.at += 1;
                    self.skip();
                    if self.peek() == Some('}') {
                        self.mended.add(Mending::JsonCommas);
                    }
                }
                Some('}') => {}
                Some('"') => self.mended.add(Mending::JsonCommas),
                None if !self.truncated => {}
                _ => return Err(self.fault("`,` or `}`")),
            }
        }
    }

    fn key(&mut self) -> Result<String, Fault> {
        match self.peek() {
            Some(c) if quotes(c).is_some() => self.string(true),
            Some(c) if c.is_alphabetic() || c == '_' => {
                let end = |c: char| !(c.is_alphanumeric() || c == '_' || c == '-');
                let length = self.rest().find(end).unwrap_or(self.rest().len());
                let key = self.rest()[..length].to_owned();
                self.at += length;
                self.mended.add(Mending::JsonQuotes);
                Ok(key)
            }
            _ => Err(self.fault("a key in double quotes")),
        }
    }

    fn array(&mut self, depth: usize) -> Result<Value, Fault> {
        let mut items = Vec::new();
        self.at += 1;
        loop {
            self.skip();
            match self.peek() {
                Some(']') => {
                    self.at += 1;
                    return Ok(Value::Array(items));
                }
                None if !items.is_empty() && !self.truncated => {
                    self.mended.add(Mending::JsonClosed);
                    return Ok(Value::Array(items));
                }
                _ => {}
            }
            items.push(self.value(depth + 1)?);
            self.skip();
            match self.peek() {
                Some(',') => {
                    self.at += 1;
                    self.skip();
                    if self.peek() == Some(']') {
                        self.mended.add(Mending::JsonCommas);
                    }
                }
                Some(']') => {}
                None if !self.truncated => {}
                _ => return Err(self.fault("`,` or `]`")),
            }
        }
    }

    /// A number, or a literal of JSON or Python.
    fn word(&mut self) -> Result<Value, Fault> {
        let end = |c: char| !(c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.' | '_'));
        let length = self.rest().find(end).unwrap_or(self.rest().len());
        let word = &self.rest()[..length];
        let python = match word {
            "True" => Some(Value::Bool(true)),
            "False" => Some(Value::Bool(false)),
            "None" => Some(Value::Null),
            _ => None,
        };
        let value = python
            .clone()
            .or_else(|| serde_json::from_str(word).ok())
            .ok_or_else(|| self.fault("a value"))?;
        if python.is_some() {
            self.mended.add(Mending::JsonPythonLiterals);
        }
        self.at += length;
        Ok(value)
    }

    fn string(&mut self, key: bool) -> Result<String, Fault> {
        for triple in ["\"\"\"", "'''", "```"] {
            if let Some(body) = self.rest().strip_prefix(triple) {
                // An empty string and a quote is not the start of a long one.
                let length = body.find(triple).ok_or(Fault {
                    at: self.text.len(),
                    expected: "the end of a string",
                    at_end: true,
                })?;
                let value = body[..length].to_owned();
                self.at += length + 6;
                self.mended.add(Mending::JsonQuotes);
                return Ok(value);
            }
        }
        let open = self.peek().unwrap_or('"');
        let close = quotes(open).unwrap_or("`");
        if open != '"' {
            self.mended.add(Mending::JsonQuotes);
        }
        self.at += open.len_utf8();
        let mut value = String::new();
        let special = |c: char| c == '\\' || c < ' ' || close.contains(c);
        loop {
            let plain = self.rest().find(special).unwrap_or(self.rest().len());
            value.push_str(&self.rest()[..plain]);
            self.at += plain;
            let Some(c) = self.peek() else {
                break;
            };
            let here = self.at;
            self.at += c.len_utf8();
            if c == '\\' {
                self.escape(&mut value)?;
            } else if close.contains(c) {
                if self.ends_string(key) {
                    return Ok(value);
                }
                self.mended.add(Mending::JsonUnescapedQuotes);
                value.push(c);
            } else if key && c == '\n' {
                self.at = here;
                return Err(self.fault("the end of a key"));
            } else {
                self.mended.add(Mending::JsonRawCharacters);
                value.push(c);
            }
        }
        Err(self.fault("the end of a string"))
    }

    fn escape(&mut self, value: &mut String) -> Result<(), Fault> {
        let c = self
            .peek()
            .ok_or_else(|| self.fault("the end of a string"))?;
        self.at += c.len_utf8();
        match c {
            'n' => value.push('\n'),
            't' => value.push('\t'),
            'r' => value.push('\r'),
            'b' => value.push('\u{8}'),
            'f' => value.push('\u{c}'),
            '"' | '\\' | '/' => value.push(c),
            'u' => value.push(self.unicode()),
            '\'' => {
                self.mended.add(Mending::JsonEscapes);
                value.push('\'');
            }
            c => {
                self.mended.add(Mending::JsonEscapes);
                value.extend(['\\', c]);
            }
        }
        Ok(())
    }

    /// The four digits after `\u`, and the second half of a pair.
    fn unicode(&mut self) -> char {
        let unit = |text: &str| {
            let digits = text.get(..4)?;
            u16::from_str_radix(digits, 16).ok()
        };
        let Some(first) = unit(self.rest()) else {
            self.mended.add(Mending::JsonEscapes);
            return char::REPLACEMENT_CHARACTER;
        };
        self.at += 4;
        let second = self.rest().strip_prefix("\\u").and_then(unit);
        let decode = |units: &[u16]| char::decode_utf16(units.iter().copied()).next();
        if let Some(Ok(c)) = decode(&[first]) {
            return c;
        }
        if let Some(Some(Ok(c))) = second.map(|second| decode(&[first, second])) {
            self.at += 6;
            return c;
        }
        char::REPLACEMENT_CHARACTER
    }

    /// Whether the quote just passed ends its string: by what follows it, a bounded look ahead.
    fn ends_string(&self, key: bool) -> bool {
        let rest = bounded(self.rest());
        if key {
            return rest.trim_start().starts_with([':', '：']);
        }
        let rest = rest.trim_start();
        let Some(next) = rest.chars().next() else {
            return true;
        };
        let after = rest[next.len_utf8()..].trim_start_matches([' ', '\t']);
        match next {
            ',' => {
                let mut after = after.trim_start();
                if after.starts_with('#') || after.starts_with("//") {
                    after = after
                        .split_once('\n')
                        .map_or("", |(_, next)| next)
                        .trim_start();
                }
                after.is_empty() || after.starts_with('}') || self.starts_member(after) || {
                    // In an array another string or value follows; in code it would be the same,
                    // so only where no member of an object is expected.
                    self.keys.is_empty() && after.starts_with(['"', '\'', '{', '['])
                }
            }
            '}' | ']' => {
                after.is_empty()
                    || after.starts_with(['}', ']', '\n', '`', '<', ','])
                        && !after.starts_with("\\n")
            }
            // A missing comma.
            '"' => self.starts_member(rest),
            '/' => after.starts_with(['/', '*']),
            _ => false,
        }
    }

    /// Whether `text` begins with one of the keys and a colon.
    fn starts_member(&self, text: &str) -> bool {
        let unquoted = text.trim_start_matches(['"', '\'', '“', '”']);
        let end = |c: char| !(c.is_ascii_alphanumeric() || c == '_');
        let length = unquoted.find(end).unwrap_or(unquoted.len());
        let (key, rest) = unquoted.split_at(length);
        let rest = rest.trim_start_matches(['"', '\'', '“', '”']).trim_start();
        self.keys.contains(&key) && rest.starts_with([':', '：'])
    }
}

/// As much as a look ahead may look at.
fn bounded(text: &str) -> &str {
    let mut end = text.len().min(80);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// The characters that close a string which `open` opens.
fn quotes(open: char) -> Option<&'static str> {
    match open {
        '"' => Some("\""),
        '\'' => Some("'"),
        '“' | '”' | '„' => Some("”“\""),
        '‘' | '’' => Some("’‘'"),
        _ => None,
    }
}
