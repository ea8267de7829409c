//! Which expression showed which part of an output.

use super::cells::Part;
use super::units;
use super::{Made, Shape, Shown, measure_of};

/// The longest output that is bound, in lines.
const MOST_LINES: usize = 200;
/// The most lines of a head of a table.
const MOST_HEADS: usize = 3;

/// An output whose lines are bound to what showed them.
#[derive(Clone, Debug)]
pub(in super::super) struct Bound<'t> {
    lines: Vec<&'t str>,
    shown: Vec<Shown>,
    /// For each line the value that showed it, and the first line of that.
    by: Vec<Option<(usize, usize)>>,
}

/// The expression of a place in an output.
#[derive(Clone, Debug)]
pub(in super::super) struct Place {
    pub(in super::super) made: Made,
    pub(in super::super) code: String,
    /// What else the same line, tuple or table shows.
    pub(in super::super) others: Vec<Made>,
    /// Whether it is one of several rows.
    pub(in super::super) is_row: bool,
    /// What the code says that it is, if it is a citation.
    pub(in super::super) label: Option<String>,
}

/// A part of what was shown, and where in its line it stands.
type Span = (usize, usize, usize);

/// What may show some lines that follow each other.
struct Group {
    from: usize,
    to: usize,
    least: usize,
    is_single: bool,
}

/// Binds the lines of an output to what a cell shows, in order; `None` if they don't fit.
pub(in super::super) fn bind<'t>(shown: &[Shown], text: &'t str) -> Option<Bound<'t>> {
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    if lines.is_empty() || lines.len() > MOST_LINES || shown.is_empty() {
        return None;
    }
    let groups = groups(shown);
    let count = lines.len();
    let none = f64::NEG_INFINITY;
    // The best score of the first lines by the first groups, and where the run of the last group starts.
    let mut best = vec![vec![none; count + 1]; groups.len() + 1];
    let mut starts = vec![vec![0; count + 1]; groups.len() + 1];
    best[0][0] = 0.0;
    for (at, group) in groups.iter().enumerate() {
        let members = &shown[group.from..group.to];
        let first: Vec<f64> = lines.iter().map(|line| begins(members, line)).collect();
        let next: Vec<f64> = (0..count)
            .map(|line| {
                if group.is_single {
                    none
                } else {
                    continues(members, &lines, line)
                }
            })
            .collect();
        for from in 0..=count {
            let before = best[at][from];
            if !before.is_finite() {
                continue;
            }
            if group.least == 0 && before > best[at + 1][from] {
                best[at + 1][from] = before;
                starts[at + 1][from] = from;
            }
            let mut score = before;
            for (to, (first, next)) in first.iter().zip(&next).enumerate().skip(from) {
                score += if to == from { first } else { next };
                if !score.is_finite() {
                    break;
                }
                if score > best[at + 1][to + 1] {
                    best[at + 1][to + 1] = score;
                    starts[at + 1][to + 1] = from;
                }
            }
        }
    }
    // What follows the last one, such as a warning, is bound to nothing.
    let last = (1..=count).rfind(|to| best[groups.len()][*to].is_finite())?;
    let mut by = vec![None; count];
    let mut to = last;
    for at in (0..groups.len()).rev() {
        let from = starts[at + 1][to];
        let members = &shown[groups[at].from..groups[at].to];
        let mut start = from;
        for (line, text) in lines.iter().enumerate().take(to).skip(from) {
            let scores = members
                .iter()
                .map(|one| begins(std::slice::from_ref(one), text));
            let found = scores
                .enumerate()
                .filter(|(_, score)| score.is_finite())
                .max_by(|one, other| one.1.total_cmp(&other.1).then(other.0.cmp(&one.0)));
            let is_first = line == from || members[0].repeats;
            match found.filter(|_| is_first) {
                Some((member, _)) => {
                    start = line;
                    by[line] = Some((groups[at].from + member, start));
                }
                None if line > from => by[line] = by[line - 1].map(|(one, _)| (one, start)),
                None => {}
            }
        }
        to = from;
    }
    Some(Bound {
        lines,
        shown: shown.to_vec(),
        by,
    })
}

fn groups(shown: &[Shown]) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for (at, one) in shown.iter().enumerate() {
        if let Some(last) = groups.last_mut()
            && one.repeats
            && shown[last.from].repeats
            && shown[last.from].statement == one.statement
        {
            last.to = at + 1;
            continue;
        }
        groups.push(Group {
            from: at,
            to: at + 1,
            least: usize::from(!one.repeats && !one.may_be_empty),
            is_single: !one.repeats && one.is_single(),
        });
    }
    groups
}

impl Shown {
    /// Whether it shows one line.
    fn is_single(&self) -> bool {
        self.parts.iter().all(|part| match part {
            Part::Text(_) => true,
            Part::Value(made, _) => matches!(
                made.shape,
                Shape::Scalar | Shape::Tuple(_) | Shape::List(_) | Shape::Dict(_) | Shape::Map(_)
            ),
        })
    }

    /// What the line of a citation says before the value.
    fn label(&self, line: &str) -> Option<String> {
        let first = self.cites?;
        let (spans, _) = self.spans(line)?;
        let (_, from, _) = spans.iter().find(|(part, ..)| *part >= first)?;
        let label = line.get(..*from)?.trim().trim_end_matches(':').trim();
        Some(label.to_owned())
    }

    /// The places of its values in a line, and how well its texts fit; `None` if they don't.
    fn spans(&self, line: &str) -> Option<(Vec<Span>, f64)> {
        let (mut found, mut pending, mut at, mut score) = (Vec::new(), Vec::new(), 0, 0.5);
        for (index, part) in self.parts.iter().enumerate() {
            let Part::Text(text) = part else {
                pending.push(index);
                continue;
            };
            let text = text.trim();
            if text.is_empty() {
                continue;
            }
            let rest = &line[at..];
            let next = if pending.is_empty() {
                let space = rest.len() - rest.trim_start().len();
                rest.trim_start().starts_with(text).then_some(space)?
            } else {
                rest.find(text)?
            };
            place(&mut found, &mut pending, line, at, at + next)?;
            at += next + text.len();
            score += text
                .chars()
                .map(|c| if c.is_alphanumeric() { 1.0 } else { 0.2 })
                .sum::<f64>();
        }
        place(&mut found, &mut pending, line, at, line.len())?;
        Some((found, score))
    }
}

/// Divides a part of a line among the values that stand in it.
fn place(
    found: &mut Vec<Span>,
    pending: &mut Vec<usize>,
    line: &str,
    from: usize,
    to: usize,
) -> Option<()> {
    let all = std::mem::take(pending);
    let text = line.get(from..to)?;
    match all[..] {
        [] => return text.trim().is_empty().then_some(()),
        [one] => {
            found.push((one, from, to));
            return Some(());
        }
        _ => {}
    }
    let words = words(text);
    // The first may have spaces.
    let more = words.len().checked_sub(all.len())?;
    for (at, index) in all.into_iter().enumerate() {
        let first = if at == 0 { 0 } else { at + more };
        let last = at + more;
        found.push((index, from + words[first].0, from + words[last].1));
    }
    Some(())
}

/// Words of a text; what is in brackets or quotes is one.
fn words(text: &str) -> Vec<(usize, usize)> {
    let (mut found, mut start, mut depth, mut quote) = (Vec::new(), None, 0_i32, None);
    for (at, c) in text.char_indices() {
        if c.is_whitespace() && depth <= 0 && quote.is_none() {
            found.extend(start.take().map(|start| (start, at)));
            continue;
        }
        start.get_or_insert(at);
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            '\'' | '"' if quote == Some(c) => quote = None,
            '\'' | '"' if quote.is_none() && depth > 0 => quote = Some(c),
            _ => {}
        }
    }
    found.extend(start.map(|start| (start, text.len())));
    found
}

/// How well a line fits as the first of one of these.
fn begins(members: &[Shown], line: &str) -> f64 {
    let scores = members.iter().filter_map(|one| {
        let (_, score) = one.spans(line)?;
        let first = line.split_whitespace().next().unwrap_or_default();
        let is_head = one.parts.iter().any(|part| match part {
            Part::Value(made, _) => made.by.contains(first),
            Part::Text(_) => false,
        });
        Some(score + if is_head { 0.5 } else { 0.0 })
    });
    scores.fold(f64::NEG_INFINITY, f64::max)
}

/// How well a line fits as another one of what was begun.
fn continues(members: &[Shown], lines: &[&str], at: usize) -> f64 {
    if members[0].repeats {
        return begins(members, lines[at]);
    }
    let ends = |line: &str| line.starts_with("Name: ") || line.starts_with("dtype: ");
    if at > 0 && ends(lines[at - 1]) {
        return -1.0;
    }
    if ends(lines[at]) { 0.5 } else { 0.05 }
}

impl Bound<'_> {
    /// The words of all citations.
    pub(in super::super) fn labels(&self) -> impl Iterator<Item = String> {
        let lines = self.lines.iter().zip(&self.by);
        lines.filter_map(|(line, by)| self.shown[(*by)?.0].label(line))
    }

    /// What showed the text at this address.
    pub(in super::super) fn at(&self, found: &str) -> Option<Place> {
        let start = found.as_ptr() as usize;
        let is_in = |line: &&str| {
            let from = line.as_ptr() as usize;
            (from..from + line.len()).contains(&start)
        };
        let index = self.lines.iter().position(is_in)?;
        let line = self.lines[index];
        let at = start - line.as_ptr() as usize;
        let (shown, first) = self.by[index]?;
        let shown = &self.shown[shown];
        if first < index {
            // A row below the first line.
            let value = shown.parts.iter().rev().find_map(|part| match part {
                Part::Value(made, code) => Some((made, code)),
                Part::Text(_) => None,
            });
            let (made, code) = value?;
            return self.in_table(made, code, first, index, at, found.len());
        }
        let (spans, _) = shown.spans(line)?;
        let (part, from, to) = spans
            .iter()
            .copied()
            .find(|(_, from, to)| (*from..*to).contains(&at))?;
        let Part::Value(made, code) = &shown.parts[part] else {
            return None;
        };
        if let Shape::Series | Shape::Row | Shape::Frame(_) | Shape::Groups = made.shape
            && shown.parts.len() == 1
        {
            return self.in_table(made, code, first, index, at, found.len());
        }
        let mut others: Vec<Made> = Vec::new();
        for (other, ..) in &spans {
            if let (true, Part::Value(made, _)) = (*other != part, &shown.parts[*other]) {
                others.push((**made).clone());
            }
        }
        let (made, more, is_element) = within(made, line.get(from..to)?, at - from)?;
        others.extend(more);
        Some(Place {
            made,
            code: code.clone(),
            others,
            is_row: is_element || shown.repeats,
            label: shown.label(line).filter(|_| shown.cites <= Some(part)),
        })
    }

    fn in_table(
        &self,
        made: &Made,
        code: &str,
        first: usize,
        index: usize,
        at: usize,
        size: usize,
    ) -> Option<Place> {
        let line = self.lines[index];
        let mut value = made.clone();
        let label = line.split_whitespace().next().unwrap_or_default();
        let mut others = Vec::new();
        match &made.shape {
            Shape::Row => {
                if label.bytes().all(|b| b.is_ascii_digit()) {
                    return None;
                }
                value = made.column(label);
                value.about.insert(label.to_owned());
            }
            Shape::Series | Shape::Map(_) | Shape::List(_) => {
                value.shape = Shape::Scalar;
                if let Shape::Map(one) | Shape::List(one) = &made.shape {
                    let mut one = (**one).clone();
                    one.join_inputs(made);
                    value = one;
                }
            }
            Shape::Frame(_) | Shape::Groups | Shape::Unknown => {
                let heads = self.heads(first, index, at, size);
                let Some((own, all)) = heads else {
                    let is_known = matches!(made.shape, Shape::Unknown) && numbers_of(line) == 1;
                    return is_known.then(|| Place {
                        made: value,
                        code: code.to_owned(),
                        others,
                        is_row: true,
                        label: None,
                    });
                };
                let column = |name: &str| {
                    let mut one = made.column(name);
                    if let Some(measure) = measure_of(name) {
                        one.measures = vec![measure];
                    }
                    one.about.insert(name.to_owned());
                    one
                };
                value = column(own.last()?);
                let uppers = &own[..own.len() - 1];
                if !uppers.is_empty() {
                    value.about.clear();
                    value.units.clear();
                }
                for upper in uppers {
                    let one = made.column(&format!("{upper} {}", own.last()?));
                    value.measures.extend(one.measures);
                    value.about.insert((*upper).to_owned());
                    value.units.extend(units::of_name(upper));
                }
                others = all.iter().map(|name| column(name)).collect();
                others.retain(|one| one.about != value.about);
            }
            _ => {}
        }
        if made.describes
            && let Some(measure) = measure_of(label)
        {
            value.measures = vec![measure];
        }
        value.shape = Shape::Scalar;
        Some(Place {
            made: value,
            code: code.to_owned(),
            others,
            is_row: !made.describes && !matches!(made.shape, Shape::Row),
            label: None,
        })
    }

    /// The words above a place, from the top, and all words of the lowest line that has one.
    fn heads(
        &self,
        first: usize,
        index: usize,
        at: usize,
        size: usize,
    ) -> Option<(Vec<&str>, Vec<&str>)> {
        let line = self.lines[index];
        let end = line.get(..at + size)?.chars().count();
        let ends = |head: &str| -> Vec<(usize, usize, usize)> {
            let all = words(head).into_iter();
            all.map(|(from, to)| (from, to, head[..to].chars().count()))
                .collect()
        };
        // Rows above are no head.
        let run = &self.lines[first..index];
        let is_row = |line: &&str| !crate::run::number::numbers(line).is_empty();
        let rows = run.iter().skip(1).position(is_row);
        let heads = &run[..rows.map_or(run.len(), |at| at + 1).min(MOST_HEADS)];
        let lowest = heads
            .iter()
            .rposition(|head| ends(head).iter().any(|one| one.2 == end))?;
        let mut own = Vec::new();
        for head in &heads[..lowest] {
            let upper = ends(head).into_iter().rfind(|one| one.2 <= end);
            own.extend(upper.map(|(from, to, _)| &head[from..to]));
        }
        let head = heads[lowest];
        let (from, to, _) = ends(head).into_iter().find(|one| one.2 == end)?;
        own.push(&head[from..to]);
        let all = ends(head)
            .into_iter()
            .map(|(from, to, _)| &head[from..to])
            .collect();
        Some((own, all))
    }
}

/// The part of a value that stands at this place of its text; what stands beside it; whether it is one of many.
fn within(made: &Made, text: &str, at: usize) -> Option<(Made, Vec<Made>, bool)> {
    match &made.shape {
        Shape::Tuple(parts) => {
            let inner = bracket(text, at);
            let (inner, at) = inner.map_or((text, at), |(from, to)| (&text[from..to], at - from));
            let index = commas(inner, at);
            let part = parts.get(index)?;
            let mut others: Vec<Made> = parts.clone();
            others.remove(index);
            let mut whole = part.clone();
            whole.join_rows(made);
            let (made, more, is_row) = within(&whole, inner, at)?;
            others.extend(more);
            Some((made, others, is_row))
        }
        Shape::Dict(named) => {
            let key = named.iter().rev().filter(|(key, _)| !key.is_empty());
            // As Python writes it.
            let place = |key: &str| text.get(..at)?.rfind(&format!("'{key}'"));
            let (key, part) = key
                .filter(|(key, _)| place(key).is_some())
                .max_by_key(|(key, _)| place(key))?;
            let mut part = part.clone();
            part.about.insert(key.clone());
            part.join_inputs(made);
            let others = named.iter().filter(|(other, _)| other != key);
            let others = others.map(|(key, made)| {
                let mut made = made.clone();
                made.about.insert(key.clone());
                made
            });
            Some((part, others.collect(), false))
        }
        Shape::List(one) | Shape::Map(one) => {
            let mut one = (**one).clone();
            one.join_rows(made);
            let (made, others, _) = within(&one, text, at)?;
            Some((made, others, true))
        }
        // One of several numbers of a value that is not known.
        Shape::Unknown if numbers_of(text) > 1 => None,
        Shape::Series | Shape::Row | Shape::Frame(_) | Shape::Groups => None,
        _ => Some((made.clone(), Vec::new(), false)),
    }
}

/// How many words of a text have digits.
fn numbers_of(text: &str) -> usize {
    let words = text.split(|c: char| c.is_whitespace() || c == ',');
    words
        .filter(|word| word.contains(|c: char| c.is_ascii_digit()))
        .count()
}

/// The inside of the round bracket around a place.
fn bracket(text: &str, at: usize) -> Option<(usize, usize)> {
    let from = text.get(..at)?.rfind('(')? + 1;
    let to = text[at..].find(')').map_or(text.len(), |to| at + to);
    Some((from, to))
}

/// How many commas stand before a place, outside of brackets and quotes.
fn commas(text: &str, at: usize) -> usize {
    let (mut depth, mut quote, mut count) = (0_i32, None, 0);
    for (_, c) in text.char_indices().take_while(|(place, _)| *place < at) {
        match c {
            _ if quote == Some(c) => quote = None,
            _ if quote.is_some() => {}
            '\'' | '"' => quote = Some(c),
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            ',' if depth == 0 => count += 1,
            _ => {}
        }
    }
    count
}
