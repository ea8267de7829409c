//! B: time, and ends that must come.

use std::time::Instant;

use belljar_sandbox::protocol::{Cause, Event, Fate, Status};
use belljar_sandbox::{Error, Limits};

use crate::harness::{Case, Severity};
use crate::support::{Stopwatch, eventually, seconds, timed};

fn impatient() -> Limits {
    Limits {
        grace: seconds(0.2),
        ..Limits::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn b1_endless_loop() {
    let case = Case::begin(
        "B1",
        Severity::SelfDos,
        "while True: pass",
        "interrupted at its time; variables are kept",
    )
    .await;
    let session = case.session_with(impatient()).await;
    case.printed(&session, "x = 'before'").await;
    let outcome = case
        .fails(&session, timed("while True: pass", seconds(0.3)))
        .await;
    assert_eq!(outcome.status, Status::Timeout, "{outcome:?}");
    assert_eq!(outcome.cause, Cause::WallTime { limit_ms: 300 });
    assert_eq!(outcome.state, Fate::Kept);
    assert_eq!(case.printed(&session, "print(x)").await, "before\n");
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b2_deaf_to_interrupts() {
    let case = Case::begin(
        "B2",
        Severity::SelfDos,
        "sum(itertools.repeat(1)); deque(count(), maxlen=0)",
        "ended at its time and the grace; the session is lost",
    )
    .await;
    let mut sessions = Vec::new();
    for code in [
        "import itertools; sum(itertools.repeat(1))",
        "import collections, itertools; collections.deque(itertools.count(), maxlen=0)",
    ] {
        let session = case.session_with(impatient()).await;
        let outcome = case.fails(&session, timed(code, seconds(0.2))).await;
        assert_eq!(
            outcome.cause,
            Cause::WallTime { limit_ms: 200 },
            "{outcome:?}"
        );
        assert_eq!(outcome.state, Fate::Lost);
        assert!(outcome.durations.total_us < 2_000_000, "{outcome:?}");
        let next = case.run(&session, "1").await;
        assert!(matches!(next, Err(Error::Ended(_))), "{next:?}");
        sessions.push(session);
    }
    case.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b5_daemon() {
    let case = Case::begin(
        "B5",
        Severity::PeerDos,
        "a daemon by double fork that writes a file for ever",
        "it runs until its session ends, and dies with it",
    )
    .await;
    let session = case.session().await;
    let daemon = "import os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n        while 1:\n            with open('alive', 'a') as f: f.write('x')\n            time.sleep(0.02)\n    os._exit(0)\nos.wait()";
    case.printed(&session, daemon).await;
    let grows = "size = os.path.getsize('alive') if os.path.exists('alive') else 0\ntime.sleep(0.2)\nprint(os.path.getsize('alive') > size)";
    assert_eq!(case.printed(&session, grows).await, "True\n");
    assert_eq!(case.members(&session).len(), 2);
    // The oracle looks for it once the session is closed.
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b3_refuses_interrupts() {
    let case = Case::begin(
        "B3",
        Severity::SelfDos,
        "SIG_IGN; a handler of its own; a blocked signal; except BaseException: continue",
        "ended at its time and the grace; the session is lost",
    )
    .await;
    let mut sessions = Vec::new();
    for code in [
        "signal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: time.sleep(0.01)",
        "signal.signal(signal.SIGINT, lambda *_: None)\nwhile True: time.sleep(0.01)",
        "signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))\nwhile True: time.sleep(0.01)",
        r"
while True:
    try:
        while True: time.sleep(0.01)
    except BaseException:
        continue
",
    ] {
        let session = case.session_with(impatient()).await;
        let code = format!("import signal, time\n{code}");
        let outcome = case.fails(&session, timed(&code, seconds(0.1))).await;
        let limit_ms = 100;
        assert_eq!(outcome.cause, Cause::WallTime { limit_ms }, "{outcome:?}");
        assert_eq!(
            (outcome.status, outcome.state),
            (Status::Timeout, Fate::Lost)
        );
        sessions.push(session);
    }
    case.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b4_hides_from_signals() {
    let case = Case::begin(
        "B4",
        Severity::PeerDos,
        "processes that ignore all signals, give up PDEATHSIG, and lead sessions and groups of their own",
        "all of them end with the session",
    )
    .await;
    let session = case.session().await;
    let code = r"
import ctypes, os, signal, time
libc = ctypes.CDLL(None)
read, write = os.pipe()
for _ in range(5):
    if os.fork() == 0:
        for number in range(1, 65):
            try: signal.signal(number, signal.SIG_IGN)
            except (OSError, ValueError): pass
        libc.prctl(1, 0)
        os.setsid()
        if os.fork() == 0:
            os.setpgid(0, 0)
        os.write(write, b'.')
        while True: time.sleep(100)
ready = 0
while ready < 10:
    ready += len(os.read(read, 10))
print(ready)
";
    assert_eq!(case.printed(&session, code).await, "10\n");
    assert_eq!(case.members(&session).len(), 11);
    // The oracle looks for them once the session is closed.
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn heavy_b6_forks_while_it_is_killed() {
    let case = Case::begin(
        "B6",
        Severity::PeerDos,
        "processes that fork without pause, and vanish behind their children, while their session is closed; 200 times",
        "nothing is left of any of them",
    )
    .await;
    let limits = Limits {
        processes: 24,
        ..Limits::default()
    };
    // One line of processes, each of which ends once it has a child, and a crowd.
    let code = r"
import os
for alone in (True, False):
    if os.fork() == 0:
        while True:
            try:
                if os.fork() and alone:
                    os._exit(0)
            except BlockingIOError:
                pass
";
    let started = Stopwatch::start();
    let mut sessions = 0;
    while sessions < 200 && started.elapsed() < seconds(10.0) {
        let session = case.session_with(limits.clone()).await;
        case.printed(&session, code).await;
        session.close().await.unwrap();
        sessions += 1;
    }
    assert!(sessions >= 50, "{sessions}");
    // The oracle looks for each.
    case.end([]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b7_blocked() {
    let case = Case::begin(
        "B7",
        Severity::SelfDos,
        "read(0); blocked for ever in a sleep, on a lock, a pipe, a socket, a FIFO",
        "input is at its end; the rest is interrupted at its time, and variables are kept",
    )
    .await;
    let session = case.session_with(impatient()).await;
    let input = "import os, sys\nprint(os.read(0, 1), sys.stdin.read() == '')";
    assert_eq!(case.printed(&session, input).await, "b'' True\n");
    for code in [
        "import time; time.sleep(1e6)",
        "import threading; threading.Lock().acquire(); lock = threading.Lock(); lock.acquire(); lock.acquire()",
        "ends = os.pipe(); os.read(ends[0], 1)",
        "import socket; socket.create_server(('127.0.0.1', 0)).accept()",
        "os.mkfifo('fifo'); open('fifo')",
    ] {
        let outcome = case.fails(&session, timed(code, seconds(0.1))).await;
        let limit_ms = 100;
        assert_eq!(outcome.cause, Cause::WallTime { limit_ms }, "{outcome:?}");
        assert_eq!(outcome.state, Fate::Kept, "{outcome:?}");
    }
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b8_stops_itself() {
    let case = Case::begin(
        "B8",
        Severity::SelfDos,
        "os.kill(os.getpid(), SIGSTOP)",
        "the time keeps running: ended at its limit and the grace; the session is lost",
    )
    .await;
    let session = case.session_with(impatient()).await;
    let code = "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)";
    let outcome = case.fails(&session, timed(code, seconds(0.2))).await;
    let limit_ms = 200;
    assert_eq!(outcome.cause, Cause::WallTime { limit_ms }, "{outcome:?}");
    assert_eq!(
        (outcome.status, outcome.state),
        (Status::Timeout, Fate::Lost)
    );
    // Stopped between two cells: closing does not wait for it.
    let other = case.session_with(impatient()).await;
    let later = r"
import os, signal, threading
threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGSTOP)).start()
";
    case.printed(&other, later).await;
    tokio::time::sleep(seconds(0.2)).await;
    let started = Stopwatch::start();
    other.close().await.unwrap();
    assert!(started.elapsed() < seconds(2.0));
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b9_exits_that_never_end() {
    let case = Case::begin(
        "B9",
        Severity::SelfDos,
        "atexit, __del__ and signal handlers that never return",
        "closing does not wait for them; within a cell its time limit ends them",
    )
    .await;
    let session = case.session_with(impatient()).await;
    let code = r"
import atexit, signal, threading, time
def for_ever(*_):
    while True: time.sleep(1)
atexit.register(for_ever)
for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
    signal.signal(number, for_ever)
class Clinging:
    def __del__(self): for_ever()
clinging = Clinging()
threading.Thread(target=for_ever).start()
";
    case.printed(&session, code).await;
    let started = Stopwatch::start();
    session.close().await.unwrap();
    assert!(started.elapsed() < seconds(2.0), "{:?}", started.elapsed());

    for end in [
        "del clinging",
        "signal.raise_signal(signal.SIGTERM)",
        "atexit._run_exitfuncs()",
    ] {
        let session = case.session_with(impatient()).await;
        case.printed(&session, code).await;
        let outcome = case.fails(&session, timed(end, seconds(0.1))).await;
        let limit_ms = 100;
        assert_eq!(outcome.cause, Cause::WallTime { limit_ms }, "{outcome:?}");
    }
    case.end([]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b10_uninterruptible() {
    let case = Case::begin(
        "B10",
        Severity::PeerDos,
        "vfork whose child sleeps: the interpreter is in the uninterruptible state (D)",
        "ended at its time and the grace, as the kernel's wait is one that can be killed; nothing is left",
    )
    .await;
    let session = case.session_with(impatient()).await;
    // The child continues in the interpreter's own memory; its parent never runs again.
    let code = r"
import ctypes, platform, time
number = 220 if platform.machine() == 'aarch64' else 56
CLONE_VM, CLONE_VFORK, SIGCHLD = 0x100, 0x4000, 17
ctypes.CDLL(None).syscall(number, CLONE_VM | CLONE_VFORK | SIGCHLD, 0, 0, 0, 0)
time.sleep(100)
";
    let interpreter = *case.members(&session).first().unwrap();
    let run = session.run(timed(code, seconds(0.5)));
    eventually("the state D", || {
        let status = std::fs::read_to_string(format!("/proc/{interpreter}/status"));
        status.unwrap_or_default().contains("State:\tD")
    })
    .await;
    let outcome = run.await.unwrap();
    let limit_ms = 500;
    assert_eq!(outcome.cause, Cause::WallTime { limit_ms }, "{outcome:?}");
    assert_eq!(outcome.state, Fate::Lost);
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b11_clocks() {
    let case = Case::begin(
        "B11",
        Severity::PeerDos,
        "clock_settime, settimeofday, adjtimex, a time namespace; a false time for Python",
        "each is refused (EPERM); limits are kept by the host's clock",
    )
    .await;
    // Each sets what is there already, or asks for nothing but the right to set.
    let code = r"
import ctypes, errno, platform, time
libc = ctypes.CDLL(None, use_errno=True)
arm = platform.machine() == 'aarch64'
def call(name, number, *arguments):
    result = libc.syscall(number, *arguments)
    print(name, 'made' if result >= 0 else errno.errorcode[ctypes.get_errno()])
now = (ctypes.c_long * 2)(int(time.time()), 0)
call('clock_settime', 112 if arm else 227, 0, now)
call('settimeofday', 170 if arm else 164, now, None)
timex = ctypes.create_string_buffer(208)
call('adjtimex', 171 if arm else 159, timex)
call('clock_adjtime', 266 if arm else 305, 0, timex)
call('unshare', 97 if arm else 272, 0x80)
";
    // Not as root: it would set the machine's clock. The last three are asked without walls.
    let harmless: String = code
        .lines()
        .filter(|line| {
            !line.starts_with("call('clock_settime") && !line.starts_with("call('settime")
        })
        .flat_map(|line| [line, "\n"])
        .collect();
    let control = case.control(&harmless).await;
    assert_eq!(
        control.stdout, "adjtimex made\nclock_adjtime made\nunshare made\n",
        "{control:?}"
    );
    let session = case.session_with(impatient()).await;
    assert_eq!(
        case.printed(&session, code).await,
        "clock_settime EPERM\nsettimeofday EPERM\nadjtimex EPERM\nclock_adjtime EPERM\nunshare EPERM\n"
    );
    let lies = r"
import os, time
os.environ['TZ'] = 'Nowhere+24:59:59'
time.tzset()
time.time = time.monotonic = time.perf_counter = lambda: -1e18
while True: pass
";
    let outcome = case.fails(&session, timed(lies, seconds(0.2))).await;
    let limit_ms = 200;
    assert_eq!(outcome.cause, Cause::WallTime { limit_ms }, "{outcome:?}");
    assert!(outcome.durations.total_us >= 200_000, "{outcome:?}");
    assert!(outcome.durations.total_us < 5_000_000, "{outcome:?}");
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn heavy_b12_interrupts_at_the_end() {
    let case = Case::begin(
        "B12",
        Severity::Integrity,
        "interrupts that race with the end of a cell, 2,000 times",
        "the cell is done or interrupted and says which; the next one is never hit",
    )
    .await;
    let session = case.session().await;
    let started = Stopwatch::start();
    let (mut rounds, mut interrupted) = (0_u32, 0);
    while rounds < 2_000 && started.elapsed() < seconds(12.0) {
        let run = session.run(format!("x = {rounds}"));
        // From before its start to after its end.
        let pause = std::time::Duration::from_micros(u64::from(rounds % 100) * 20);
        let until = Instant::now() + pause * Stopwatch::slowness();
        while Instant::now() < until {
            tokio::task::yield_now().await;
        }
        session.interrupt();
        let outcome = run.await.unwrap();
        match outcome.cause {
            Cause::Completed => {}
            Cause::Interrupted => interrupted += 1,
            _ => panic!("{outcome:?}"),
        }
        let completed = outcome.cause == Cause::Completed;
        let next = case.printed(&session, "print(globals().get('x'))").await;
        assert!(
            !completed || next == format!("{rounds}\n"),
            "a lost result: {next}"
        );
        rounds += 1;
    }
    assert!(rounds >= 500, "{rounds}");
    assert!(interrupted > 0 && interrupted < rounds, "{interrupted}");
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b14a_nobody_listens() {
    let case = Case::begin(
        "B14a",
        Severity::Integrity,
        "the caller gives up on a cell while it runs",
        "the cell runs to its end or its limit; what it did is there for the next one",
    )
    .await;
    let session = case.session_with(impatient()).await;
    let mut run = session.run("import time\ntime.sleep(0.2)\nx = 'done'\nprint(x)");
    let first = run.next().await;
    assert!(
        matches!(first, Some(Ok(Event::Started { .. }))),
        "{first:?}"
    );
    drop(run);
    assert_eq!(case.printed(&session, "print(x)").await, "done\n");
    // Also a cell that never ends does: the next one is not kept waiting for ever.
    drop(session.run(timed("while True: pass", seconds(0.2))));
    assert_eq!(case.printed(&session, "print(x)").await, "done\n");
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b14b_nobody_holds_the_session() {
    let case = Case::begin(
        "B14b",
        Severity::PeerDos,
        "the caller drops the session while a cell runs",
        "the session ends at once, and the cell with it",
    )
    .await;
    let session = case.session().await;
    let mut run = session.run("import time\ntime.sleep(1000)");
    let first = run.next().await;
    assert!(
        matches!(first, Some(Ok(Event::Started { .. }))),
        "{first:?}"
    );
    drop(run);
    drop(session);
    // The oracle looks for it, and waits for two seconds.
    case.end([]).await;
}
