//! What is left of a run when `belljar` dies in the middle of it, and how `belljar runs resume` goes on.
//!
//! The task is to write some words into a file, each in a cell of its own. The model answers by the
//! last message alone: whoever asks again gets the same reply, and after a restart it looks at the
//! file before it goes on. With `--walls=none` the file is outside of the session, so that what was
//! done twice is seen.

use std::collections::BTreeSet;
use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use belljar_agent::{FILE_BYTES, Run, RunEvent, read_events};
use belljar_journal::{BlobRef, Blobs, Journal, RunId};
use belljar_test_model::{Recorded, Scripted, ScriptedModel};

use crate::run::code;
use crate::support::{BELLJAR, Ended, Scratch, bare};

const WORDS: [&str; 2] = ["one", "two"];
const ANSWER: &str = "The file has the 2 lines `one two`.\n";

/// How a process is to die: at a failpoint of the journal, or by a kill after some time.
#[derive(Clone, Copy, Debug)]
enum Death {
    At(&'static str, usize),
    After(Duration),
    None,
}

/// A run that may be started and resumed again and again.
struct Desk {
    scratch: Scratch,
    model: ScriptedModel,
    walls: &'static str,
    /// What the journal said after the last death.
    before: Vec<String>,
}

impl Desk {
    fn new(walls: &'static str) -> Self {
        let scratch = Scratch::new();
        let file = match walls {
            "none" => scratch.path("words").to_str().unwrap().to_owned(),
            _ => "words".to_owned(),
        };
        Self {
            model: ScriptedModel::react(move |request| reply(request, &file)).unwrap(),
            scratch,
            walls,
            before: Vec::new(),
        }
    }

    fn runs(&self) -> PathBuf {
        self.scratch.path("runs")
    }

    fn spawn(&self, death: Death) -> Child {
        let url = self.model.base_url();
        let mut command = self.scratch.prepare(BELLJAR);
        match self.id() {
            None => command.args(["run", "Write the words.", "--steps", "100"]),
            Some(id) => command.args(["runs", "resume", id.as_str()]),
        };
        if self.id().is_none() {
            command.args(["--model", "llamacpp/scripted"]);
        }
        if let Death::At(name, count) = death {
            command.env("BELLJAR_JOURNAL_FAILPOINT", format!("{name}:{count}"));
        }
        command
            .args(["--base-url", &url, "--env", bare(), "--walls", self.walls])
            .env("BELLJAR_RUNS_DIR", self.runs())
            .env("NO_COLOR", "1")
            .stdin(Stdio::null())
            .spawn()
            .unwrap()
    }

    /// Begins the run, or goes on with it. Whether it came to its end, and did not die.
    fn go_on(&mut self, death: Death) -> bool {
        let mut child = self.spawn(death);
        if let Death::After(time) = death {
            std::thread::sleep(time);
            child.kill().unwrap();
        }
        let ended = self.scratch.finish(child);
        self.look(&ended);
        match ended.status.signal() {
            None => {
                ended.exits_with(0).prints(ANSWER);
                true
            }
            Some(signal) => {
                assert!(
                    matches!((death, signal), (Death::At(..), 6) | (Death::After(_), 9)),
                    "{death:?}: {ended:#?}"
                );
                false
            }
        }
    }

    fn id(&self) -> Option<RunId> {
        block_on(async {
            let journal = Journal::open(&self.runs()).await.unwrap();
            let mut runs = journal.runs(None, 2).await.unwrap();
            assert!(runs.len() < 2, "there is one run: {runs:?}");
            Some(runs.pop()?.first.run)
        })
    }

    /// Compares the journal with what it was: it has only grown.
    fn look(&mut self, ended: &Ended) {
        let Some(id) = self.id() else {
            assert_eq!(
                self.model.requests().len(),
                0,
                "asked before it was journaled"
            );
            return;
        };
        let now = block_on(async {
            let journal = Journal::open(&self.runs()).await.unwrap();
            let entries = journal.read(&id, 0, 10_000).await.unwrap();
            for (entry, seq) in entries.iter().zip(1..) {
                assert_eq!(entry.seq, seq);
            }
            let texts = entries.iter().map(|entry| entry.body.get().to_owned());
            texts.collect::<Vec<_>>()
        });
        assert_eq!(now[..self.before.len()], self.before[..], "{ended:#?}");
        // Whoever was told the answer can rely on it.
        assert!(
            ended.stdout.is_empty() || ends(now.last().unwrap()),
            "{ended:#?}"
        );
        self.before = now;
    }

    /// What must hold once the run has ended.
    fn check(&self, what: &str) {
        let id = self.id().unwrap();
        let (events, asked) = block_on(async {
            let journal = Journal::open(&self.runs()).await.unwrap();
            let blobs = Blobs::open(&self.runs(), FILE_BYTES).await.unwrap();
            let events = read_events(&journal, &id).await.unwrap().0;
            let mut asked = Vec::new();
            for body in events.iter().filter_map(body) {
                asked.push(blobs.get(body).await.unwrap());
            }
            (events, asked)
        });
        let run = Run::fold(&events).unwrap();
        assert!(run.ending().is_some(), "{what}");
        none_twice(&events);
        // All that a model was ever asked was journaled before, in this order.
        let mut asked = asked.iter();
        for request in self.model.requests() {
            assert!(
                asked.any(|body| *body == request.body),
                "{what}: {request:?}"
            );
        }
        if self.walls == "none" {
            let lost = events
                .iter()
                .filter(|event| matches!(event, RunEvent::CallLost { .. }));
            let written = self.scratch.read("words");
            let mut words: Vec<&str> = written.lines().collect();
            words.sort_unstable();
            assert_eq!(words, WORDS, "{what}, {} calls lost", lost.count());
        }
        let kept = fs::read_dir(self.runs().join("runs").join(id.as_str()));
        for file in kept.into_iter().flatten() {
            let name = file.unwrap().file_name();
            assert_eq!(name, "artifacts", "{what}");
        }
        if self.walls == "full" {
            // No file of the session was lost with it.
            let words = self
                .runs()
                .join("runs")
                .join(id.as_str())
                .join("artifacts/words");
            assert_eq!(fs::read_to_string(words).unwrap(), "one\ntwo\n", "{what}");
            let gone = |event: &&RunEvent| {
                matches!(
                    event,
                    RunEvent::SessionStarted {
                        note: Some(_),
                        cells: 0,
                        ..
                    }
                )
            };
            assert_eq!(events.iter().find(gone), None, "{what}");
        }
        let mut replay = self.scratch.prepare(BELLJAR);
        replay
            .args(["runs", "replay", id.as_str()])
            .env("BELLJAR_RUNS_DIR", self.runs());
        self.scratch
            .finish(replay.spawn().unwrap())
            .exits_with(0)
            .says_nothing();
    }
}

fn ends(event: &str) -> bool {
    event.starts_with("{\"kind\":\"ended\"")
}

fn body(event: &RunEvent) -> Option<&BlobRef> {
    match event {
        RunEvent::Asked { body, .. } => Some(body),
        _ => None,
    }
}

/// No step is replied to twice, and each call is begun once and has one end or the mark that it was
/// lost.
#[track_caller]
fn none_twice(events: &[RunEvent]) {
    let (mut replied, mut begun, mut ended) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for event in events {
        let new = match event {
            RunEvent::Asked { step, .. } => !replied.contains(step),
            RunEvent::Replied { step, .. } => replied.insert(*step),
            RunEvent::CallStarted { step, call } => begun.insert((*step, *call)),
            RunEvent::CallEnded { step, call, .. } | RunEvent::CallLost { step, call, .. } => {
                begun.contains(&(*step, *call)) && ended.insert((*step, *call))
            }
            _ => true,
        };
        assert!(new, "{event:?} in {events:#?}");
    }
    assert_eq!(begun, ended, "{events:#?}");
}

/// What the model says to the last message.
fn reply(request: &Recorded, file: &str) -> Scripted {
    let request = request.json();
    let messages = request["messages"].as_array().unwrap();
    let last = messages.last().unwrap()["content"].as_str().unwrap();
    let look = format!(
        "import os\nwords = open({file:?}).read().split() if os.path.exists({file:?}) else []\n\
         print(len(words), 'lines:', *words, 'seen at {}')",
        messages.len()
    );
    let write = |word: &str| {
        code(&format!(
            "with open({file:?}, 'a') as file:\n    _ = file.write('{word}\\n')\n{look}"
        ))
    };
    match last.split_once(" lines:") {
        Some((_, seen)) => {
            let seen = seen.split_once("seen at").unwrap().0;
            match WORDS.iter().find(|word| !seen.contains(*word)) {
                Some(word) => write(word),
                None => Scripted::text(format!("FINAL: {}", ANSWER.trim_end())),
            }
        }
        None if last.contains("Whether it took effect is not known") => code(&look),
        None => write(WORDS[0]),
    }
}

fn block_on<T>(task: impl Future<Output = T>) -> T {
    tokio::runtime::Runtime::new().unwrap().block_on(task)
}

/// Some at a time: most of what they do is waiting.
fn side_by_side<T: Send>(cases: impl Iterator<Item = T> + Send, work: impl Fn(T) + Sync) {
    let cases = std::sync::Mutex::new(cases);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                loop {
                    let case = cases.lock().unwrap().next();
                    let Some(case) = case else { break };
                    work(case);
                }
            });
        }
    });
}

const FAILPOINTS: [&str; 3] = ["before-append", "before-commit", "before-acknowledge"];

/// At every write of a run, before, within and after it: the run goes on, and no word is written
/// twice. With and without walls in turns; `BELLJAR_LONG` tries each write with both.
#[test]
fn a_run_survives_a_death_at_every_write() {
    let mut whole = Desk::new("none");
    assert!(whole.go_on(Death::None));
    whole.check("without a death");
    // One write for each event: of the calls of a step none are begun together here.
    let writes = whole.before.len();
    assert_eq!(writes, 13, "{:#?}", whole.before);
    let cases = FAILPOINTS
        .into_iter()
        .flat_map(|failpoint| (1..=writes).map(move |write| Death::At(failpoint, write)))
        .flat_map(|death| [(death, "none"), (death, "full")])
        .enumerate()
        // Two cases each: of the first write the first, of the second the second.
        .filter(|(case, _)| {
            std::env::var_os("BELLJAR_LONG").is_some() || (case / 2 + case) % 2 == 0
        })
        .map(|(_, case)| case);
    side_by_side(cases, |(death, walls)| {
        // Behind walls the file dies with the session, so it must be brought back.
        let mut desk = Desk::new(walls);
        assert!(!desk.go_on(death), "{death:?} was not reached");
        let Death::At(name, write) = death else {
            unreachable!()
        };
        let written = if name == "before-acknowledge" {
            write
        } else {
            write - 1
        };
        assert_eq!(desk.before.len(), written, "{death:?}");
        assert!(desk.go_on(Death::None));
        desk.check(&format!("{death:?}"));
    });
}

/// The first host dies at its first write, the second at its second, and so on: also those that
/// go on after a death may die.
#[test]
fn a_run_survives_a_death_of_every_host() {
    side_by_side(FAILPOINTS.into_iter(), |failpoint| {
        let mut desk = Desk::new("full");
        let mut hosts = 1;
        while !desk.go_on(Death::At(failpoint, hosts)) {
            hosts += 1;
        }
        assert!(hosts > 4, "{hosts} hosts");
        desk.check(failpoint);
    });
}

/// `BELLJAR_KILLS` sets how often (12).
#[test]
fn heavy_a_run_survives_kills_at_random_moments() {
    let kills = std::env::var("BELLJAR_KILLS").map_or(12, |kills| kills.parse().unwrap());
    let mut whole = Desk::new("full");
    let started = Instant::now();
    assert!(whole.go_on(Death::None));
    let whole = started.elapsed();
    let killed = AtomicUsize::new(0);
    let next = || killed.fetch_add(1, Ordering::Relaxed);
    // Each worker has runs of its own, until all kills are done.
    side_by_side([0_usize; 2].into_iter(), |_| {
        let mut kill = next();
        while kill < kills {
            let walls = if kill % 2 == 0 { "full" } else { "none" };
            let mut desk = Desk::new(walls);
            let mut moments = Vec::new();
            loop {
                let chance = RandomState::new().hash_one(kill) % 1000;
                // Two at a time take longer than one alone.
                let moment = whole * u32::try_from(chance).unwrap() / 500;
                moments.push(moment);
                let death = if kill < kills {
                    Death::After(moment)
                } else {
                    Death::None
                };
                if desk.go_on(death) {
                    break;
                }
                // One before it had begun or after its end does not count.
                if desk.before.last().is_some_and(|last| !ends(last)) {
                    kill = next();
                }
            }
            desk.check(&format!("killed after {moments:?}"));
        }
    });
}
