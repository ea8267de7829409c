//! The run as a page to read.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use belljar_journal::RunId;
use belljar_protocol::{Display, Language, MIME_TYPES, MimeType, MimeView};

use super::ReportKey;
use super::markdown::{escape, markdown};
use super::record::{record, times};
use crate::driver::{RunError, RunsDirectory};
use crate::run::{Evidence, RunEvent, Seen};
use crate::story::{Story, Told, asked};

const STYLE: &str = "body{font:16px/1.5 sans-serif;max-width:50em;margin:2em auto;padding:0 1em}h1{white-space:pre-wrap}\
    pre{background:#f4f4f4;padding:.5em;white-space:pre-wrap}img{max-width:100%}table{border-collapse:collapse}\
    td,th{padding:.2em .8em;border:1px solid #ccc;text-align:left}blockquote{margin-left:0;padding-left:1em;\
    border-left:3px solid #ccc}.unseen{border-bottom:2px dotted #8f5a0f}.printed{text-decoration-style:dashed}";

/// The run as a page to read: one file, without scripts, signed at its end.
pub async fn page(
    runs: &RunsDirectory,
    id: &RunId,
    events: &[RunEvent],
    key: &ReportKey,
) -> Result<String, RunError> {
    let times = times(runs.journal(), id, events.len()).await?;
    let story = Story::from_events(events, &runs.blobs(id)).await?;
    let mut page = String::new();
    let body = &mut page;
    block(body, "h1", story.task());
    for (file, _) in &story.files {
        block(body, "p", &format!("{} ({} bytes)", file.name, file.bytes));
    }
    let mut step = 0;
    for part in &story.parts {
        if part.step != step {
            step = part.step;
            let _ = writeln!(body, "<h2 id=\"step-{step}\">Step {step}</h2>");
        }
        match &part.told {
            Told::Thought(thought) => body.push_str(&markdown(thought, &escape)),
            Told::Anew => block(body, "p", "The session was lost; another one began."),
            Told::Cell {
                code,
                result,
                outcome,
                ..
            } => {
                block(body, "pre", code);
                let output = result.cell.as_ref().filter(|_| !result.failed);
                let output = output.map_or(&result.text, |cell| &cell.output);
                if !output.is_empty() {
                    block(body, "pre", output);
                }
                for display in outcome.iter().flat_map(|outcome| &outcome.displays) {
                    body.push_str(&image(display));
                }
            }
            Told::Other { call, text } => {
                block(body, "pre", &asked(call));
                block(body, "pre", text);
            }
        }
    }
    end(body, &story);
    record(body, id, &times, &story, events);
    let texts = &story.run.language().texts().run;
    block(body, "p", &texts.signed_page(&key.public()));
    Ok(key.sign(format!(
        "<!doctype html>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; style-src 'unsafe-inline'\">\n\
         <title>{}</title>\n<style>{STYLE}</style>\n{page}",
        escape(story.task())
    )))
}

/// How it ended: the answer, whose values lead to the steps that printed them, and where each of them was seen.
fn end(body: &mut String, story: &Story) {
    let Some((heading, text, lines)) = story.end() else {
        return;
    };
    let ending = story.run.ending();
    block(body, "h2", &heading);
    let Some(ending) = ending.filter(|ending| ending.answer.is_some()) else {
        for line in &lines {
            block(body, "p", line);
        }
        block(body, "pre", text);
        return;
    };
    let language = story.run.language();
    let evidence = &ending.evidence;
    body.push_str(&markdown(text, &|words| linked(words, evidence, language)));
    body.push_str("<ul>\n");
    // The doubts come first.
    let doubts = lines.len().saturating_sub(evidence.len());
    for line in &lines[..doubts] {
        block(body, "li", line);
    }
    for one in evidence {
        let words = escape(&one.text(language));
        let _ = match &one.seen {
            Some(Seen::Output { step, line, .. }) => writeln!(
                body,
                "<li>{words}, <a href=\"#step-{step}\">step {step}</a>: <code>{}</code></li>",
                escape(line)
            ),
            Some(Seen::Code { step, .. }) => writeln!(
                body,
                "<li>{words}, <a href=\"#step-{step}\">step {step}</a></li>"
            ),
            _ => writeln!(body, "<li>{words}</li>"),
        };
    }
    body.push_str("</ul>\n");
}

/// Text of an answer with links to what its values rest on.
fn linked(text: &str, evidence: &[Evidence], language: Language) -> String {
    let mut values: Vec<&Evidence> = evidence.iter().collect();
    values.retain(|one| !one.value.is_empty());
    values.sort_by_key(|one| std::cmp::Reverse(one.value.len()));
    let (mut html, mut plain, mut at) = (String::new(), 0, 0);
    while let Some(next) = text[at..].chars().next() {
        let (before, rest) = text.split_at(at);
        let found = values.iter().find(|one| {
            let after = rest.strip_prefix(one.value.as_str());
            after.is_some_and(|after| stands_alone(before, &one.value, after))
        });
        let Some(one) = found else {
            at += next.len_utf8();
            continue;
        };
        html.push_str(&escape(&text[plain..at]));
        at += one.value.len();
        plain = at;
        let (value, why) = (escape(&one.value), escape(&one.text(language)));
        let _ = match &one.seen {
            Some(Seen::Output { step, .. }) if one.is_derived() => {
                write!(html, "<a href=\"#step-{step}\" title=\"{why}\">{value}</a>")
            }
            Some(Seen::Output { step, .. }) => {
                write!(
                    html,
                    "<a href=\"#step-{step}\" class=\"printed\" title=\"{why}\">{value}</a>"
                )
            }
            Some(Seen::Task | Seen::File) => {
                write!(html, "<span title=\"{why}\">{value}</span>")
            }
            Some(Seen::Code { .. }) | None => {
                write!(
                    html,
                    "<span class=\"unseen\" title=\"{why}\">{value}</span>"
                )
            }
        };
    }
    html.push_str(&escape(&text[plain..]));
    html
}

/// Whether a value is not a part of a longer number.
fn stands_alone(before: &str, value: &str, after: &str) -> bool {
    let digit = |character: Option<char>| character.is_some_and(|one| one.is_ascii_digit());
    let begins =
        digit(value.chars().next()) && before.ends_with(|c: char| c.is_ascii_digit() || c == '.');
    let goes_on = digit(value.chars().last()) && digit(after.chars().next());
    !begins && !goes_on
}

fn block(page: &mut String, tag: &str, text: &str) {
    let _ = writeln!(page, "<{tag}>{}</{tag}>", escape(text));
}

/// The image of a display, within the page. A browser runs no script of an image.
fn image(display: &Display) -> String {
    let is_drawn = |mime: &&MimeType| mime.is_image() || mime.view == Some(MimeView::Svg);
    let mut types = MIME_TYPES.iter().filter(is_drawn);
    let part = types.find_map(|mime| display.get(mime.name));
    part.map_or_else(String::new, |part| {
        format!(
            "<img alt=\"\" src=\"data:{};base64,{}\">\n",
            part.mime,
            BASE64.encode(&part.data)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Derivation;

    #[test]
    fn values_lead_to_what_they_rest_on() {
        let seen = |value: &str, seen: Option<Seen>| Evidence {
            value: value.into(),
            seen,
        };
        let output = |derived| Seen::Output {
            step: 2,
            cell: Some(1),
            line: "12 <b>".into(),
            rounded: false,
            weak: None,
            derived,
        };
        let evidence = [
            seen("12", Some(output(Some(Derivation::default())))),
            seen("99", Some(output(None))),
            seen("7", None),
            seen("\"<i>", None),
        ];
        let linked = |text: &str| linked(text, &evidence, Language::English);
        let html = linked("12 of 3.12 and 125, 7 & \"<i>");
        assert_eq!(html.matches("<a href=\"#step-2\"").count(), 1, "{html}");
        assert!(
            html.contains("</a> of 3.12 and 125, <span class=\"unseen\""),
            "{html}"
        );
        assert!(html.contains(" &amp; <span"), "{html}");
        assert!(html.ends_with(">&quot;&lt;i&gt;</span>"), "{html}");
        assert_eq!(linked("12").matches("12").count(), 2);
        assert!(linked("99").contains("#step-2\" class=\"printed\" "));
    }
}
