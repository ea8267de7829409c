//! How many appends a second the journal takes, beside a bare loop of write and fsync on the same
//! disk in the same run. The two take turns, so that both see the same machine.
//!
//! ```console
//! $ cargo run --release -p belljar-journal --example append_rate [DIRECTORY]
//! ```

#![allow(clippy::print_stdout, reason = "its output is what it is for")]

use std::error::Error;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::slice;
use std::time::{Duration, Instant};

use belljar_journal::{Journal, NewEvent, RunId, Timestamp};

/// Appends in one turn, and turns of each.
const APPENDS: u32 = 200;
const TURNS: u32 = 10;
const BODY_BYTES: usize = 400;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let parent = std::env::args().nth(1).unwrap_or_else(|| ".".to_owned());
    let directory = tempfile::tempdir_in(parent)?;
    let journal = Journal::open(directory.path()).await?;
    let event = NewEvent::new("measure", 1, Timestamp::now(), &"x".repeat(BODY_BYTES))?;

    let mut bare = bare_file(&directory.path().join("bare"))?;
    let (mut bare_time, mut one_time, mut ten_time) =
        (Duration::ZERO, Duration::ZERO, Duration::ZERO);
    for turn in 0..TURNS {
        bare_time += bare_loop(&mut bare)?;
        one_time += append(&journal, &format!("one-{turn}"), slice::from_ref(&event)).await?;
        ten_time += append(&journal, &format!("ten-{turn}"), &vec![event.clone(); 10]).await?;
    }
    let eight_begin = Instant::now();
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..8 {
        let (journal, event) = (journal.clone(), event.clone());
        writers.spawn(async move {
            let run = format!("eight-{writer}");
            append(&journal, &run, &[event])
                .await
                .map_err(|error| error.to_string())
        });
    }
    for appended in writers.join_all().await {
        appended?;
    }
    let eight_time = eight_begin.elapsed();

    let bare_rate = f64::from(APPENDS * TURNS) / bare_time.as_secs_f64();
    println!("{:<44} {:>8}  {:>6}", "what", "a second", "ratio");
    for (what, count, time) in [
        ("write and fsync of a bare file", APPENDS * TURNS, bare_time),
        ("appends of one event", APPENDS * TURNS, one_time),
        ("appends of ten events", APPENDS * TURNS, ten_time),
        (
            "appends of one event, 8 runs at once",
            APPENDS * 8,
            eight_time,
        ),
    ] {
        let rate = f64::from(count) / time.as_secs_f64();
        println!("{what:<44} {rate:>8.0}  {:>6.2}", rate / bare_rate);
    }
    Ok(())
}

fn bare_file(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

fn bare_loop(file: &mut File) -> std::io::Result<Duration> {
    let begin = Instant::now();
    for _ in 0..APPENDS {
        file.write_all(&[b'x'; BODY_BYTES])?;
        file.sync_data()?;
    }
    Ok(begin.elapsed())
}

async fn append(
    journal: &Journal,
    run: &str,
    events: &[NewEvent],
) -> Result<Duration, Box<dyn Error>> {
    let run: RunId = run.parse()?;
    let begin = Instant::now();
    let mut last = 0;
    for _ in 0..APPENDS {
        last = journal.append(&run, last, events).await?;
    }
    Ok(begin.elapsed())
}
