//! A node of a campaign: a process that claims runs and drives them to their ends.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::time::Duration;

use belljar_journal::{
    AppendError, Journal, NewEvent, Node, NodeOptions, OwnedRun, RunId, RunState, Timestamp,
};

use crate::history::{Body, Fact, History, Task};

/// How long a step takes, beside its append.
const WORK: Duration = Duration::from_millis(15);
const PAUSE: Duration = Duration::from_millis(25);

#[test]
#[ignore = "it is a process of the campaigns, and never ends by itself"]
fn process() {
    let variable = |name| std::env::var(name).unwrap();
    let database = variable("NODE_DATABASE");
    let history = History::open(variable("NODE_HISTORY").as_ref());
    let lease = Duration::from_millis(variable("NODE_LEASE").parse().unwrap());
    // The campaign holds the other end: no node is left when it is gone.
    std::thread::spawn(|| {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        std::process::exit(0);
    });
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        loop {
            let mut options = NodeOptions::new(variable("NODE_NAME"), "nowhere");
            options.lease = lease;
            match Node::join(&database, options).await {
                Ok(node) => live(&node, &history).await,
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    });
}

/// Claims runs as long as this life lasts.
async fn live(node: &Node, history: &History) {
    while !node.is_over() {
        for run in node.claim(8).await.unwrap_or_default() {
            history.note(run.id(), node.life(), run.epoch(), Fact::Claimed);
            tokio::spawn(drive(node.clone(), run, history.clone()));
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// What a run's events say about it.
struct State {
    last: u64,
    steps: u64,
    of: u64,
    has_ended: bool,
}

async fn fold(journal: &Journal, run: &RunId) -> State {
    let mut state = State {
        last: 0,
        steps: 0,
        of: 0,
        has_ended: false,
    };
    loop {
        let Ok(page) = journal.read(run, state.last, 500).await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        if page.is_empty() {
            return state;
        }
        for entry in page {
            state.last = entry.seq;
            match entry.kind.as_str() {
                "task" => state.of = entry.decode::<Task>().unwrap().steps,
                "end" => state.has_ended = true,
                _ => state.steps += 1,
            }
        }
    }
}

async fn drive(node: Node, mut run: OwnedRun, history: History) {
    let life = node.life();
    let mut state = fold(node.journal(), run.id()).await;
    loop {
        if state.has_ended {
            let (id, epoch) = (run.id().clone(), run.epoch());
            if run.give_up(RunState::Ended).await.is_ok() {
                history.note(&id, life, epoch, Fact::GaveUp);
            }
            return;
        }
        tokio::time::sleep(WORK).await;
        let kind = if state.steps < state.of {
            "step"
        } else {
            "end"
        };
        let body = Body {
            life,
            epoch: run.epoch(),
            step: state.steps + 1,
            // Above 2^53, a number would not survive each reader of JSON.
            nonce: RandomState::new().hash_one(state.last) >> 11,
        };
        let event = NewEvent::new(kind, 1, Timestamp::now(), &body).unwrap();
        let appended = run.append(state.last, &[event]).await;
        let record = |epoch, fact| history.note(run.id(), life, epoch, fact);
        let (nonce, epoch) = (body.nonce, body.epoch);
        match appended {
            Ok(seq) => {
                record(epoch, Fact::Acknowledged { seq, body });
                state.last = seq;
                state.has_ended = kind == "end";
                state.steps += u64::from(kind == "step");
                // Now and then to somebody else.
                if nonce % 40 == 0 && !state.has_ended {
                    let id = run.id().clone();
                    if run.give_up(RunState::Ready).await.is_ok() {
                        history.note(&id, life, epoch, Fact::GaveUp);
                    }
                    return;
                }
            }
            Err(AppendError::LeaseExpired) => tokio::time::sleep(PAUSE).await,
            Err(AppendError::Conflict { .. }) => {
                record(epoch, Fact::Refused { nonce });
                state = fold(node.journal(), run.id()).await;
            }
            Err(AppendError::Journal(_)) => {
                let Some(last) = reconcile(&mut run).await else {
                    return;
                };
                let record = |fact| history.note(run.id(), life, epoch, fact);
                if last == state.last {
                    record(Fact::Refused { nonce });
                } else {
                    record(Fact::Acknowledged { seq: last, body });
                }
                state = fold(node.journal(), run.id()).await;
            }
            Err(_) => {
                record(epoch, Fact::Refused { nonce });
                return;
            }
        }
    }
}

/// The last sequence number, or nothing if the run has another owner.
async fn reconcile(run: &mut OwnedRun) -> Option<u64> {
    loop {
        match run.reconcile().await {
            Ok(last) => return Some(last),
            Err(AppendError::Fenced) => return None,
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}
