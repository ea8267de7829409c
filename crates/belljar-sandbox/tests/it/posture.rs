//! G17: what a session's processes are to the kernel, compared with a golden description. A
//! difference is a change of the walls: it is explained in the change that makes it, or is a bug.

use std::collections::BTreeSet;

use belljar_sandbox::protocol::Fate;
use belljar_sandbox::{Checkpoints, Command, Session, SessionOptions, TerminalSize};

use crate::support::{data_engine, engine, good, inits, is_possible, printed};

pub(crate) const POSTURE: &str = include_str!("posture.py");
pub(crate) const GOLDEN: &str = include_str!("posture.golden");
/// The mounts, which a session does not see the list of.
const MOUNTS: &str = include_str!("mounts.golden");

/// The lines that this host can have: one kernel has files in `/proc` that another has not.
pub(crate) fn lines(text: &str) -> BTreeSet<&str> {
    text.lines().filter(|line| is_possible(line)).collect()
}

/// The mounts of this process's sessions, as the host sees them. One line a kind of mount: how many files of the host
/// are shown differs between hosts.
fn mounts() -> BTreeSet<String> {
    let mut mounts = BTreeSet::new();
    let inits = inits();
    assert!(!inits.is_empty());
    for init in inits {
        let text = std::fs::read_to_string(format!("/proc/{init}/mountinfo")).unwrap();
        let fields = |line| -> Vec<&str> { str::split(line, ' ').collect() };
        let all: Vec<Vec<&str>> = text.lines().map(fields).collect();
        for line in text.lines() {
            let (_, after) = line.split_once(" - ").unwrap();
            let fields = fields(line);
            let (parent, place, options) = (fields[1], fields[4], fields[5]);
            // Another mount lies above it: `binfmt_misc` of the host, in the `/proc` below ours.
            let covers = |other: &Vec<&str>| {
                let rest = place.strip_prefix(other[4]);
                other[1] == parent && rest.is_some_and(|rest| rest.starts_with('/'))
            };
            if all.iter().any(covers) {
                continue;
            }
            let known = ["ro", "rw", "nosuid", "nodev", "noexec"];
            let flags: Vec<&str> = options.split(',').filter(|o| known.contains(o)).collect();
            let flags = flags.join(",");
            let is_below = |top: &&str| place.starts_with(top);
            let own = ["/tmp", "/dev", "/proc", "/workspace", "/home", "/forks"];
            mounts.insert(if place != "/" && !own.iter().any(is_below) {
                let sealed = flags.starts_with("ro,nosuid,nodev");
                let what = if sealed { "read-only" } else { line };
                format!("mounts of the host: {what}")
            } else if ["/dev/", "/proc/"].iter().any(is_below) && place != "/dev/shm" {
                format!("mount {place} {flags}")
            } else {
                let kind = after.split(' ').next().unwrap();
                format!("mount {place} {flags} {kind}")
            });
        }
    }
    mounts
}

fn assert_mounts(more: &[&str]) {
    let found = mounts();
    let found: BTreeSet<&str> = found.iter().map(String::as_str).collect();
    let mut golden = lines(MOUNTS);
    golden.extend(more);
    assert_eq!(found, golden);
}

async fn assert_golden(session: &Session, code: &str) {
    assert_posture(session, code, lines(GOLDEN)).await;
    assert_mounts(&[]);
}

async fn assert_posture(session: &Session, code: &str, golden: BTreeSet<&str>) {
    good(session, POSTURE).await;
    let found = printed(session, code).await;
    let found = lines(&found);
    let missing: Vec<_> = golden.difference(&found).collect();
    let added: Vec<_> = found.difference(&golden).collect();
    assert!(
        missing.is_empty() && added.is_empty(),
        "not there any more: {missing:#?}\nnew: {added:#?}"
    );
}

/// After the start, with new threads, and in a child, which has no
/// channel to the host.
#[tokio::test]
async fn g17_posture_is_golden() {
    let session = engine().session().await.unwrap();
    assert_golden(&session, "print(posture())").await;
    let threads = "import threading\nstop = threading.Event()\n\
        others = [threading.Thread(target=stop.wait) for _ in range(8)]\n\
        for thread in others: thread.start()\n\
        print(posture())\nstop.set()";
    assert_golden(&session, threads).await;
    let child = "if os.fork() == 0:\n    text = posture()\n    open('p', 'w').write(text)\n    \
        os._exit(0)\n_ = os.wait()\nprint(open('p').read())";
    let mut golden = lines(GOLDEN);
    golden.retain(|line| !line.starts_with("descriptor 3 ") && !line.starts_with("descriptor 4 "));
    assert_posture(&session, child, golden).await;
}

/// After a thousand sessions of the same template, and with the data stack in it.
#[tokio::test(flavor = "multi_thread")]
async fn g17_posture_after_a_thousand_forks() {
    let engine = engine();
    for _ in 0..1000 {
        engine.session().await.unwrap().close().await.unwrap();
    }
    for engine in [engine, data_engine()] {
        let session = engine.session().await.unwrap();
        assert_golden(&session, "print(posture())").await;
    }
}

/// A fork, a fork of a fork, and the same restored. They differ in where they work, and in their cgroup, which is
/// beside the one that the namespace group's cgroup namespace starts at.
#[tokio::test(flavor = "multi_thread")]
async fn g17_posture_of_forks() {
    let options = SessionOptions {
        checkpoints: Checkpoints::Every,
        ..SessionOptions::default()
    };
    let session = engine().session_with(options).await.unwrap();
    good(&session, "import os").await;
    let fork = session.fork(1).await.unwrap().remove(0);
    let deep = fork.fork(1).await.unwrap().remove(0);
    assert_mounts(&[
        "mount /forks/1 ro,nosuid,nodev tmpfs",
        "mount /forks/1/workspace rw,nosuid,nodev tmpfs",
        "mount /forks/1/2 ro,nosuid,nodev tmpfs",
        "mount /forks/1/2/workspace rw,nosuid,nodev tmpfs",
    ]);
    for restored in [false, true] {
        for (fork, place) in [
            (&fork, "directory /forks/1/workspace root /"),
            (&deep, "directory /forks/1/2/workspace root /"),
        ] {
            if restored {
                let outcome = fork.run("os.abort()").await.unwrap();
                assert!(
                    matches!(outcome.state, Fate::Restored { .. }),
                    "{outcome:#?}"
                );
            }
            let cgroup = format!("cgroup /../{}", fork.id());
            let mut golden = lines(GOLDEN);
            assert!(golden.remove("directory /workspace root /") && golden.remove("cgroup"));
            golden.extend([place, &cgroup]);
            assert_posture(fork, "print(posture())", golden).await;
        }
    }
    assert_posture(&session, "print(posture())", lines(GOLDEN)).await;
}

/// A command, also one with a terminal, is to the kernel what a cell is, but for its descriptors and its variables.
#[tokio::test]
async fn g17_posture_of_commands() {
    let session = engine().session().await.unwrap();
    session.put("posture.py", POSTURE.as_bytes()).unwrap();
    let code = "from posture import posture; text = posture(); open('found', 'w').write(text)";
    let of_cells = |line: &&str| !line.starts_with("descriptor ") && !line.starts_with("variable ");
    for terminal in [None, Some(TerminalSize::default())] {
        let command = Command {
            terminal,
            ..Command::new(["python", "-c", code])
        };
        let command = session.spawn(command).await.unwrap();
        let end = command.wait().await;
        let output = command.output(0, usize::MAX);
        assert_eq!(end.exit_code, Some(0), "{output:?}");
        let found = String::from_utf8(session.get("found").unwrap()).unwrap();
        let (found, mut golden) = (lines(&found), lines(GOLDEN));
        let mut others: Vec<&str> = found.difference(&golden).copied().collect();
        others.retain(|line| of_cells(line) && !line.starts_with("terminal "));
        golden.retain(|line| of_cells(line) && !line.starts_with("terminal "));
        let missing: Vec<_> = golden.difference(&found).collect();
        assert!(
            others.is_empty() && missing.is_empty(),
            "new: {others:#?}\nnot there: {missing:#?}"
        );
        let with = |start: &str| {
            let found = found.iter().filter(|line| line.starts_with(start));
            found.copied().collect::<Vec<_>>()
        };
        let descriptors = with("descriptor ");
        let opens = with("terminal ");
        if terminal.is_some() {
            let own = |line: &&str| line.ends_with(" /dev/pts/N");
            assert_eq!(descriptors.iter().filter(|line| own(line)).count(), 3);
            assert_eq!(opens, ["terminal 3"]);
        } else {
            let pipes = [
                "descriptor 0 /dev/null",
                "descriptor 1 pipe:[N]",
                "descriptor 2 pipe:[N]",
            ];
            assert_eq!(descriptors, pipes);
            assert_eq!(opens, ["terminal No such device or address"]);
        }
    }
}
