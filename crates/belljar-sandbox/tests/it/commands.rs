//! Commands beside cells: programs in a session, with pipes or a terminal.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use belljar_sandbox::{
    Command, CommandEnd, CommandProcess, Error, OutputStream, Session, SessionOptions, TerminalSize,
};

use crate::support::{engine, good, printed, seconds, session};

/// All of its output so far, of one stream.
fn text(command: &CommandProcess, stream: OutputStream) -> String {
    let part = command.output(0, usize::MAX);
    let bytes: Vec<u8> = part
        .chunks
        .into_iter()
        .filter(|chunk| chunk.stream == stream)
        .flat_map(|chunk| chunk.bytes)
        .collect();
    String::from_utf8(bytes).unwrap()
}

/// Waits until its terminal has shown this.
async fn shown(command: &CommandProcess, wanted: &str) {
    let stream = OutputStream::Terminal;
    let seen = async {
        let mut at = 0;
        while !text(command, stream).contains(wanted) && command.end().is_none() {
            at = command.next_output(at, usize::MAX).await.next;
        }
    };
    let in_time = tokio::time::timeout(Duration::from_secs(20), seen).await;
    let shown = text(command, stream);
    assert!(
        in_time.is_ok() && shown.contains(wanted),
        "{wanted:?} in {shown:?}"
    );
}

fn exit(code: i32) -> CommandEnd {
    CommandEnd {
        exit_code: Some(code),
        signal: None,
        timed_out: false,
        lost: None,
    }
}

pub(crate) async fn run(session: &Session, line: &str) -> (CommandEnd, String, String) {
    let command = session.spawn(Command::shell(line)).await.unwrap();
    let end = command.wait().await;
    let streams = [OutputStream::Stdout, OutputStream::Stderr];
    let [stdout, stderr] = streams.map(|stream| text(&command, stream));
    (end, stdout, stderr)
}

/// Output, exit code, files shared with cells, the environment's Python first in `PATH`.
#[tokio::test]
async fn a_command_runs_in_the_sessions_workspace() {
    let session = session().await;
    good(&session, "open('from_cell', 'w').write('cell')").await;
    let (end, stdout, stderr) = run(
        &session,
        "pwd; cat from_cell; echo wrong >&2; echo command > from_command; exit 3",
    )
    .await;
    assert_eq!(end, exit(3));
    assert_eq!(
        (stdout.as_str(), stderr.as_str()),
        ("/workspace\ncell", "wrong\n")
    );
    assert_eq!(
        printed(&session, "print(open('from_command').read())").await,
        "command\n\n"
    );
    let same = printed(&session, "import sys; print(sys.prefix)").await;
    let (end, stdout, _) = run(&session, "python -c 'import sys; print(sys.prefix)'").await;
    assert_eq!((end, stdout), (exit(0), same));
}

/// A command is started and ends while a cell runs, and a hundred of them at once.
#[tokio::test]
async fn a_hundred_commands_run_beside_a_cell() {
    let session = session().await;
    let cell = session.run("import time\nwhile not __import__('os').path.exists('stop'): time.sleep(0.01)\nprint('stopped')");
    let mut commands = Vec::new();
    for number in 0..100 {
        let line = format!("read line; echo {number} $line");
        let command = Command {
            input: true,
            ..Command::shell(line)
        };
        commands.push(session.spawn(command).await.unwrap());
    }
    assert_eq!(session.commands().len(), 100);
    for command in &commands {
        command.write(b"go\n").await.unwrap();
    }
    for (number, command) in commands.iter().enumerate() {
        assert_eq!(command.wait().await, exit(0));
        assert_eq!(
            text(command, OutputStream::Stdout),
            format!("{number} go\n")
        );
    }
    run(&session, "touch stop").await;
    let outcome = cell.await.unwrap();
    assert_eq!(outcome.stdout.text, "stopped\n");
}

/// It outlives the caller that started it, is listed and found again, and is killed with its children.
#[tokio::test]
async fn a_command_is_found_again_and_killed() {
    let session = session().await;
    let pid = session
        .spawn(Command::shell(
            "echo here; sleep 1000 & sleep 1000; echo never",
        ))
        .await
        .unwrap()
        .pid();
    good(&session, "1 + 1").await;
    let command = session.command(pid).unwrap();
    assert_eq!(command.next_output(0, 100).await.chunks[0].bytes, b"here\n");
    command.kill().unwrap();
    let end = command.wait().await;
    assert_eq!((end.exit_code, end.signal), (None, Some(9)));
    let (_, left, _) = run(&session, "cat /proc/[0-9]*/comm").await;
    assert!(!left.contains("sleep"), "{left}");
    assert!(session.command(pid).unwrap().end().is_some());
    assert!(session.command(1).is_none());
}

/// One command signals another: what `pkill` in a shell is for.
#[tokio::test]
async fn one_command_ends_another() {
    let session = session().await;
    let server = session
        .spawn(Command::new(["sleep", "1000"]))
        .await
        .unwrap();
    let (end, _, stderr) = run(&session, &format!("kill {}", server.pid())).await;
    assert_eq!(end, exit(0), "{stderr}");
    assert_eq!(server.wait().await.signal, Some(15));
}

/// As the last command of a shell, `setsid` replaces it; the command is what it runs, and not the shell.
#[tokio::test]
async fn a_command_leads_no_process_group() {
    let session = session().await;
    let (end, stdout, stderr) = run(&session, "setsid sh -c 'sleep 0.2; echo late; exit 5'").await;
    assert_eq!((end, stdout.as_str()), (exit(5), "late\n"), "{stderr}");
    // A signal to its own group reaches neither the command server nor other commands.
    let other = session
        .spawn(Command::new(["sleep", "1000"]))
        .await
        .unwrap();
    let (end, _, _) = run(&session, "kill -KILL 0").await;
    assert_eq!(end.signal, Some(9));
    assert_eq!(other.end(), None);
    assert_eq!(run(&session, "true").await.0, exit(0));
}

/// What is left in the background does not hold up the end of a command for long.
#[tokio::test]
async fn a_background_child_holds_nothing_up() {
    let session = session().await;
    let started = std::time::Instant::now();
    let (end, stdout, _) = run(&session, "sleep 1000 & echo started").await;
    assert_eq!((end, stdout.as_str()), (exit(0), "started\n"));
    assert!(started.elapsed() < Duration::from_secs(10));
}

/// Its time is bounded, and its output is too.
#[tokio::test]
async fn time_and_output_are_bounded() {
    let session = session().await;
    let command = Command {
        timeout: Some(Duration::from_millis(500)),
        ..Command::shell("trap '' TERM; yes")
    };
    let command = session.spawn(command).await.unwrap();
    let end = command.wait().await;
    assert!(end.timed_out && end.exit_code != Some(0), "{end:?}");
    let part = command.output(0, usize::MAX);
    let kept: usize = part.chunks.iter().map(|chunk| chunk.bytes.len()).sum();
    assert!(
        part.lost_bytes > 0 && kept <= 512 << 10,
        "{} {kept}",
        part.lost_bytes
    );
}

/// What can't be started is an error that names it.
#[tokio::test]
async fn a_program_that_is_not_there() {
    let session = session().await;
    for (command, wanted) in [
        (Command::new(["no-such-program"]), "no-such-program"),
        (Command::new(["/workspace"]), "Permission denied"),
        (
            Command {
                directory: Some("nowhere".into()),
                ..Command::new(["true"])
            },
            "/workspace/nowhere",
        ),
        (Command::new([""]), "no program"),
    ] {
        match session.spawn(command).await {
            Err(Error::Command(why)) => assert!(why.contains(wanted), "{why}"),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(run(&session, "true").await.0, exit(0));
}

/// Variables reach the command and nothing else: not the next command, not the interpreter.
#[tokio::test]
async fn variables_are_of_one_command() {
    let session = session().await;
    let command = Command {
        variables: BTreeMap::from([("TOKEN".to_owned(), "s3cret".to_owned())]),
        ..Command::shell("echo $TOKEN")
    };
    let command = session.spawn(command).await.unwrap();
    command.wait().await;
    assert_eq!(text(&command, OutputStream::Stdout), "s3cret\n");
    assert_eq!(run(&session, "echo \"[$TOKEN]\"").await.1, "[]\n");
    assert_eq!(
        printed(&session, "import os; print(os.environ.get('TOKEN'))").await,
        "None\n"
    );
}

/// A shell with a terminal: it is one, has a size, is resized, and Ctrl-C ends a program and not the shell.
#[tokio::test]
async fn a_terminal_is_driven() {
    let session = session().await;
    let command = Command {
        terminal: Some(TerminalSize {
            rows: 30,
            columns: 100,
        }),
        ..Command::new(["/bin/sh"])
    };
    let command = session.spawn(command).await.unwrap();
    command.write(b"stty size; echo $TERM\n").await.unwrap();
    shown(&command, "30 100").await;
    shown(&command, "xterm-256color").await;
    command
        .resize(TerminalSize {
            rows: 10,
            columns: 40,
        })
        .unwrap();
    command.write(b"stty size\n").await.unwrap();
    shown(&command, "10 40").await;
    command
        .write(b"echo begin; sleep 1000; echo n''ever\n")
        .await
        .unwrap();
    shown(&command, "begin\r\n").await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    command.write(b"\x03").await.unwrap();
    command
        .write(b"echo st''ill; true < /dev/tty && echo tt''y\n")
        .await
        .unwrap();
    shown(&command, "still").await;
    shown(&command, "tty").await;
    assert!(!text(&command, OutputStream::Terminal).contains("never"));
    command.close_input().await.unwrap();
    command.wait().await;
}

/// No key can be typed into a terminal from inside (TIOCSTI), by which a program could command what runs there.
#[tokio::test]
async fn no_keys_are_typed_into_a_terminal() {
    let session = session().await;
    let code = "import fcntl\ntry:\n    fcntl.ioctl(0, 0x5412, b'x')\nexcept OSError as error:\n    print('refused', error.errno)";
    let command = Command {
        terminal: Some(TerminalSize::default()),
        ..Command::new(["python", "-c", code])
    };
    let command = session.spawn(command).await.unwrap();
    command.wait().await;
    let shown = text(&command, OutputStream::Terminal);
    assert_eq!(shown, "refused 25\r\n");
}

/// A command is within the session's limits: memory, processes, walls.
#[tokio::test]
async fn a_command_is_within_the_sessions_limits() {
    let session = engine()
        .session_with(belljar_sandbox::Limits {
            memory_bytes: 256 << 20,
            processes: 40,
            ..belljar_sandbox::Limits::default()
        })
        .await
        .unwrap();
    let (end, _, _) = run(&session, "python -c 'x = bytearray(400 << 20)'").await;
    assert_ne!(end, exit(0));
    let (_, stdout, _) = run(
        &session,
        "for i in $(seq 100); do sleep 5 & done 2>/dev/null; cat /proc/[0-9]*/comm | grep -c sleep",
    )
    .await;
    let live: u32 = stdout.trim().parse().unwrap_or(0);
    assert!(live < 40, "{live}");
    good(&session, "1 + 1").await;
}

/// The end of a session, its hibernation and a restored checkpoint end its commands, and say so.
#[tokio::test]
async fn commands_end_with_what_they_run_in() {
    let session = engine()
        .session_with(SessionOptions::default())
        .await
        .unwrap();
    let sleep = || session.spawn(Command::new(["sleep", "1000"]));
    let command = sleep().await.unwrap();
    session.hibernate().await.unwrap();
    assert!(command.wait().await.lost.is_some());
    assert!(session.commands().is_empty());
    // The next one wakes it.
    let command = sleep().await.unwrap();
    good(&session, "x = 1").await;
    tokio::time::sleep(seconds(0.3)).await;
    session.run("import os; os.abort()").await.unwrap();
    assert!(command.wait().await.lost.is_some());
    assert_eq!(printed(&session, "print(x)").await, "1\n");
    let command = sleep().await.unwrap();
    session.close().await.unwrap();
    assert!(command.wait().await.lost.is_some());
}

/// Commands of a fork see the fork's files, and not those of its parent.
#[tokio::test]
async fn commands_of_a_fork() {
    let session = session().await;
    good(&session, "open('name', 'w').write('parent')").await;
    let forks = session.fork(1).await.unwrap();
    let fork = &forks[0];
    good(fork, "open('name', 'w').write('fork')").await;
    assert_eq!(run(&session, "cat name").await.1, "parent");
    assert_eq!(run(fork, "cat name").await.1, "fork");
    let (end, stdout, _) = run(fork, "cat /workspace/name").await;
    assert_ne!((end.exit_code, stdout.as_str()), (Some(0), "parent"));
}

/// An idle session with a running command does not hibernate.
#[tokio::test]
async fn a_command_keeps_its_session_awake() {
    let options = SessionOptions {
        hibernate_after: Some(seconds(1.0)),
        ..SessionOptions::default()
    };
    let session = engine().session_with(options).await.unwrap();
    let command: Arc<CommandProcess> = session
        .spawn(Command::shell("sleep 3; echo done"))
        .await
        .unwrap();
    assert_eq!(command.wait().await, exit(0));
    assert_eq!(text(&command, OutputStream::Stdout), "done\n");
    assert!(!session.is_hibernated());
}

/// A command costs little more than fork and exec of the same program by a shell that is there already. `belljar bench`
/// has the figure of a release build; here nothing is optimised.
#[tokio::test(flavor = "multi_thread")]
async fn heavy_the_round_trip_of_a_command() {
    let session = session().await;
    let shell = Command {
        input: true,
        ..Command::shell("while read line; do /bin/true; echo ok; done")
    };
    let shell = session.spawn(shell).await.unwrap();
    let (mut ours, mut bare, mut place) = (Vec::new(), Vec::new(), 0);
    for _ in 0..200 {
        let started = std::time::Instant::now();
        shell.write(b"\n").await.unwrap();
        place = shell.next_output(place, usize::MAX).await.next;
        bare.push(started.elapsed());
        let started = std::time::Instant::now();
        let command = session.spawn(Command::new(["/bin/true"])).await.unwrap();
        assert_eq!(command.wait().await, exit(0));
        ours.push(started.elapsed());
    }
    ours.sort_unstable();
    bare.sort_unstable();
    let ratio = ours[100].as_secs_f64() / bare[100].as_secs_f64();
    println!("{:?} {:?} {ratio:.2}", ours[100], bare[100]);
    assert!(
        ratio < 6.0,
        "{ratio:.2}: {:?} and {:?}",
        ours[100],
        bare[100]
    );
}

/// A paced command waits for whoever reads, also with its end; without a reader it stops as soon as its pipe is full.
#[tokio::test]
async fn waits_nothing_of_a_paced_command_is_lost() {
    const BYTES: usize = 3_000_000;
    let session = session().await;
    let command = Command {
        paced: true,
        ..Command::shell(format!("head -c {BYTES} /dev/zero"))
    };
    let command = session.spawn(command).await.unwrap();
    let (mut at, mut read) = (0, 0);
    loop {
        let part = command.next_output(at, usize::MAX).await;
        assert_eq!(part.lost_bytes, 0);
        if part.chunks.is_empty() {
            break;
        }
        let lengths = part.chunks.iter().map(|chunk| chunk.bytes.len());
        read += lengths.sum::<usize>();
        at = part.next;
        if !(100_000..=BYTES - 50_000).contains(&read) {
            // Longer than the output of a program that has ended is otherwise read.
            tokio::time::sleep(Duration::from_millis(1200)).await;
        }
    }
    assert_eq!((read, command.wait().await), (BYTES, exit(0)));
    // A session that ends does not wait for a reader.
    let unread = Command {
        paced: true,
        ..Command::shell("head -c 100000 /dev/zero; sleep 1000")
    };
    let unread = session.spawn(unread).await.unwrap();
    session.close().await.unwrap();
    let end = tokio::time::timeout(Duration::from_secs(20), unread.wait()).await;
    assert_eq!(end.unwrap().exit_code, None);
}
