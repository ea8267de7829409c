//! What is left when the process dies: a child appends and says what was acknowledged, is killed,
//! and the journal is looked at again.
//!
//! `BELLJAR_JOURNAL_KILLS` sets how often (50). A death of the process says nothing of a death of
//! the machine: that the file system is asked for durability is tested beside the store.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "in a test a panic with the place is the best report, and a child reports by its output"
)]

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

use belljar_journal::{AppendError, BlobRef, Blobs, Entry, Journal, NewEvent, RunId, Timestamp};
use futures_util::StreamExt;
use serde::{Deserialize, Serialize};

const BLOB_LIMIT: u64 = 1 << 20;

/// An event says which batch it belongs to, so that half a batch is noticed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Body {
    writer: u32,
    /// The sequence number before the batch.
    after: u64,
    index: u64,
    size: u64,
    blob: Option<BlobRef>,
}

/// A line of the child, for an append that has returned as durable.
#[derive(Debug, Serialize, Deserialize)]
struct Acknowledged {
    run: RunId,
    seq: u64,
    body: Body,
}

/// This test again, as a process of its own that only runs `writer`.
fn child(directory: &Path, runs: &str, failpoint: Option<&str>) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "writer", "--ignored", "--nocapture"])
        .env("JOURNAL_DIRECTORY", directory)
        .env("JOURNAL_RUNS", runs)
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    if let Some(failpoint) = failpoint {
        command.env("BELLJAR_JOURNAL_FAILPOINT", failpoint);
    }
    command.spawn().unwrap()
}

/// Appends until it is killed, to all runs at once.
#[test]
#[ignore = "it is the child of the other tests, and never ends by itself"]
fn writer() {
    let directory = std::env::var("JOURNAL_DIRECTORY").unwrap();
    let runs = std::env::var("JOURNAL_RUNS").unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let journal = Journal::open(directory.as_ref()).await.unwrap();
        let blobs = Blobs::open(directory.as_ref(), BLOB_LIMIT).await.unwrap();
        let writers = runs.split(',').map(|run| {
            let run = run.parse().unwrap();
            tokio::spawn(write(journal.clone(), blobs.clone(), run))
        });
        futures_util::future::join_all(writers).await;
    });
}

async fn write(journal: Journal, blobs: Blobs, run: RunId) {
    let writer = std::process::id();
    let mut last = journal.last_seq(&run).await.unwrap();
    loop {
        let size = last % 4 + 1;
        let blob = if last % 5 == 0 {
            let contents = format!("{run} {last} ").repeat(500).into_bytes();
            Some(blobs.put(contents, "text/plain").await.unwrap())
        } else {
            None
        };
        let bodies = (0..size).map(|index| Body {
            writer,
            after: last,
            index,
            size,
            blob: blob.clone(),
        });
        let bodies: Vec<_> = bodies.collect();
        let events: Vec<_> = bodies
            .iter()
            .map(|body| NewEvent::new("test", 1, Timestamp(0), body).unwrap())
            .collect();
        match journal.append(&run, last, &events).await {
            Ok(seq) => {
                for (seq, body) in (last + 1..).zip(bodies) {
                    let run = run.clone();
                    let line = Acknowledged { run, seq, body };
                    println!("{}", serde_json::to_string(&line).unwrap());
                }
                last = seq;
            }
            Err(AppendError::Conflict { actual, .. }) => last = actual,
            Err(error) => panic!("{error}"),
        }
    }
}

/// Whole lines only: the last one may have been cut by the kill.
fn acknowledged(child: &mut Child) -> JoinHandle<Vec<Acknowledged>> {
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    std::thread::spawn(|| {
        lines
            .filter_map(|line| serde_json::from_str(&line.unwrap()).ok())
            .collect()
    })
}

/// All events of a run, after checking that it has no gap and no half of a batch.
async fn whole(journal: &Journal, run: &RunId) -> Vec<Entry> {
    let last = journal.last_seq(run).await.unwrap();
    let mut entries: Vec<Entry> = Vec::new();
    while (entries.len() as u64) < last {
        let page = journal.read(run, entries.len() as u64, 1000).await.unwrap();
        entries.extend(page);
    }
    let (mut after, mut batch) = (0, Vec::new());
    for (seq, entry) in (1..).zip(&entries) {
        assert_eq!(entry.seq, seq);
        let body: Body = entry.decode().unwrap();
        assert_eq!((body.after, body.index), (after, batch.len() as u64));
        let size = body.size;
        batch.push(body);
        if batch.len() as u64 == size {
            assert!(batch.iter().all(|body| body.writer == batch[0].writer));
            batch.clear();
            after = seq;
        }
    }
    assert_eq!(batch, [], "half a batch at the end of {run}");
    entries
}

/// All appends that have returned are kept here, and looked for after each death.
#[derive(Default)]
struct Promises(BTreeMap<(RunId, u64), Body>);

impl Promises {
    fn add(&mut self, acknowledged: Vec<Acknowledged>) {
        for Acknowledged { run, seq, body } in acknowledged {
            let twice = self.0.insert((run, seq), body);
            assert_eq!(twice, None, "one number was acknowledged twice");
        }
    }

    async fn check(&self, directory: &Path, runs: &str) {
        let journal = Journal::open(directory).await.unwrap();
        let blobs = Blobs::open(directory, BLOB_LIMIT).await.unwrap();
        for run in runs.split(',').map(|run| run.parse().unwrap()) {
            let entries = whole(&journal, &run).await;
            let promised = self.0.iter().filter(|((other, _), _)| *other == run);
            for ((_, seq), body) in promised {
                let entry = entries.get(usize::try_from(*seq).unwrap() - 1);
                let entry = entry.unwrap_or_else(|| panic!("event {seq} of {run} is lost"));
                assert_eq!(entry.decode::<Body>().unwrap(), *body);
            }
            // A blob is put before the event that names it, so it is there even if the append never returned.
            for entry in entries.iter().rev().take(50) {
                if let Some(blob) = entry.decode::<Body>().unwrap().blob {
                    blobs.get(&blob).await.unwrap();
                }
            }
        }
    }
}

/// 50 by default: every acknowledged event is there after a kill, once, and no batch is torn.
#[tokio::test]
async fn heavy_acknowledged_events_survive_kills_at_random_moments() {
    let kills = std::env::var("BELLJAR_JOURNAL_KILLS").map_or(50, |kills| kills.parse().unwrap());
    let directory = tempfile::tempdir().unwrap();
    let runs = "a,b,c";
    let mut promises = Promises::default();
    for kill in 0..kills {
        let mut child = child(directory.path(), runs, None);
        let heard = acknowledged(&mut child);
        // From before it has opened the journal until long after.
        let moment = 1 + RandomState::new().hash_one(kill) % 80_000;
        tokio::time::sleep(Duration::from_micros(moment)).await;
        child.kill().unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(9));
        promises.add(heard.join().unwrap());
        promises.check(directory.path(), runs).await;
    }
    assert!(promises.0.len() > kills, "the children did next to nothing");
}

/// At each failpoint, at several appends: nothing that was acknowledged is lost, and what is there
/// beyond is what the failpoint's name says.
#[tokio::test]
async fn a_death_at_each_failpoint_leaves_whole_batches() {
    let run: RunId = "a".parse().unwrap();
    for (failpoint, durable) in [
        ("before-append", false),
        ("before-commit", false),
        ("before-acknowledge", true),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let mut promises = Promises::default();
        for count in [1_usize, 2, 5] {
            let failpoint = format!("{failpoint}:{count}");
            let mut child = child(directory.path(), "a", Some(&failpoint));
            let heard = acknowledged(&mut child);
            assert_eq!(child.wait().unwrap().signal(), Some(6), "{failpoint}");
            let heard = heard.join().unwrap();
            let batches = heard.iter().filter(|event| event.body.index == 0).count();
            assert_eq!(batches, count - 1, "{failpoint}");
            let writer = child.id();
            promises.add(heard);
            promises.check(directory.path(), "a").await;

            let journal = Journal::open(directory.path()).await.unwrap();
            let entries = whole(&journal, &run).await;
            let bodies = entries.iter().map(|entry| entry.decode::<Body>().unwrap());
            let stored = bodies.filter(|body| (body.writer, body.index) == (writer, 0));
            assert_eq!(
                stored.count(),
                batches + usize::from(durable),
                "{failpoint}"
            );
        }
    }
}

/// Processes that write to the same run notice each other, and a tail in this one sees all of it.
#[tokio::test]
async fn writers_of_several_processes_share_a_run_and_a_tail_follows() {
    let directory = tempfile::tempdir().unwrap();
    let run: RunId = "a".parse().unwrap();
    let journal = Journal::open(directory.path()).await.unwrap();
    let mut children: Vec<_> = (0..3).map(|_| child(directory.path(), "a", None)).collect();
    let heard: Vec<_> = children.iter_mut().map(acknowledged).collect();

    while journal.last_seq(&run).await.unwrap() == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let mut tail = journal.tail(&run, 0);
    let mut writers = std::collections::BTreeSet::new();
    let mut last = 0;
    // Until each of them has got its turn.
    while last < 300 || writers.len() < children.len() {
        let entry = tail.next().await.unwrap().unwrap();
        last += 1;
        assert_eq!(entry.seq, last);
        writers.insert(entry.decode::<Body>().unwrap().writer);
    }
    for child in &mut children {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let mut promises = Promises::default();
    for heard in heard {
        promises.add(heard.join().unwrap());
    }
    promises.check(directory.path(), "a").await;
}
