//! What must hold for every store of events.
//!
//! Each property is a function that knows nothing of the store. A new store implements [`Backend`]
//! and gets one line at the end of this file.

#![allow(
    clippy::unwrap_used,
    reason = "in a test a panic with the place is the best report"
)]

mod model;
#[path = "../postgres/mod.rs"]
mod postgres;
mod properties;

use belljar_journal::{Journal, NewEvent, RunId, Timestamp};
use serde_json::Value;

/// A store that exists for one test.
trait Backend: Sized + Sync {
    /// How many random sequences of operations to try, each on a fresh one.
    const CASES: u32;
    /// An empty one.
    fn fresh() -> Self;
    /// One more way in: it shares nothing with the others but what is stored.
    fn open(&self) -> impl Future<Output = Journal> + Send;
}

struct Sqlite(tempfile::TempDir);

impl Backend for Sqlite {
    const CASES: u32 = 40;

    fn fresh() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    async fn open(&self) -> Journal {
        Journal::open(self.0.path()).await.unwrap()
    }
}

/// A database of its own, on a server that the tests share.
struct Postgres(String);

impl Backend for Postgres {
    /// A fresh database takes a while.
    const CASES: u32 = 12;

    fn fresh() -> Self {
        Self(postgres::database())
    }

    async fn open(&self) -> Journal {
        Journal::connect(&self.0).await.unwrap()
    }
}

fn run(name: &str) -> RunId {
    name.parse().unwrap()
}

fn event(body: impl Into<Value>) -> NewEvent {
    NewEvent::new("test", 1, Timestamp(0), &body.into()).unwrap()
}

macro_rules! conformance {
    ($name:ident, $backend:ty) => {
        conformance!($name, $backend:
            events_are_numbered_from_one_without_gaps,
            everything_given_comes_back,
            pages_are_bounded_and_complete,
            a_conflict_tells_both_numbers_and_writes_nothing,
            of_many_writers_one_wins_each_number,
            many_runs_do_not_mix,
            a_tail_sees_all_under_concurrent_appends,
            a_tail_waits_for_another_writer,
            a_tail_is_told_at_once_by_its_own_journal,
            a_tail_outlives_its_journal,
            events_survive_reopening,
            big_events_are_kept_and_too_big_ones_refused,
            a_batch_with_a_bad_event_leaves_nothing,
            an_append_that_is_dropped_leaves_all_or_nothing,
            an_empty_batch_only_compares,
            an_unknown_run_is_an_error,
            a_removed_run_is_gone_and_others_stay,
            runs_are_listed_newest_first,
            many_open_a_new_one_at_the_same_time,
        );
    };
    ($name:ident, $backend:ty: $($property:ident),* $(,)?) => {
        mod $name {
            use super::*;
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
                async fn $property() {
                    properties::$property(&<$backend>::fresh()).await;
                }
            )*

            #[test]
            fn it_behaves_like_a_vector_of_events_for_each_run() {
                model::it_behaves_like_a_vector_of_events_for_each_run::<$backend>();
            }
        }
    };
}

conformance!(sqlite, Sqlite);
conformance!(postgresql, Postgres);
