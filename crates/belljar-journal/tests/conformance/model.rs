//! Random operations, compared with a vector of events for each run.

use belljar_journal::{AppendError, Error};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::{Backend, event, run};

#[derive(Clone, Debug)]
enum Operation {
    /// `off` is what the caller's sequence number is wrong by.
    Append {
        run: usize,
        off: i64,
        size: usize,
    },
    Read {
        run: usize,
        after: u64,
        limit: usize,
    },
    Runs {
        before: Option<usize>,
        limit: usize,
    },
    Reopen,
}

const RUNS: usize = 4;

fn operation() -> impl Strategy<Value = Operation> {
    let off = prop_oneof![5 => Just(0), 1 => -3..=3_i64];
    prop_oneof![
        6 => (0..RUNS, off, 0..4_usize).prop_map(|(run, off, size)| Operation::Append { run, off, size }),
        3 => (0..RUNS, 0..20_u64, 0..8_usize).prop_map(|(run, after, limit)| Operation::Read { run, after, limit }),
        1 => (proptest::option::of(0..RUNS), 0..6_usize).prop_map(|(before, limit)| Operation::Runs { before, limit }),
        1 => Just(Operation::Reopen),
    ]
}

pub(crate) fn it_behaves_like_a_vector_of_events_for_each_run<B: Backend>() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let mut runner = TestRunner::new(Config {
        cases: B::CASES,
        failure_persistence: None,
        ..Config::default()
    });
    let operations = proptest::collection::vec(operation(), 1..40);
    let result = runner.run(&operations, |operations| {
        runtime.block_on(compare::<B>(operations));
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
}

async fn compare<B: Backend>(operations: Vec<Operation>) {
    let backend = B::fresh();
    let mut journal = backend.open().await;
    let names = ["a", "b", "c", "d"].map(run);
    let mut events: [Vec<u64>; RUNS] = Default::default();
    // In the order in which they began.
    let mut begun: Vec<usize> = Vec::new();
    let mut number = 0;

    for operation in operations {
        match operation {
            Operation::Append { run, off, size } => {
                let actual = events[run].len() as u64;
                let expected = actual.saturating_add_signed(off);
                let bodies: Vec<_> = (number..).take(size).collect();
                number += size as u64;
                let batch: Vec<_> = bodies.iter().copied().map(event).collect();
                match journal.append(&names[run], expected, &batch).await {
                    Ok(last) => {
                        assert_eq!(expected, actual);
                        if actual == 0 && size > 0 {
                            begun.push(run);
                        }
                        events[run].extend(bodies);
                        assert_eq!(last, events[run].len() as u64);
                    }
                    Err(AppendError::Conflict {
                        expected: told,
                        actual: found,
                    }) => {
                        assert_ne!(expected, actual);
                        assert_eq!((told, found), (expected, actual));
                    }
                    Err(error) => panic!("{error}"),
                }
            }
            Operation::Read { run, after, limit } => {
                match journal.read(&names[run], after, limit).await {
                    Ok(page) => {
                        let skipped = usize::try_from(after).unwrap();
                        let expected = (after + 1..)
                            .zip(events[run].iter().copied().skip(skipped))
                            .take(limit);
                        let page = page.iter().map(|e| (e.seq, e.decode::<u64>().unwrap()));
                        assert!(page.eq(expected));
                        assert!(!events[run].is_empty());
                    }
                    Err(Error::UnknownRun(_)) => assert!(events[run].is_empty()),
                    Err(error) => panic!("{error}"),
                }
            }
            Operation::Runs { before, limit } => {
                let place = before.map_or(Some(begun.len()), |run| {
                    begun.iter().position(|other| *other == run)
                });
                match journal.runs(before.map(|run| &names[run]), limit).await {
                    Ok(page) => {
                        let expected = begun[..place.unwrap()].iter().rev().take(limit);
                        let expected = expected.map(|run| (&names[*run], events[*run].len()));
                        let page = page
                            .iter()
                            .map(|run| (&run.first.run, usize::try_from(run.last.seq).unwrap()));
                        assert!(page.eq(expected));
                    }
                    Err(Error::UnknownRun(_)) => assert_eq!(place, None),
                    Err(error) => panic!("{error}"),
                }
            }
            Operation::Reopen => journal = backend.open().await,
        }
    }
}
