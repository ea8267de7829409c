//! The properties, one function each.

use std::time::{Duration, Instant};

use belljar_journal::{AppendError, Entry, Error, Journal, NewEvent, RunId, Timestamp};
use futures_util::{Stream, StreamExt};
use serde_json::json;

use super::{Backend, event, run};

async fn next(tail: &mut (impl Stream<Item = Result<Entry, Error>> + Unpin)) -> Entry {
    let next = tokio::time::timeout(Duration::from_secs(30), tail.next());
    next.await.unwrap().unwrap().unwrap()
}

async fn read_all(journal: &Journal, run: &RunId) -> Vec<Entry> {
    let mut all: Vec<Entry> = Vec::new();
    loop {
        let after = all.last().map_or(0, |entry| entry.seq);
        let page = journal.read(run, after, 50).await.unwrap();
        if page.is_empty() {
            return all;
        }
        all.extend(page);
    }
}

pub(crate) async fn events_are_numbered_from_one_without_gaps(backend: &impl Backend) {
    let journal = backend.open().await;
    let a = run("a");
    let mut last = 0;
    for size in [1, 3, 2, 1, 5] {
        let batch: Vec<_> = (0..size).map(|i| event(last + i)).collect();
        last = journal.append(&a, last, &batch).await.unwrap();
        assert_eq!(journal.last_seq(&a).await.unwrap(), last);
    }
    let all = read_all(&journal, &a).await;
    assert_eq!(all.len(), 12);
    for (index, entry) in (0_u64..).zip(&all) {
        assert_eq!((&entry.run, entry.seq), (&a, index + 1));
        assert_eq!(entry.decode::<u64>().unwrap(), index);
    }
}

pub(crate) async fn everything_given_comes_back(backend: &impl Backend) {
    let journal = backend.open().await;
    let bodies = [
        r#"{"b":1,"a":{"z":[null,true,""]},"b ":-0.0}"#,
        r#"{ "spaces" : [ 1 , 2 ] }"#,
        "1.00000000000000000000000000000000001",
        "123456789012345678901234567890",
        "2.2250738585072011e-308",
        r#""\u0000 \ud83d\ude00 𝄞 \" \\ ' -- $1 ?""#,
        "null",
    ];
    let events: Vec<_> = (1..)
        .zip(bodies)
        .map(|(version, body)| NewEvent {
            kind: format!("kind {version} 'é\0"),
            version: u32::MAX - version,
            at: Timestamp(if version % 2 == 0 { i64::MIN } else { i64::MAX }),
            body: serde_json::value::RawValue::from_string(body.to_owned()).unwrap(),
        })
        .collect();
    journal.append(&run("a"), 0, &events).await.unwrap();
    let entries = read_all(&journal, &run("a")).await;
    assert_eq!(entries.len(), events.len());
    for (entry, event) in entries.iter().zip(&events) {
        assert_eq!(entry.body.get(), event.body.get());
        assert_eq!(entry.kind, event.kind);
        assert_eq!((entry.version, entry.at), (event.version, event.at));
    }
}

pub(crate) async fn pages_are_bounded_and_complete(backend: &impl Backend) {
    let journal = backend.open().await;
    let events: Vec<_> = (1..=10).map(event).collect();
    journal.append(&run("a"), 0, &events).await.unwrap();
    for after in 0..=11 {
        for limit in [0, 1, 3, 10, 100, usize::MAX] {
            let page = journal.read(&run("a"), after, limit).await.unwrap();
            let seqs: Vec<_> = page.iter().map(|entry| entry.seq).collect();
            let expected: Vec<_> = (after + 1..=10).take(limit).collect();
            assert_eq!(seqs, expected, "after {after}, limit {limit}");
        }
    }
    let beyond = journal.read(&run("a"), u64::MAX, 10).await.unwrap();
    assert!(beyond.is_empty());
}

pub(crate) async fn a_conflict_tells_both_numbers_and_writes_nothing(backend: &impl Backend) {
    let journal = backend.open().await;
    let a = run("a");
    journal.append(&a, 0, &[event(1), event(2)]).await.unwrap();
    for wrong in [0, 1, 3, u64::MAX] {
        let refused = journal.append(&a, wrong, &[event("wrong")]).await;
        let Err(AppendError::Conflict { expected, actual }) = refused else {
            panic!("{refused:?}");
        };
        assert_eq!((expected, actual), (wrong, 2));
    }
    assert_eq!(read_all(&journal, &a).await.len(), 2);
    assert_eq!(journal.append(&a, 2, &[event(3)]).await.unwrap(), 3);
}

pub(crate) async fn of_many_writers_one_wins_each_number(backend: &impl Backend) {
    const EVENTS: u64 = 200;
    let (one, other) = (backend.open().await, backend.open().await);
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..8_u64 {
        let journal = if writer % 2 == 0 { &one } else { &other }.clone();
        writers.spawn(async move {
            let (mut won, mut refused, mut last) = (Vec::new(), 0, 0);
            while last < EVENTS {
                match journal.append(&run("a"), last, &[event(writer)]).await {
                    Ok(seq) => {
                        won.push((seq, writer));
                        last = seq;
                        // Let the others come to the same number.
                        tokio::task::yield_now().await;
                    }
                    Err(AppendError::Conflict { expected, actual }) => {
                        assert!(expected < actual);
                        refused += 1;
                        last = actual;
                    }
                    Err(error) => panic!("{error}"),
                }
            }
            (won, refused)
        });
    }
    let (mut won, mut refused) = (Vec::new(), 0);
    for (one_won, one_refused) in writers.join_all().await {
        won.extend(one_won);
        refused += one_refused;
    }
    won.sort_unstable();
    let stored: Vec<_> = read_all(&one, &run("a"))
        .await
        .iter()
        .map(|entry| (entry.seq, entry.decode().unwrap()))
        .collect();
    assert_eq!(stored, won);
    assert!(stored.iter().map(|(seq, _)| *seq).eq(1..=won.len() as u64));
    assert!(refused > 0, "they never came to the same number");
}

pub(crate) async fn many_runs_do_not_mix(backend: &impl Backend) {
    let journal = backend.open().await;
    let mut writers = tokio::task::JoinSet::new();
    for number in 0..10_u64 {
        let journal = journal.clone();
        writers.spawn(async move {
            for seq in 0..20 {
                let event = event(json!([number, seq]));
                let run = run(&format!("run-{number}"));
                journal.append(&run, seq, &[event]).await.unwrap();
            }
        });
    }
    writers.join_all().await;
    for number in 0..10_u64 {
        let entries = read_all(&journal, &run(&format!("run-{number}"))).await;
        let bodies: Vec<(u64, u64)> = entries.iter().map(|e| e.decode().unwrap()).collect();
        assert!(bodies.into_iter().eq((0..20).map(|seq| (number, seq))));
    }
}

pub(crate) async fn a_tail_sees_all_under_concurrent_appends(backend: &impl Backend) {
    const EVENTS: u64 = 400;
    let (one, other) = (backend.open().await, backend.open().await);
    one.append(&run("a"), 0, &[event("first")]).await.unwrap();
    let mut tails = tokio::task::JoinSet::new();
    for (journal, after) in [(&one, 0), (&other, 0), (&one, 57), (&other, EVENTS - 1)] {
        let mut tail = journal.tail(&run("a"), after);
        tails.spawn(async move {
            for seq in after + 1..=EVENTS {
                assert_eq!(next(&mut tail).await.seq, seq);
            }
        });
    }
    let mut writers = tokio::task::JoinSet::new();
    for journal in [one.clone(), one.clone(), other] {
        writers.spawn(async move {
            let mut last = 1;
            while last < EVENTS {
                let batch = vec![event(last); usize::try_from(last % 3 + 1).unwrap()];
                match journal.append(&run("a"), last, &batch).await {
                    Ok(seq) => last = seq,
                    Err(AppendError::Conflict { actual, .. }) => last = actual,
                    Err(error) => panic!("{error}"),
                }
            }
        });
    }
    writers.join_all().await;
    tails.join_all().await;
}

pub(crate) async fn a_tail_waits_for_another_writer(backend: &impl Backend) {
    let (reader, writer) = (backend.open().await, backend.open().await);
    writer.append(&run("a"), 0, &[event(1)]).await.unwrap();
    let mut tail = reader.tail(&run("a"), 0);
    for seq in 1..5 {
        assert_eq!(next(&mut tail).await.seq, seq);
        let waited = tokio::time::timeout(Duration::from_millis(50), tail.next()).await;
        assert!(waited.is_err(), "{waited:?}");
        writer.append(&run("a"), seq, &[event(seq)]).await.unwrap();
    }
}

pub(crate) async fn a_tail_is_told_at_once_by_its_own_journal(backend: &impl Backend) {
    let journal = backend.open().await;
    journal.append(&run("a"), 0, &[event(1)]).await.unwrap();
    let mut tail = journal.clone().tail(&run("a"), 1);
    let begin = Instant::now();
    for seq in 1..=50 {
        let append = async {
            tokio::time::sleep(Duration::from_millis(5)).await;
            journal.append(&run("a"), seq, &[event(1)]).await.unwrap();
        };
        let ((), entry) = tokio::join!(append, next(&mut tail));
        assert_eq!(entry.seq, seq + 1);
    }
    // By looking five times a second alone it would take ten seconds.
    assert!(
        begin.elapsed() < Duration::from_secs(6),
        "{:?}",
        begin.elapsed()
    );
}

pub(crate) async fn a_tail_outlives_its_journal(backend: &impl Backend) {
    let (reader, writer) = (backend.open().await, backend.open().await);
    writer.append(&run("a"), 0, &[event(1)]).await.unwrap();
    let mut tail = reader.tail(&run("a"), 0);
    drop(reader);
    next(&mut tail).await;
    writer.append(&run("a"), 1, &[event(2)]).await.unwrap();
    assert_eq!(next(&mut tail).await.seq, 2);
}

pub(crate) async fn events_survive_reopening(backend: &impl Backend) {
    for round in 0..5 {
        let journal = backend.open().await;
        assert_eq!(journal.last_seq(&run("a")).await.unwrap(), round);
        journal
            .append(&run("a"), round, &[event(round)])
            .await
            .unwrap();
    }
    let entries = read_all(&backend.open().await, &run("a")).await;
    let bodies = entries.iter().map(|entry| entry.decode::<u64>().unwrap());
    assert!(bodies.eq(0..5));
}

pub(crate) async fn big_events_are_kept_and_too_big_ones_refused(backend: &impl Backend) {
    const LIMIT: usize = 16 << 20;
    let journal = backend.open().await;
    let a = run("a");
    // Two quotes belong to the text.
    let biggest = event("x".repeat(LIMIT - 2));
    let last = journal.append(&a, 0, &vec![biggest.clone(); 2]).await;
    assert_eq!(last.unwrap(), 2);
    let refused = journal.append(&a, 2, &[event("x".repeat(LIMIT - 1))]).await;
    assert!(
        matches!(&refused, Err(AppendError::EventTooLarge { bytes, limit: LIMIT }) if *bytes == LIMIT + 1),
        "{refused:?}"
    );
    // The reader's memory stays bounded: a page has one of them.
    for after in [0, 1] {
        let page = journal.read(&a, after, 100).await.unwrap();
        assert_eq!(page.len(), 1);
        assert_eq!(page[0].body.get(), biggest.body.get());
    }
    // A page that ended early holds nothing up.
    journal.append(&a, 2, &[event(3)]).await.unwrap();
    let mut tail = journal.tail(&a, 0);
    for seq in 1..=3 {
        assert_eq!(next(&mut tail).await.seq, seq);
    }
}

pub(crate) async fn a_batch_with_a_bad_event_leaves_nothing(backend: &impl Backend) {
    let journal = backend.open().await;
    let batch = [event(1), event("x".repeat(16 << 20)), event(3)];
    journal.append(&run("a"), 0, &batch).await.unwrap_err();
    assert_eq!(journal.last_seq(&run("a")).await.unwrap(), 0);
    assert!(journal.runs(None, 10).await.unwrap().is_empty());
}

/// Microseconds, where the runtime's own clock counts milliseconds: a fast disk is done in one.
async fn moment(time: Duration) {
    let started = Instant::now();
    while started.elapsed() < time {
        tokio::task::yield_now().await;
    }
}

pub(crate) async fn an_append_that_is_dropped_leaves_all_or_nothing(backend: &impl Backend) {
    const BATCH: usize = 7;
    let journal = backend.open().await;
    let a = run("a");
    let (mut last, mut dropped) = (0, 0);
    for round in 0..200_u64 {
        let batch = vec![event(round); BATCH];
        let appended = tokio::select! {
            biased;
            appended = journal.append(&a, last, &batch) => Some(appended.unwrap()),
            () = moment(Duration::from_micros(round * 37 % 4000)) => None,
        };
        if let Some(appended) = appended {
            last = appended;
        } else {
            dropped += 1;
            // A last word from the append that was dropped comes before this answer.
            journal.append(&a, u64::MAX, &batch).await.unwrap_err();
            last = journal.last_seq(&a).await.unwrap();
        }
        assert_eq!(last % BATCH as u64, 0);
    }
    assert!(dropped > 0);
    if last == 0 {
        last = journal.append(&a, 0, &[event(0)]).await.unwrap();
    }
    let entries = read_all(&journal, &a).await;
    assert!(entries.iter().map(|entry| entry.seq).eq(1..=last));
    for batch in entries.chunks(BATCH) {
        let mut rounds = batch.iter().map(|entry| entry.decode::<u64>().unwrap());
        let first = rounds.next().unwrap();
        assert!(rounds.all(|round| round == first));
    }
}

pub(crate) async fn an_empty_batch_only_compares(backend: &impl Backend) {
    let journal = backend.open().await;
    let a = run("a");
    assert_eq!(journal.append(&a, 0, &[]).await.unwrap(), 0);
    assert!(journal.runs(None, 10).await.unwrap().is_empty());
    journal.append(&a, 0, &[event(1)]).await.unwrap();
    assert_eq!(journal.append(&a, 1, &[]).await.unwrap(), 1);
    let refused = journal.append(&a, 0, &[]).await;
    assert!(matches!(
        refused,
        Err(AppendError::Conflict {
            expected: 0,
            actual: 1
        })
    ));
}

pub(crate) async fn an_unknown_run_is_an_error(backend: &impl Backend) {
    let journal = backend.open().await;
    let unknown = run("unknown");
    journal.append(&run("a"), 0, &[event(1)]).await.unwrap();
    assert_eq!(journal.last_seq(&unknown).await.unwrap(), 0);
    let is_unknown = |error: &Error| matches!(error, Error::UnknownRun(run) if *run == unknown);
    assert!(is_unknown(
        &journal.read(&unknown, 0, 10).await.unwrap_err()
    ));
    let listed = journal.runs(Some(&unknown), 10).await;
    assert!(is_unknown(&listed.unwrap_err()));
    let mut tail = journal.tail(&unknown, 0);
    assert!(is_unknown(&tail.next().await.unwrap().unwrap_err()));
    assert!(tail.next().await.is_none());
    let refused = journal.append(&unknown, 3, &[event(1)]).await;
    assert!(matches!(
        refused,
        Err(AppendError::Conflict {
            expected: 3,
            actual: 0
        })
    ));
}

pub(crate) async fn runs_are_listed_newest_first(backend: &impl Backend) {
    let journal = backend.open().await;
    assert!(journal.runs(None, 10).await.unwrap().is_empty());
    // Names in no order, to see that it is the order of beginning that counts.
    let names: Vec<_> = (0..25)
        .map(|i| run(&format!("run-{}", i * 7 % 25)))
        .collect();
    for name in &names {
        let batch = [event(json!({"title": name}))];
        journal.append(name, 0, &batch).await.unwrap();
    }
    // More events don't make a run newer.
    let more = [event(1), event("end")];
    journal.append(&names[3], 1, &more).await.unwrap();

    let (mut listed, mut before) = (Vec::new(), None);
    loop {
        let page = journal.runs(before.as_ref(), 10).await.unwrap();
        assert!(page.len() <= 10);
        let Some(last) = page.last() else { break };
        before = Some(last.first.run.clone());
        listed.extend(page);
    }
    assert!(
        listed
            .iter()
            .map(|run| &run.first.run)
            .eq(names.iter().rev())
    );
    for summary in &listed {
        assert_eq!(summary.first.seq, 1);
        let title = &summary.first.decode::<serde_json::Value>().unwrap()["title"];
        assert_eq!(title, summary.first.run.as_str());
        assert_eq!(summary.last.run, summary.first.run);
    }
    let longer = &listed[25 - 1 - 3];
    assert_eq!((longer.last.seq, longer.last.body.get()), (3, "\"end\""));
}

pub(crate) async fn many_open_a_new_one_at_the_same_time(backend: &impl Backend) {
    let opened: Vec<_> = (0..8).map(|_| backend.open()).collect();
    let opened = futures_util::future::join_all(opened).await;
    for (last, journal) in (0..).zip(&opened) {
        assert_eq!(
            journal.append(&run("a"), last, &[event(1)]).await.unwrap(),
            last + 1
        );
    }
}

pub(crate) async fn a_removed_run_is_gone_and_others_stay(backend: &impl Backend) {
    let journal = backend.open().await;
    let (a, b) = (run("a"), run("b"));
    for run in [&a, &b] {
        let body = json!({"of": run.as_str(), "much": "x".repeat(10_000)});
        let events = [event(body), event(2)];
        journal.append(run, 0, &events).await.unwrap();
    }
    let mut tail = journal.tail(&b, 2);
    journal.remove(&b).await.unwrap();
    journal.compact().await.unwrap();
    // Once more is no fault.
    journal.remove(&b).await.unwrap();
    assert_eq!(journal.last_seq(&b).await.unwrap(), 0);
    let read = journal.read(&b, 0, 10).await.unwrap_err();
    assert!(matches!(read, Error::UnknownRun(_)), "{read:?}");
    let told = tail.next().await.unwrap().unwrap_err();
    assert!(matches!(told, Error::UnknownRun(_)), "{told:?}");
    let late = journal.append(&b, 2, &[event(3)]).await;
    assert!(matches!(late, Err(AppendError::Conflict { .. })));

    // Another way in sees the same.
    let other = backend.open().await;
    assert_eq!(other.runs(None, 10).await.unwrap().len(), 1);
    assert_eq!(read_all(&other, &a).await.len(), 2);
    let mut bodies = Vec::new();
    let mut see = |body: &str| bodies.push(body.len());
    other.each_body(&mut see).await.unwrap();
    bodies.sort_unstable();
    assert_eq!(bodies.len(), 2);
    assert!(bodies[1] > 10_000);
    // The name is free, and the newest is the newest.
    other.append(&b, 0, &[event(1)]).await.unwrap();
    assert_eq!(other.runs(None, 1).await.unwrap()[0].first.run, b);
}
