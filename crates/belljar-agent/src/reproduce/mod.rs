//! Reproduction: the code of a run is run again, and what comes of it is compared with the run.

mod replay;

use belljar_journal::RunId;
use belljar_protocol::{Outcome, Walls};
use belljar_sandbox::{Checkpoints, Engine, Network, SessionOptions};
use schemars::JsonSchema;
use serde::Serialize;

use crate::driver::{ArtifactFiles, RunError, RunsDirectory, read_events};
use crate::run::{Ending, Seen, line_with};
use crate::story::{Story, Told};
use replay::{Digest, Replay, Replayer, Shown, digest_of};

/// What came of running the code of a run again: twice, each time in a new session with the files
/// that the run started with. Calls of tools get the answers that they got in the run.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Reproduction {
    /// The values of the answer that an output shows.
    pub values: Vec<ReproducedValue>,
    /// The files that the run made.
    pub files: Vec<ReproducedFile>,
    /// The cells, and the calls of other tools.
    pub cells: Vec<ReproducedCell>,
}

/// A comparison with the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Both times the same as in the run.
    Identical,
    /// The same both times, and not as in the run: the environment or the code's surroundings differ.
    Changed,
    /// Not the same each time.
    NotDeterministic,
    /// It was not run again: it was stopped in the run, or is the result of a tool of the host.
    NotRun,
}

/// A value of the answer.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ReproducedValue {
    /// As it stands in the answer.
    pub value: String,
    /// The step that printed it.
    pub step: u32,
    /// The cell that printed it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cell: Option<u32>,
    /// The comparison.
    pub verdict: Verdict,
    /// The line of the run's output that has it.
    pub recorded: String,
    /// The line in its place, if it is another one now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub now: Option<String>,
}

/// A file that the run made.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ReproducedFile {
    /// Its path in the workspace.
    pub path: String,
    /// The comparison of its contents.
    pub verdict: Verdict,
}

/// A cell, or a call of another tool.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ReproducedCell {
    /// The step.
    pub step: u32,
    /// The number of the cell; none for another tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cell: Option<u32>,
    /// The comparison of all that it showed: text, images, exception.
    pub verdict: Verdict,
}

impl Reproduction {
    /// Whether all values and files are as in the run.
    pub fn is_identical(&self) -> bool {
        let values = self.values.iter().map(|value| value.verdict);
        let mut verdicts = values.chain(self.files.iter().map(|file| file.verdict));
        verdicts.all(|verdict| verdict == Verdict::Identical)
    }
}

/// A part of a run that was done again.
#[derive(Clone, Copy, Debug)]
pub struct Replayed<'a> {
    /// How many are done.
    pub done: usize,
    /// How many there are in both replays.
    pub all: usize,
    /// The outcome, if it is a cell that was run.
    pub outcome: Option<&'a Outcome>,
}

/// Runs the code of a run again, and compares. The run itself is left as it is.
pub async fn reproduce(
    runs: &RunsDirectory,
    id: &RunId,
    engine: &Engine,
    options: &SessionOptions,
    replayed: &mut (dyn FnMut(Replayed<'_>) + Send),
) -> Result<Reproduction, RunError> {
    let (events, _) = read_events(runs.journal(), id).await?;
    let blobs = runs.blobs(id);
    let story = Story::from_events(&events, &blobs).await?;
    let Some(start) = story.run.start() else {
        return Err(RunError::NoStep(0));
    };
    let reaches_out = options.network != Network::None || engine.walls() == Walls::None;
    if reaches_out && let Some(step) = asks(&story) {
        return Err(RunError::NeedsApproval { step });
    }
    let tools = start.granted.iter().map(|tool| tool.stub.clone());
    let again = Replayer {
        story: &story,
        start,
        blobs: &blobs,
        engine,
        options: SessionOptions {
            tools: tools.collect(),
            checkpoints: Checkpoints::Off,
            ..options.clone()
        },
    };
    let all = 2 * story.parts.len();
    let mut done = 0;
    let mut count = |outcome: Option<&Outcome>| {
        done += 1;
        replayed(Replayed { done, all, outcome });
    };
    let first = again.replay(&mut count).await?;
    let second = again.replay(&mut count).await?;
    let ending = story.run.ending();
    let values = ending.map(|ending| values(ending, &story, [&first, &second]));
    let files = match ending {
        Some(ending) => files(&runs.artifact_files(id), ending, [&first, &second]).await,
        None => Vec::new(),
    };
    Ok(Reproduction {
        values: values.unwrap_or_default(),
        files,
        cells: cells(&story, [&first, &second]),
    })
}

/// The first step with code or a command that a person had to approve: that was for one use.
fn asks(story: &Story) -> Option<u32> {
    let asks = |told: &Told| match told {
        Told::Cell { call, .. } | Told::Other { call, .. } => call.approved.is_some(),
        _ => false,
    };
    let part = story.parts.iter().find(|part| asks(&part.told));
    part.map(|part| part.step)
}

fn verdict<T: PartialEq>(recorded: &T, again: [Option<&T>; 2]) -> Verdict {
    match again {
        [Some(first), Some(second)] if first == recorded && second == recorded => {
            Verdict::Identical
        }
        [first, second] if first == second => Verdict::Changed,
        _ => Verdict::NotDeterministic,
    }
}

fn cells(story: &Story, again: [&Replay; 2]) -> Vec<ReproducedCell> {
    let mut cells = Vec::new();
    for (at, part) in story.parts.iter().enumerate() {
        let (cell, recorded) = match &part.told {
            Told::Thought(_) | Told::Anew => continue,
            Told::Cell { outcome, .. } => match outcome {
                Some(outcome) => (Some(outcome.cell), Some(Shown::of_outcome(outcome))),
                None => (None, None),
            },
            Told::Other { text, .. } => (None, Some(Shown::of_text(text))),
        };
        let again = again.map(|replay| replay.shown[at].as_ref());
        let verdict = match (&recorded, again) {
            (None, _) | (_, [None, None]) => Verdict::NotRun,
            (Some(recorded), again) => verdict(recorded, again),
        };
        cells.push(ReproducedCell {
            step: part.step,
            cell,
            verdict,
        });
    }
    cells
}

fn values(ending: &Ending, story: &Story, again: [&Replay; 2]) -> Vec<ReproducedValue> {
    let answer = ending.answer.as_deref().unwrap_or_default();
    let mut values = Vec::new();
    for found in &ending.evidence {
        let Some(Seen::Output {
            step, cell, line, ..
        }) = &found.seen
        else {
            continue;
        };
        let is_source = |told: &Told| match told {
            Told::Cell { outcome, .. } => outcome.as_ref().map(|outcome| outcome.cell) == *cell,
            Told::Other { text, .. } => cell.is_none() && text.contains(line.as_str()),
            _ => false,
        };
        let mut parts = story.parts.iter().enumerate();
        let source = parts.find(|(_, part)| part.step == *step && is_source(&part.told));
        let mut value = ReproducedValue {
            value: found.value.clone(),
            step: *step,
            cell: *cell,
            verdict: Verdict::NotRun,
            recorded: line.clone(),
            now: None,
        };
        if let Some((at, part)) = source
            && let [Some(first), Some(second)] = again.map(|replay| replay.shown[at].as_ref())
        {
            let (code, before) = match &part.told {
                Told::Cell { code, outcome, .. } => (
                    code.as_str(),
                    outcome
                        .as_ref()
                        .map(|outcome| Shown::of_outcome(outcome).text),
                ),
                Told::Other { text, .. } => ("", Some(text.clone())),
                _ => ("", None),
            };
            let place = before.and_then(|text| {
                let mut lines = text.lines();
                lines.position(|one| one.contains(line.as_str()))
            });
            let at_its_place = |shown: &Shown| {
                let line = shown.text.lines().nth(place?)?;
                Some(line.trim().to_owned())
            };
            let [first_line, second_line] = [first, second].map(at_its_place);
            let stands =
                |shown: &Shown| line_with(answer, &found.value, &shown.text, code).is_some();
            value.verdict = match (stands(first), stands(second)) {
                (true, true) => Verdict::Identical,
                (false, false) if first_line == second_line => Verdict::Changed,
                _ => Verdict::NotDeterministic,
            };
            if value.verdict != Verdict::Identical {
                value.now = first_line.filter(|now| now != line).or(second_line);
            }
        }
        values.push(value);
    }
    values
}

async fn files(
    kept_files: &ArtifactFiles,
    ending: &Ending,
    again: [&Replay; 2],
) -> Vec<ReproducedFile> {
    let mut compared = Vec::new();
    for artifact in &ending.artifacts {
        let kept = kept_files.open(ending, &artifact.path).await;
        let kept = kept.ok().and_then(|kept| digest_of(kept).ok());
        let again = again.map(|replay| replay.files.get(&artifact.path));
        let verdict = match kept {
            Some(kept) => verdict::<Digest>(&kept, again),
            // Deleted since by somebody.
            None => Verdict::NotRun,
        };
        compared.push(ReproducedFile {
            path: artifact.path.clone(),
            verdict,
        });
    }
    compared
}
