//! What a node knows for certain, in a file that survives it.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex};

use belljar_journal::{RunId, Timestamp};
use serde::{Deserialize, Serialize};

/// The body of each event of a test's run but the first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Body {
    pub(crate) life: i64,
    pub(crate) epoch: i64,
    /// From 1, without gaps.
    pub(crate) step: u64,
    /// No two appends have the same one.
    pub(crate) nonce: u64,
}

/// The first event of a run: how many steps it has.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Task {
    pub(crate) steps: u64,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Line {
    pub(crate) at: Timestamp,
    pub(crate) run: RunId,
    pub(crate) epoch: i64,
    pub(crate) life: i64,
    pub(crate) fact: Fact,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Fact {
    Claimed,
    GaveUp,
    /// The event is in the journal.
    Acknowledged {
        seq: u64,
        body: Body,
    },
    /// The event is not in the journal, and never will be.
    Refused {
        nonce: u64,
    },
}

#[derive(Clone, Debug)]
pub(crate) struct History(Arc<Mutex<File>>);

impl History {
    pub(crate) fn open(path: &Path) -> Self {
        let file = File::options()
            .create(true)
            .append(true)
            .open(path)
            .unwrap();
        Self(Arc::new(Mutex::new(file)))
    }

    /// In one write: a kill leaves whole lines but the last.
    pub(crate) fn note(&self, run: &RunId, life: i64, epoch: i64, fact: Fact) {
        let known = Line {
            at: Timestamp::now(),
            run: run.clone(),
            epoch,
            life,
            fact,
        };
        let mut text = serde_json::to_vec(&known).unwrap();
        text.push(b'\n');
        self.0.lock().unwrap().write_all(&text).unwrap();
    }

    pub(crate) fn read(path: &Path) -> Vec<Line> {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let lines = text.lines().map(serde_json::from_str);
        // A process that was killed while it wrote leaves half a line.
        lines.filter_map(Result::ok).collect()
    }
}
