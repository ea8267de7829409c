//! O: commands, and terminals.

use std::time::Duration;

use belljar_sandbox::{Command, CommandEnd, Error, Limits, OutputStream, Session, TerminalSize};

use crate::harness::{Case, Severity};
use crate::support::{eventually, processes_below};

/// Runs a command to its end; its output is searched for canaries.
async fn run(case: &Case, session: &Session, command: Command) -> (CommandEnd, String) {
    let what = format!("{:?}", command.argv);
    let command = session.spawn(command).await.unwrap();
    let end = command.wait().await;
    let part = command.output(0, usize::MAX);
    let bytes: Vec<u8> = part.chunks.into_iter().flat_map(|one| one.bytes).collect();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    case.search(&what, &text);
    (end, text)
}

async fn shell(case: &Case, session: &Session, line: &str) -> String {
    run(case, session, Command::shell(line)).await.1
}

fn python(code: &str) -> Command {
    Command::new(["python", "-c", code])
}

fn with_terminal(command: Command) -> Command {
    Command {
        terminal: Some(TerminalSize::default()),
        ..command
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn o1_a_fork_bomb_as_a_command() {
    let case = Case::begin(
        "O1",
        Severity::PeerDos,
        "a command that forks without end",
        "refused at the session's limit; the session answers; killing the session leaves nothing",
    )
    .await;
    let session = case
        .session_with(Limits {
            processes: 60,
            ..Limits::default()
        })
        .await;
    let bomb = "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass";
    let bomb = Command {
        timeout: Some(Duration::from_secs(2)),
        ..python(bomb)
    };
    let watch = case.watch_sibling();
    session.spawn(bomb).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(case.members(&session).len() <= 62);
    assert_eq!(case.printed(&session, "print(6 * 7)").await, "42\n");
    watch.finish().await;
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn o2_memory_of_a_command() {
    let case = Case::begin(
        "O2",
        Severity::PeerDos,
        "a command that takes more memory than its session has, in its heap and in /dev/shm",
        "the command is ended or refused; the limit is the session's, not one of its own",
    )
    .await;
    let session = case
        .session_with(Limits {
            memory_bytes: 256 << 20,
            ..Limits::default()
        })
        .await;
    let (end, _) = run(&case, &session, python("x = b'x' * (400 << 20)")).await;
    assert_ne!(end.exit_code, Some(0));
    let line = "head -c 400000000 /dev/zero > /dev/shm/fill; sleep 1";
    let (end, _) = run(&case, &session, Command::shell(line)).await;
    let _ = end;
    let used = session.in_use().and_then(|used| used.memory_bytes);
    assert!(used.is_none_or(|used| used <= 256 << 20), "{used:?}");
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn o3_output_without_end() {
    let case = Case::begin(
        "O3",
        Severity::HostDos,
        "20 commands that write without end, whose output nobody reads",
        "the host keeps the newest half megabyte of each; siblings answer as before",
    )
    .await;
    let session = case.session().await;
    let before = crate::support::resident();
    let watch = case.watch_sibling();
    let mut commands = Vec::new();
    for _ in 0..20 {
        let flood = Command {
            timeout: Some(Duration::from_secs(2)),
            ..Command::new(["yes"])
        };
        commands.push(session.spawn(flood).await.unwrap());
    }
    for command in commands {
        command.wait().await;
        let part = command.output(0, usize::MAX);
        let kept: usize = part.chunks.iter().map(|chunk| chunk.bytes.len()).sum();
        assert!(kept <= 512 << 10, "{kept}");
    }
    watch.finish().await;
    let grown = crate::support::resident().saturating_sub(before);
    assert!(grown < 64 << 20, "{grown}");
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn o4_more_commands_than_a_session_may_have() {
    let case = Case::begin(
        "O4",
        Severity::HostDos,
        "200 commands that stay",
        "128 run, or as many as the session's processes allow; the others are refused; nothing is left",
    )
    .await;
    let session = case
        .session_with(Limits {
            processes: 400,
            ..Limits::default()
        })
        .await;
    let (mut running, mut refused) = (0, 0);
    for _ in 0..200 {
        match session.spawn(Command::new(["sleep", "1000"])).await {
            Ok(_) => running += 1,
            Err(Error::Command(_)) => refused += 1,
            Err(other) => panic!("{other:?}"),
        }
    }
    assert_eq!((running, refused), (128, 72));
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn o5_the_command_server_is_killed() {
    let case = Case::begin(
        "O5",
        Severity::SelfDos,
        "SIGKILL and SIGSTOP to the session's command server, from a cell and from a command",
        "refused, or its commands are reported as lost; the next command works",
    )
    .await;
    let session = case.session().await;
    let sleeping = session
        .spawn(Command::new(["sleep", "1000"]))
        .await
        .unwrap();
    let kill = "import os\nfor pid in [int(p) for p in os.listdir('/proc') if p.isdigit()]:\n    try: name = open(f'/proc/{pid}/comm').read()\n    except OSError: continue\n    if name == 'belljar-command\\n':\n        try: os.kill(pid, 9); print('killed')\n        except OSError as error: print(error.strerror)";
    case.outcome(&session, kill).await;
    let (_, text) = run(&case, &session, python(kill)).await;
    let _ = text;
    let (end, text) = run(&case, &session, Command::shell("echo works")).await;
    assert_eq!((end.exit_code, text.as_str()), (Some(0), "works\n"));
    let _ = sleeping.kill();
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn o6_the_command_server_is_looked_into() {
    let case = Case::begin(
        "O6",
        Severity::InternalEsc,
        "memory, descriptors, environment and ptrace of the command server, from a cell and from a command",
        "refused, or it is not seen at all",
    )
    .await;
    let session = case.session().await;
    shell(&case, &session, "true").await;
    let look = r#"
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
found = set()
for pid in [int(p) for p in os.listdir("/proc") if p.isdigit()]:
    try: name = open(f"/proc/{pid}/comm").read()
    except OSError: continue
    if name != "belljar-command\n": continue
    for what in ("mem", "maps", "environ", "fd", "ns/mnt", "root", "cwd", "exe", "auxv", "syscall"):
        try:
            path = f"/proc/{pid}/{what}"
            os.listdir(path) if what == "fd" else os.readlink(path) if what in ("ns/mnt", "root", "cwd", "exe") else open(path, "rb").read(1)
            found.add(what)
        except OSError: pass
    if libc.ptrace(16, pid, 0, 0) == 0: found.add("ptrace")
print(sorted(found))
"#;
    assert_eq!(case.printed(&session, look).await, "[]\n");
    let (_, text) = run(&case, &session, python(look)).await;
    assert_eq!(text, "[]\n");
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn o7_what_a_command_inherits() {
    let case = Case::begin(
        "O7",
        Severity::HostLeak,
        "descriptors, variables and memory that a command has from the processes that started it",
        "three descriptors, its own variables, and no memory but its own",
    )
    .await;
    let session = case.session().await;
    let text = shell(&case, &session, "for f in /proc/self/fd/*; do echo ${f##*/}; done; env -0 | tr '\\0' '\\n' | cut -d= -f1 | sort | tr '\\n' ' '").await;
    let wanted = "HOME LANG LC_ALL LOGNAME MKL_NUM_THREADS OMP_NUM_THREADS OPENBLAS_NUM_THREADS PATH PWD PYTHONDONTWRITEBYTECODE SHELL TERM TMPDIR USER";
    let (descriptors, variables) = text.rsplit_once('\n').unwrap();
    // One more is the directory that the shell reads.
    assert_eq!(descriptors, "0\n1\n2\n3", "{text}");
    let variables: Vec<&str> = variables
        .split_whitespace()
        .filter(|name| !["OLDPWD", "_"].contains(name))
        .collect();
    assert_eq!(variables.join(" "), wanted);
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn o8_variables_of_another_command() {
    let case = Case::begin(
        "O8",
        Severity::Lateral,
        "a secret among the variables of one command: searched for in the memory of the next, of the interpreter, and in /proc",
        "seen nowhere after its command has ended",
    )
    .await;
    let session = case.session().await;
    let secret = "o8-7f3a91c2-secret";
    let mut command = Command::shell("test -n \"$TOKEN\"");
    command.variables.insert("TOKEN".into(), secret.into());
    assert_eq!(run(&case, &session, command).await.0.exit_code, Some(0));
    // In two parts that are never joined, so that the search does not find itself.
    let search = r#"
import os
first, second = b"o8-7f3a9", b"1c2-secret"
def is_in(text):
    at = text.find(first)
    while at >= 0:
        if text[at + len(first):at + len(first) + len(second)] == second: return True
        at = text.find(first, at + 1)
    return False
found = []
for pid in ["self", *(p for p in os.listdir("/proc") if p.isdigit())]:
    try:
        for line in open(f"/proc/{pid}/maps"):
            area, mode, *_ = line.split()
            if mode[0] != "r" or "[v" in line: continue
            start, end = (int(part, 16) for part in area.split("-"))
            with open(f"/proc/{pid}/mem", "rb", 0) as memory:
                memory.seek(start)
                try: text = memory.read(min(end - start, 64 << 20))
                except OSError: continue
            if is_in(text): found.append((pid, line))
    except OSError: pass
    try:
        if is_in(open(f"/proc/{pid}/environ", "rb").read()): found.append((pid, "environ"))
    except OSError: pass
print(found)
"#;
    assert_eq!(case.printed(&session, search).await, "[]\n");
    let (_, text) = run(&case, &session, python(search)).await;
    assert_eq!(text, "[]\n");
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn o9_signals_of_a_command() {
    let case = Case::begin(
        "O9",
        Severity::Lateral,
        "kill(0), kill(-1), kill(1) and killpg from commands",
        "init, the template, the spawner and other sessions live; only the session's own processes get signals",
    )
    .await;
    let session = case.session().await;
    let before = processes_below(std::process::id()).len();
    shell(&case, &session, "kill -KILL 0").await;
    shell(&case, &session, "kill -KILL 1; kill -STOP 1").await;
    assert_eq!(case.printed(&session, "print(6 * 7)").await, "42\n");
    shell(&case, &session, "kill -KILL -1").await;
    let text = shell(&case, &session, "echo works").await;
    assert_eq!(text, "works\n");
    assert!(processes_below(std::process::id()).len() + 3 >= before);
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn o10_what_a_terminal_is_asked() {
    let case = Case::begin(
        "O10",
        Severity::InternalEsc,
        "TIOCSTI, TIOCLINUX, TIOCSETD, TIOCCONS, TIOCSSERIAL, TIOCPKT, KDSETMODE on the terminal of a command",
        "ENOTTY for all: no keys are typed, no line discipline is chosen",
    )
    .await;
    let session = case.session().await;
    let code = "import fcntl\nfor request in (0x5412, 0x541c, 0x5423, 0x541d, 0x541f, 0x5420, 0x4b3a):\n    try: fcntl.ioctl(0, request, b'\\x02' * 64); print(hex(request), 'done')\n    except OSError as error: print(error.errno, end=' ')";
    let (_, text) = run(&case, &session, with_terminal(python(code))).await;
    assert_eq!(text, "25 25 25 25 25 25 25 ");
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn o11_terminals_of_the_host() {
    let case = Case::begin(
        "O11",
        Severity::HostLeak,
        "/dev/tty, /dev/pts, /dev/ptmx, /dev/console and the terminal's own descriptor opened again, from a command with a terminal and from a cell",
        "a command reaches its own terminal and none of the host's; a cell none",
    )
    .await;
    let session = case.session().await;
    let code = "import os\nfor path in ('/dev/tty', '/dev/pts/0', '/dev/ptmx', '/dev/console', '/dev/tty0', '/dev/vcs'):\n    try: os.open(path, os.O_RDWR); print(path, 'opened')\n    except OSError: pass\nprint('end')";
    assert_eq!(case.printed(&session, code).await, "end\n");
    let (_, text) = run(&case, &session, with_terminal(python(code))).await;
    assert_eq!(text, "/dev/tty opened\r\nend\r\n");
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn o12_a_command_attacks_the_kernel() {
    let case = Case::begin(
        "O12",
        Severity::Escape,
        "unshare, setns, mount, ptrace of init, keyctl, bpf, io_uring_setup, userfaultfd and raw sockets from commands, with a terminal and without",
        "refused, as in a cell",
    )
    .await;
    let session = case.session().await;
    let code = "import ctypes, socket\nlibc = ctypes.CDLL(None, use_errno=True)\nimport platform\ncalls = {'x86_64': (272, 308, 165, 101, 250, 321, 425, 323), 'aarch64': (97, 268, 40, 117, 219, 280, 425, 282)}[platform.machine()]\nrefused = [libc.syscall(number, 0x10000000, 0, 0, 0, 0) < 0 for number in calls]\ntry: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1); refused.append(False)\nexcept OSError: refused.append(True)\nprint(all(refused), len(refused))";
    for command in [python(code), with_terminal(python(code))] {
        let (_, text) = run(&case, &session, command).await;
        assert_eq!(text.trim_end(), "True 9");
    }
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn o13_files_of_the_host() {
    let case = Case::begin(
        "O13",
        Severity::HostLeak,
        "a file of the host, /proc/1/root, the list of mounts and the cgroup, read by commands; the read-only parts of the root written",
        "the file is not there; the rest is empty or refused",
    )
    .await;
    let session = case.session().await;
    let file = case.canaries.file.display().to_string();
    let line = format!(
        "cat {file} /proc/1/root{file} /proc/1/environ /proc/1/cmdline 2>/dev/null; cat /proc/self/mounts /proc/self/mountinfo; cat /proc/self/cgroup | cut -d: -f3 | sort -u; for f in /etc/x /usr/x /opt/x /x /home/x; do touch $f 2>/dev/null && echo wrote $f; done; echo end"
    );
    let text = shell(&case, &session, &line).await;
    assert_eq!(text, "/\nend\n");
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn o14_what_outlives_a_command() {
    let case = Case::begin(
        "O14",
        Severity::SelfDos,
        "a command that leaves daemons behind: double fork, setsid, nohup, ignored signals",
        "the command ends; the daemons are within the session's limits and end with it",
    )
    .await;
    let session = case.session().await;
    let line = "for i in 1 2 3; do setsid nohup sh -c \"trap '' TERM HUP INT; sleep 1000\" >/dev/null 2>&1 & done; echo started";
    let text = shell(&case, &session, line).await;
    assert_eq!(text, "started\n");
    assert!(case.members(&session).len() >= 4);
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn o15_a_terminal_that_nobody_reads() {
    let case = Case::begin(
        "O15",
        Severity::HostDos,
        "a terminal that is flooded from inside, and written to from outside without being read",
        "the host keeps reading; a write waits, and ends with the command",
    )
    .await;
    let session = case.session().await;
    let flood = session
        .spawn(with_terminal(Command::new(["yes"])))
        .await
        .unwrap();
    let deaf = session
        .spawn(with_terminal(python(
            "import time, tty; tty.setraw(0); time.sleep(1000)",
        )))
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    let bytes = vec![b'x'; 1 << 20];
    let writing = tokio::time::timeout(Duration::from_secs(2), deaf.write(&bytes)).await;
    assert!(writing.is_err(), "a megabyte that nobody reads was taken");
    eventually("more of the flood than is kept", || {
        flood.output(0, 10).lost_bytes > 0
    })
    .await;
    for command in [&flood, &deaf] {
        command.kill().unwrap();
        assert!(command.wait().await.exit_code.is_none());
    }
    assert_eq!(flood.output(0, 10).chunks[0].stream, OutputStream::Terminal);
    eventually("the commands are gone", || {
        case.members(&session).len() <= 5
    })
    .await;
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn o16_arguments_that_no_kernel_takes() {
    let case = Case::begin(
        "O16",
        Severity::SelfDos,
        "NUL characters, half a megabyte of arguments, empty names, directories outside, programs that are no programs",
        "an error that names the reason; the next command works",
    )
    .await;
    let session = case.session().await;
    session.put("text", b"not a program").unwrap();
    for command in [
        Command::new(["a\0b"]),
        Command::new(["echo".to_owned(), "x".repeat(600 << 10)]),
        Command::new(["echo".to_owned(), "x".repeat(200 << 10)]),
        Command::new(["./text"]),
        Command {
            directory: Some("/proc/1/root".into()),
            ..Command::new(["true"])
        },
    ] {
        match session.spawn(command).await {
            Err(Error::Command(why)) => assert!(!why.is_empty()),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(shell(&case, &session, "echo works").await, "works\n");
    case.end([session]).await;
}
