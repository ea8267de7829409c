//! The parts of Markdown that models use, as HTML. Links, images and HTML in it stay text: the page loads and runs
//! nothing.

use std::fmt::Write as _;

/// How text becomes HTML. It escapes.
type Words<'a> = &'a dyn Fn(&str) -> String;

/// Markdown as HTML.
pub(super) fn markdown(text: &str, words: Words<'_>) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let mut html = String::new();
    let mut paragraph: Vec<&str> = Vec::new();
    let mut at = 0;
    while let Some(line) = lines.get(at).copied() {
        at += 1;
        let rest = &lines[at..];
        let block = if let Some(fence) = fence(line) {
            let inside = rest
                .iter()
                .take_while(|line| !line.trim_start().starts_with(fence));
            let inside: Vec<&str> = inside.copied().collect();
            at += inside.len() + 1;
            format!("<pre>{}</pre>\n", escape(&inside.join("\n")))
        } else if let Some((level, text)) = heading(line) {
            format!("<h{level}>{}</h{level}>\n", inline(text, words))
        } else if is_rule(line) {
            "<hr>\n".to_owned()
        } else if line.contains('|') && rest.first().is_some_and(|line| is_table_rule(line)) {
            let rows = rest[1..].iter().take_while(|line| line.contains('|'));
            let rows: Vec<&str> = rows.copied().collect();
            at += 1 + rows.len();
            let rows: String = rows.iter().map(|line| row(line, "td", words)).collect();
            format!("<table>\n{}{rows}</table>\n", row(line, "th", words))
        } else if let Some((tag, first)) = item(line) {
            let more = rest.iter().map_while(|line| item(line));
            let more = more.take_while(|(other, _)| *other == tag);
            let mut items = vec![first];
            items.extend(more.map(|(_, item)| item));
            at += items.len() - 1;
            let mut list = format!("<{tag}>\n");
            for item in items {
                let _ = writeln!(list, "<li>{}</li>", inline(item, words));
            }
            format!("{list}</{tag}>\n")
        } else if let Some(quoted) = line.strip_prefix('>') {
            let quoted = inline(quoted.trim_start(), words);
            format!("<blockquote>{quoted}</blockquote>\n")
        } else if line.trim().is_empty() {
            String::new()
        } else {
            paragraph.push(line);
            continue;
        };
        close(&mut html, &mut paragraph, words);
        html.push_str(&block);
    }
    close(&mut html, &mut paragraph, words);
    html
}

fn close(html: &mut String, paragraph: &mut Vec<&str>, words: Words<'_>) {
    if !paragraph.is_empty() {
        let lines: Vec<String> = paragraph.iter().map(|line| inline(line, words)).collect();
        let _ = writeln!(html, "<p>{}</p>", lines.join("<br>\n"));
        paragraph.clear();
    }
}

/// What begins a block of code, and ends it.
fn fence(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let mark = line
        .chars()
        .next()
        .filter(|mark| matches!(mark, '`' | '~'))?;
    let length = line.len() - line.trim_start_matches(mark).len();
    (length >= 3).then(|| &line[..length])
}

/// The level and text of a heading. Those of the page are above it.
fn heading(line: &str) -> Option<(usize, &str)> {
    let text = line.trim_start_matches('#');
    let level = line.len() - text.len();
    let is_heading = (1..=6).contains(&level) && text.starts_with(' ');
    is_heading.then(|| {
        (
            (level + 2).min(6),
            text.trim().trim_end_matches('#').trim_end(),
        )
    })
}

fn is_rule(line: &str) -> bool {
    let marks: String = line.split_whitespace().collect();
    marks.len() >= 3
        && ["-", "*", "_"]
            .iter()
            .any(|mark| marks.replace(mark, "").is_empty())
}

fn is_table_rule(line: &str) -> bool {
    line.contains('-')
        && line.contains('|')
        && line.chars().all(|c| matches!(c, '-' | '|' | ':' | ' '))
}

fn row(line: &str, tag: &str, words: Words<'_>) -> String {
    let line = line.trim();
    let line = line.strip_prefix('|').unwrap_or(line);
    let line = line.strip_suffix('|').unwrap_or(line);
    let mut row = String::from("<tr>");
    for cell in line.split('|') {
        let _ = write!(row, "<{tag}>{}</{tag}>", inline(cell.trim(), words));
    }
    row + "</tr>\n"
}

/// The list that an item belongs to, and its text.
fn item(line: &str) -> Option<(&'static str, &str)> {
    let line = line.trim_start();
    for mark in ["- ", "* ", "+ "] {
        if let Some(text) = line.strip_prefix(mark) {
            return Some(("ul", text.trim()));
        }
    }
    let text = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let digits = line.len() - text.len();
    let text = text.strip_prefix(['.', ')'])?.strip_prefix(' ')?;
    (1..=4).contains(&digits).then(|| ("ol", text.trim()))
}

/// A line with code, and strong and emphasized words.
fn inline(text: &str, words: Words<'_>) -> String {
    let (mut html, mut plain, mut at) = (String::new(), 0, 0);
    while let Some(next) = text[at..].chars().next() {
        let Some((tag, inside, length)) = span(text, at) else {
            at += next.len_utf8();
            continue;
        };
        html.push_str(&words(&text[plain..at]));
        at += length;
        plain = at;
        let inside = match tag {
            "code" => words(inside),
            _ => inline(inside, words),
        };
        let _ = write!(html, "<{tag}>{inside}</{tag}>");
    }
    html + &words(&text[plain..])
}

/// What begins here: its tag, its text, and its length with its marks.
fn span(text: &str, at: usize) -> Option<(&'static str, &str, usize)> {
    let (before, rest) = text.split_at(at);
    for (mark, tag) in [
        ("`", "code"),
        ("**", "strong"),
        ("__", "strong"),
        ("*", "em"),
    ] {
        let Some(from) = rest.strip_prefix(mark) else {
            continue;
        };
        let Some(end) = from.find(mark).filter(|end| *end > 0) else {
            continue;
        };
        let (inside, after) = (&from[..end], &from[end + mark.len()..]);
        let joins =
            |character: Option<char>| character.is_some_and(|c| c.is_alphanumeric() || c == '*');
        // A star within a product or a name emphasizes nothing.
        let is_none = tag == "em"
            && (joins(before.chars().last())
                || joins(after.chars().next())
                || inside.starts_with(' '));
        if !is_none {
            return Some((tag, inside, end + 2 * mark.len()));
        }
    }
    None
}

/// Text that is nothing else, also within quotes.
pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn html(text: &str) -> String {
        markdown(text, &escape)
    }

    #[test]
    fn what_models_write_is_drawn() {
        assert_eq!(
            html("a **b** `c*d*` *e*"),
            "<p>a <strong>b</strong> <code>c*d*</code> <em>e</em></p>\n"
        );
        assert_eq!(html("1\n2"), "<p>1<br>\n2</p>\n");
        assert_eq!(
            html("## A\n- b\n- c\n\n1. d"),
            "<h4>A</h4>\n<ul>\n<li>b</li>\n<li>c</li>\n</ul>\n<ol>\n<li>d</li>\n</ol>\n"
        );
        assert_eq!(
            html("```python\n**x** < 1\n```\nend"),
            "<pre>**x** &lt; 1</pre>\n<p>end</p>\n"
        );
        assert_eq!(html("```\nopen"), "<pre>open</pre>\n");
        assert_eq!(
            html("|a|b|\n|-|-|\n|1|2|"),
            "<table>\n<tr><th>a</th><th>b</th></tr>\n<tr><td>1</td><td>2</td></tr>\n</table>\n"
        );
        assert_eq!(html("> q\n---"), "<blockquote>q</blockquote>\n<hr>\n");
    }

    #[test]
    fn nothing_else_is() {
        assert_eq!(html("2 * 3 * 4, a*b*c"), "<p>2 * 3 * 4, a*b*c</p>\n");
        assert_eq!(
            html("<img src=x onerror=y> [a](javascript:b) ![c](http://d)"),
            "<p>&lt;img src=x onerror=y&gt; [a](javascript:b) ![c](http://d)</p>\n"
        );
        assert_eq!(
            html("**<b>** `\"<i>`"),
            "<p><strong>&lt;b&gt;</strong> <code>&quot;&lt;i&gt;</code></p>\n"
        );
        assert_eq!(html("* * *"), "<hr>\n");
        assert_eq!(html(""), "");
    }
}
