//! A command in a session, beside the least that a program behind the same walls can cost.

use std::time::{Duration, Instant};

use anyhow::ensure;
use belljar_sandbox::{Command, Engine};

/// A small shell that forks and executes the same program for each line that it reads.
const BARE: &str = "while read line; do /bin/true; echo ok; done";

/// From the request for `true` to its end, and the same by a shell that is there already, in turns.
pub(crate) async fn rounds(engine: &Engine, n: usize) -> anyhow::Result<Vec<(Duration, Duration)>> {
    let session = engine.session().await?;
    let shell = session
        .spawn(Command {
            input: true,
            ..Command::shell(BARE)
        })
        .await?;
    let (mut rounds, mut place) = (Vec::new(), 0);
    for round in 0..n + 5 {
        let started = Instant::now();
        shell.write(b"\n").await?;
        place = shell.next_output(place, usize::MAX).await.next;
        let bare = started.elapsed();
        let started = Instant::now();
        let command = session.spawn(Command::new(["/bin/true"])).await?;
        let end = command.wait().await;
        let ours = started.elapsed();
        ensure!(end.exit_code == Some(0), "`true` failed: {end:?}");
        if round >= 5 {
            rounds.push((ours, bare));
        }
    }
    session.close().await?;
    Ok(rounds)
}
