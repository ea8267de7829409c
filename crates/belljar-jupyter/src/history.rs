//! The cells that a kernel has run, for clients that ask for them.

use std::collections::VecDeque;

use serde_json::{Value, json};

use crate::content::HistoryRequest;

/// The most cells that are kept.
const MAX_CELLS: usize = 10_000;
/// The most bytes of source that are kept.
const MAX_BYTES: usize = 16 << 20;
/// The number of the only session that a kernel remembers.
const SESSION: u32 = 1;

/// Cells by their numbers, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct History {
    cells: VecDeque<(u32, String)>,
    bytes: usize,
}

impl History {
    pub(crate) fn push(&mut self, number: u32, code: &str) {
        self.bytes += code.len();
        self.cells.push_back((number, code.to_owned()));
        while self.cells.len() > MAX_CELLS || self.bytes > MAX_BYTES {
            let Some((_, oldest)) = self.cells.pop_front() else {
                break;
            };
            self.bytes -= oldest.len();
        }
    }

    /// The content of the reply.
    pub(crate) fn reply(&self, request: &HistoryRequest) -> Value {
        let mut found: Vec<&(u32, String)> = match request.hist_access_type.as_str() {
            "range" => {
                // Session 0 is the current one, as negative ones are those before it.
                let is_known = [0, i64::from(SESSION)].contains(&request.session);
                let stop = request.stop.unwrap_or(u32::MAX);
                let range = request.start..stop;
                let cells = self.cells.iter().filter(|_| is_known);
                cells.filter(|(number, _)| range.contains(number)).collect()
            }
            "search" => {
                let pattern: Vec<char> = request.pattern.chars().collect();
                let cells = self.cells.iter();
                cells
                    .filter(|(_, code)| matches(&pattern, &code.chars().collect::<Vec<_>>()))
                    .collect()
            }
            _ => self.cells.iter().collect(),
        };
        if request.unique {
            let mut seen = std::collections::HashSet::new();
            found.reverse();
            found.retain(|(_, code)| seen.insert(code.as_str()));
            found.reverse();
        }
        if request.hist_access_type != "range"
            && let Some(most) = request.n
        {
            found.drain(..found.len().saturating_sub(most));
        }
        let cells = found.into_iter().map(|(number, code)| {
            if request.output {
                json!([SESSION, number, [code, null]])
            } else {
                json!([SESSION, number, code])
            }
        });
        json!({"status": "ok", "history": cells.collect::<Vec<_>>()})
    }
}

/// Whether text matches a pattern with `*` and `?`, in time of at most their lengths multiplied.
fn matches(pattern: &[char], text: &[char]) -> bool {
    let (mut p, mut t) = (0, 0);
    // After the last `*`, and how much of the text it has taken.
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p + 1, t));
                p += 1;
            }
            Some(c) if *c == '?' || *c == text[t] => {
                p += 1;
                t += 1;
            }
            _ => match &mut star {
                Some((after, taken)) => {
                    *taken += 1;
                    (p, t) = (*after, *taken);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(content: Value) -> Vec<String> {
        let mut history = History::default();
        for (number, code) in (1..).zip(["a = 1", "b", "a = 2", "b", "c"]) {
            history.push(number, code);
        }
        let request = serde_json::from_value(content).unwrap();
        let reply = history.reply(&request);
        let cells = reply["history"].as_array().unwrap().iter();
        cells
            .map(|cell| format!("{} {}", cell[1], cell[2].as_str().unwrap()))
            .collect()
    }

    #[test]
    fn cells_are_found_by_place_and_pattern() {
        assert_eq!(
            asked(json!({"hist_access_type": "tail", "n": 2})),
            ["4 b", "5 c"]
        );
        let range = json!({"hist_access_type": "range", "session": 0, "start": 2, "stop": 4});
        assert_eq!(asked(range), ["2 b", "3 a = 2"]);
        let other = json!({"hist_access_type": "range", "session": -1, "start": 2, "stop": 4});
        assert_eq!(asked(other), [""; 0]);
        let search = json!({"hist_access_type": "search", "pattern": "a*?"});
        assert_eq!(asked(search), ["1 a = 1", "3 a = 2"]);
        let unique = json!({"hist_access_type": "search", "pattern": "*", "unique": true, "n": 3});
        assert_eq!(asked(unique), ["3 a = 2", "4 b", "5 c"]);
    }

    #[test]
    fn old_cells_are_forgotten() {
        let mut history = History::default();
        let large = "x".repeat(MAX_BYTES / 2);
        for number in 1..=5 {
            history.push(number, &large);
        }
        assert_eq!(history.cells.len(), 2);
        for number in 0..20_000 {
            history.push(number, "x");
        }
        assert_eq!((history.cells.len(), history.bytes), (MAX_CELLS, MAX_CELLS));
    }

    #[test]
    fn a_pattern_of_stars_ends() {
        let pattern: Vec<char> = "*a".repeat(200).chars().collect();
        let text: Vec<char> = "a".repeat(150).chars().collect();
        assert!(!matches(&pattern, &text));
    }
}
