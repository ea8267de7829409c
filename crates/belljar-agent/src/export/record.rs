//! What a reader needs to check a run: what it was made with, from what, and who approved it.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::{Duration, UNIX_EPOCH};

use belljar_journal::{Journal, RunId, Timestamp};
use belljar_protocol::Outcome;
use belljar_protocol::texts::RunTexts;

use super::markdown::escape;
use crate::driver::RunError;
use crate::run::{Approval, Decision, RunEvent};
use crate::story::{Story, Told};

/// When the first and the last of so many events of a run happened.
pub(super) async fn times(
    journal: &Journal,
    id: &RunId,
    events: usize,
) -> Result<Vec<String>, RunError> {
    let last = u64::try_from(events.saturating_sub(1)).unwrap_or(u64::MAX);
    let mut times = Vec::new();
    for after in [0, last] {
        let page = journal.read(id, after, 1).await?;
        times.extend(page.first().map(|entry| date(entry.at)));
    }
    Ok(times)
}

fn date(at: Timestamp) -> String {
    let micros = u64::try_from(at.0).unwrap_or_default();
    httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_micros(micros))
}

/// A table of it. Rows that have nothing to say are left out.
pub(super) fn record(
    body: &mut String,
    id: &RunId,
    times: &[String],
    story: &Story,
    events: &[RunEvent],
) {
    let run = &story.run;
    let texts = &run.language().texts().run;
    let spent = run.spent();
    let mut used = texts.totals(spent.steps, spent.tokens());
    if spent.money > 0.0 {
        used += &texts.cost(spent.money);
    }
    let start = run.start();
    let files = start.map_or(&[][..], |start| &start.files).iter();
    let made = run.ending().map_or(&[][..], |ending| &ending.artifacts);
    let rows: [(&str, Vec<String>); 10] = [
        (texts.record_run, vec![id.to_string()]),
        (texts.record_times, vec![times.join(" – ")]),
        (
            texts.record_model,
            start.iter().map(|start| start.model.clone()).collect(),
        ),
        (
            texts.record_use,
            vec![used.trim_start_matches(" · ").to_owned()],
        ),
        (
            texts.record_isolation,
            of_outcomes(story, |outcome| vec![outcome.walls.as_str().to_owned()]),
        ),
        (
            texts.record_versions,
            start
                .iter()
                .map(|start| start.versions.join(", "))
                .collect(),
        ),
        (
            texts.record_installed,
            of_outcomes(story, |outcome| outcome.installed.clone()),
        ),
        (
            texts.record_files,
            files
                .map(|file| {
                    format!(
                        "{}, {} B, SHA-256 {}",
                        file.name, file.bytes, file.contents.hash
                    )
                })
                .collect(),
        ),
        (
            texts.record_made,
            made.iter()
                .map(|file| format!("{}, {} B", file.path, file.size))
                .collect(),
        ),
        (texts.record_approvals, approvals(events, texts)),
    ];
    let _ = writeln!(body, "<h2>{}</h2>\n<table>", escape(texts.heading_record));
    for (name, lines) in rows {
        let lines = lines.iter().filter(|line| !line.is_empty());
        let lines: Vec<String> = lines.map(|line| escape(line)).collect();
        if !lines.is_empty() {
            let (name, lines) = (escape(name), lines.join("<br>"));
            let _ = writeln!(body, "<tr><th>{name}</th><td>{lines}</td></tr>");
        }
    }
    body.push_str("</table>\n");
}

/// What the outcomes of its cells say, each thing once.
fn of_outcomes(story: &Story, what: fn(&Outcome) -> Vec<String>) -> Vec<String> {
    let outcomes = story.parts.iter().filter_map(|part| match &part.told {
        Told::Cell { outcome, .. } => outcome.as_deref(),
        _ => None,
    });
    let told: BTreeSet<String> = outcomes.flat_map(what).collect();
    told.into_iter().collect()
}

/// What a person was asked, and what they decided. The hash is that of what they saw.
fn approvals(events: &[RunEvent], texts: &RunTexts) -> Vec<String> {
    let mut lines: Vec<(&Approval, String)> = Vec::new();
    for event in events {
        match event {
            RunEvent::ApprovalAsked(asked) => {
                lines.push((asked, texts.decision_open.to_owned()));
            }
            RunEvent::ApprovalDecided {
                approval, decision, ..
            } => {
                let mut asked = lines.iter_mut().rev();
                if let Some((_, decided)) = asked.find(|(asked, _)| asked.id == *approval) {
                    *decided = words(decision, texts);
                }
            }
            _ => {}
        }
    }
    let line = |(asked, decided): &(&Approval, String)| {
        let what = asked.shown.tool.as_deref().unwrap_or("python");
        format!("{}: {what}: {decided} (SHA-256 {})", asked.id, asked.hash)
    };
    lines.iter().map(line).collect()
}

fn words(decision: &Decision, texts: &RunTexts) -> String {
    match decision {
        Decision::Accept { rest_of_run: false } => texts.decision_accepted.into(),
        Decision::Accept { rest_of_run: true } => texts.decision_accepted_rest.into(),
        Decision::Edit { .. } => texts.decision_edited.into(),
        Decision::Feedback { text } => texts.decision_feedback(text),
        Decision::Reject => texts.decision_rejected.into(),
    }
}
