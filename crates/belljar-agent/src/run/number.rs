//! Numbers in texts, as their digits say.

/// The sign of mathematics, which is not the hyphen.
const MINUS: char = '\u{2212}';

/// Numbers as they are written: signs, separators, fractions, exponents.
pub(super) fn numbers(text: &str) -> Vec<&str> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let starts = bytes[at].is_ascii_digit()
            && (at == 0 || !(bytes[at - 1].is_ascii_alphanumeric() || bytes[at - 1] == b'_'));
        if !starts {
            at += 1;
            continue;
        }
        let mut end = at;
        while end < bytes.len() {
            let next = bytes.get(end + 1).copied().unwrap_or(b' ');
            let goes_on = match bytes[end] {
                b'0'..=b'9' => true,
                b'.' => next.is_ascii_digit() && !text[at..end].contains('.'),
                b',' | b'_' => {
                    let three = &bytes[end + 1..bytes.len().min(end + 4)];
                    let after = bytes.get(end + 4).copied().unwrap_or(b' ');
                    three.len() == 3
                        && three.iter().all(u8::is_ascii_digit)
                        && !after.is_ascii_digit()
                        && !text[at..end].contains('.')
                }
                b'e' | b'E' => {
                    next.is_ascii_digit()
                        || (matches!(next, b'+' | b'-')
                            && bytes.get(end + 2).is_some_and(u8::is_ascii_digit))
                }
                b'+' | b'-' => matches!(bytes[end - 1], b'e' | b'E'),
                _ => false,
            };
            if !goes_on {
                break;
            }
            end += 1;
        }
        // A word that begins with digits is no number.
        if !bytes.get(end).is_some_and(u8::is_ascii_alphabetic) {
            let negative = at > 0
                && bytes[at - 1] == b'-'
                && !(at > 1 && (bytes[at - 2].is_ascii_alphanumeric() || bytes[at - 2] == b')'));
            let from = if negative {
                at - 1
            } else if text[..at].ends_with(MINUS) {
                at - MINUS.len_utf8()
            } else {
                at
            };
            found.push(&text[from..end]);
        }
        at = end.max(at + 1);
        while at < bytes.len() && (bytes[at].is_ascii_alphanumeric() || bytes[at] == b'_') {
            at += 1;
        }
    }
    found
}

/// A number as its digits say, of any length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Decimal {
    negative: bool,
    whole: String,
    fraction: String,
}

impl Decimal {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let plain: String = text.chars().filter(|c| !matches!(c, ',' | '_')).collect();
        let plain = if plain.contains(['e', 'E']) {
            let value: f64 = plain.parse().ok()?;
            if !value.is_finite() || value.abs() > 1e300 {
                return None;
            }
            format!("{value}")
        } else {
            plain
        };
        let (negative, digits) = match plain.strip_prefix(['-', MINUS]) {
            Some(digits) => (true, digits),
            None => (false, plain.as_str()),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let whole = whole.trim_start_matches('0').to_owned();
        let fraction = fraction.trim_end_matches('0').to_owned();
        Some(Self {
            negative: negative && !(whole.is_empty() && fraction.is_empty()),
            whole,
            fraction,
        })
    }

    /// It with its point moved to the right, or to the left by a negative number.
    pub(super) fn shifted(mut self, by: i32) -> Self {
        for _ in 0..by {
            let first = if self.fraction.is_empty() {
                '0'
            } else {
                self.fraction.remove(0)
            };
            if !(self.whole.is_empty() && first == '0') {
                self.whole.push(first);
            }
        }
        for _ in by..0 {
            let last = self.whole.pop().unwrap_or('0');
            if !(self.fraction.is_empty() && last == '0') {
                self.fraction.insert(0, last);
            }
        }
        self
    }

    pub(super) fn without_sign(mut self) -> Self {
        self.negative = false;
        self
    }

    /// Whether it is less than one, whatever its sign.
    pub(super) fn is_fraction(&self) -> bool {
        self.whole.is_empty()
    }

    /// Whether it has more digits than `other`, and becomes it when they are rounded off.
    pub(super) fn rounds_to(&self, other: &Self) -> bool {
        let places = other.fraction.len();
        if self.negative != other.negative || self.fraction.len() <= places {
            return false;
        }
        let mut digits: Vec<u8> = self
            .whole
            .bytes()
            .chain(self.fraction.bytes().take(places))
            .collect();
        let up = self.fraction.as_bytes()[places] >= b'5';
        if up {
            let mut at = digits.len();
            loop {
                if at == 0 {
                    digits.insert(0, b'1');
                    break;
                }
                at -= 1;
                if digits[at] == b'9' {
                    digits[at] = b'0';
                } else {
                    digits[at] += 1;
                    break;
                }
            }
        }
        let wanted = other.whole.bytes().chain(other.fraction.bytes());
        let digits: Vec<u8> = digits.into_iter().skip_while(|d| *d == b'0').collect();
        digits == wanted.skip_while(|d| *d == b'0').collect::<Vec<u8>>()
    }
}
