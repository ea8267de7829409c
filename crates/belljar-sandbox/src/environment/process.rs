//! Running a program to its end: output captured and bounded, a deadline that holds.
//!
//! `std::process` has no wait with a deadline. The few lines here are less than a crate for it,
//! and they also end the program's own children, which the crates do not.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

/// More than any honest answer; a hostile interpreter must not fill our memory.
const STDOUT_LIMIT: u64 = 16 * 1024 * 1024;
const STDERR_LIMIT: u64 = 64 * 1024;
/// Lines of a long-running program's output kept for its error message.
const KEPT_LINES: usize = 60;

/// How a program ended, with what it wrote.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
}

/// Why a program did not end by itself.
#[derive(Debug)]
pub(crate) enum Failure {
    Io(io::Error),
    Deadline,
    /// Its watcher stopped it.
    Stopped,
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Runs `command` with a deadline. Past it, the program and all of its process group are killed.
pub(super) fn run_with_deadline(
    command: &mut Command,
    deadline: Duration,
) -> Result<Finished, Failure> {
    run_watched(command, deadline, |_| true)
}

/// The same, and also stops it when `goes_on`, which is called many times a second, returns false.
pub(crate) fn run_watched(
    command: &mut Command,
    deadline: Duration,
    goes_on: impl Fn(u32) -> bool,
) -> Result<Finished, Failure> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()?;
    let stdout = drain(child.stdout.take(), STDOUT_LIMIT);
    let stderr = drain(child.stderr.take(), STDERR_LIMIT);

    let end = Instant::now() + deadline;
    let mut pause = Duration::from_millis(1);
    let status = loop {
        let ended = has_ended(&child)?;
        let stopped = !goes_on(child.id());
        if ended || stopped || Instant::now() >= end {
            // A child of the program may still hold the pipes; it has no business any more.
            kill_group(&child);
            let status = child.wait()?;
            if stopped {
                return Err(Failure::Stopped);
            }
            if ended {
                break status;
            }
            return Err(Failure::Deadline);
        }
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    };
    Ok(Finished {
        status,
        stdout: stdout.join().unwrap_or_default(),
        stderr: String::from_utf8_lossy(&stderr.join().unwrap_or_default()).into_owned(),
    })
}

/// Runs `command` to its end however long it takes, and passes on each line of its stderr as it
/// arrives. It stays in our process group, so that Ctrl-C in a terminal reaches it too.
pub(super) fn run_and_follow(
    command: &mut Command,
    line_written: &mut dyn FnMut(&str),
) -> io::Result<(ExitStatus, String)> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut kept = VecDeque::with_capacity(KEPT_LINES);
    if let Some(stderr) = child.stderr.take() {
        for line in BufReader::new(stderr).split(b'\n') {
            let line = line?;
            let line = String::from_utf8_lossy(&line);
            let line = line.trim_end();
            if line.is_empty() {
                continue;
            }
            line_written(line);
            if kept.len() == KEPT_LINES {
                kept.pop_front();
            }
            kept.push_back(line.to_owned());
        }
    }
    let status = child.wait()?;
    Ok((status, Vec::from(kept).join("\n")))
}

/// Reads to the end and keeps the first `limit` bytes: a full pipe would stop the program.
fn drain(pipe: Option<impl Read + Send + 'static>, limit: u64) -> thread::JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut kept = Vec::new();
        if let Some(mut pipe) = pipe {
            // What could be read before an error is still worth showing.
            let _ = pipe.by_ref().take(limit).read_to_end(&mut kept);
            let _ = io::copy(&mut pipe, &mut io::sink());
        }
        kept
    })
}

/// Whether the program has ended. It is not reaped yet, so its id still names its group.
fn has_ended(child: &Child) -> io::Result<bool> {
    let Some(id) = process_id(child) else {
        return Ok(true);
    };
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    Ok(waitid(WaitId::Pid(id), options)?.is_some())
}

/// Ends the program and its children. An error means that nobody is left, which is what we want.
fn kill_group(child: &Child) {
    if let Some(group) = process_id(child) {
        let _ = kill_process_group(group, Signal::KILL);
    }
}

fn process_id(child: &Child) -> Option<Pid> {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_ends_the_program_and_its_children() {
        let start = Instant::now();
        let result = run_with_deadline(
            Command::new("/bin/sh").args(["-c", "sleep 60 & sleep 60"]),
            Duration::from_millis(200),
        );
        assert!(matches!(result, Err(Failure::Deadline)), "{result:?}");
        assert!(start.elapsed() < Duration::from_secs(5));
    }

    #[test]
    fn a_child_left_behind_does_not_keep_us_waiting() {
        let start = Instant::now();
        let finished = run_with_deadline(
            Command::new("/bin/sh").args(["-c", "sleep 60 & echo out; echo err >&2; exit 3"]),
            Duration::from_secs(30),
        )
        .unwrap();
        assert_eq!(finished.status.code(), Some(3));
        assert_eq!(finished.stdout, b"out\n");
        assert_eq!(finished.stderr, "err\n");
        assert!(start.elapsed() < Duration::from_secs(5));
    }

    #[test]
    fn lines_are_handed_on_as_they_come() {
        let mut lines = Vec::new();
        let (status, kept) = run_and_follow(
            Command::new("/bin/sh").args(["-c", "echo one >&2; echo; echo two >&2"]),
            &mut |line| lines.push(line.to_owned()),
        )
        .unwrap();
        assert!(status.success());
        assert_eq!(lines, ["one", "two"]);
        assert_eq!(kept, "one\ntwo");
    }
}
