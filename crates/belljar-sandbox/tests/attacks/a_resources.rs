//! A: exhaustion of processes, CPUs and the kernel's other services.

use belljar_sandbox::Limits;
use belljar_sandbox::protocol::{Cause, Fate, Status};

use crate::harness::{Case, Severity};
use crate::support::{seconds, timed};

#[tokio::test(flavor = "multi_thread")]
async fn heavy_a1_fork_bomb() {
    let case = Case::begin(
        "A1",
        Severity::PeerDos,
        "while 1: os.fork()",
        "the limit of processes holds (BlockingIOError); closing the session ends all of them",
    )
    .await;
    let session = case
        .session_with(Limits {
            processes: 60,
            ..Limits::default()
        })
        .await;
    let watch = case.watch_sibling();
    let outcome = case
        .fails(
            &session,
            timed("import os\nwhile 1: os.fork()", seconds(5.0)),
        )
        .await;
    assert_eq!(outcome.exception.unwrap().type_name, "BlockingIOError");
    let members = case.members(&session).len();
    assert!(members <= 60, "{members} processes");
    watch.finish().await;
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn heavy_a2a_threads() {
    let case = Case::begin(
        "A2a",
        Severity::PeerDos,
        "100,000 threads",
        "the limit of processes counts threads too (RuntimeError); the session lives on",
    )
    .await;
    let session = case.session_with(few_processes()).await;
    let watch = case.watch_sibling();
    let code = r"
import threading, time
started = 0
try:
    while started < 100_000:
        threading.Thread(target=time.sleep, args=(100,), daemon=True).start()
        started += 1
except RuntimeError as error:
    print(started, error)
";
    let printed = case.printed(&session, code).await;
    let (started, error) = printed.trim().split_once(' ').unwrap();
    assert_eq!(error, "can't start new thread");
    // The interpreter and init are among the 60.
    assert!((50..60).contains(&started.parse().unwrap()), "{started}");
    watch.finish().await;
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn heavy_a2b_threads_that_fork() {
    let case = Case::begin(
        "A2b",
        Severity::PeerDos,
        "threads that fork, and whose children do the same",
        "the limit of processes holds for both together; closing the session ends all of them",
    )
    .await;
    let session = case.session_with(few_processes()).await;
    let watch = case.watch_sibling();
    let code = r"
import os, threading, time
def multiply():
    while True:
        try:
            threading.Thread(target=multiply, daemon=True).start()
            os.fork()
        except (RuntimeError, BlockingIOError):
            time.sleep(0.001)
threading.Thread(target=multiply, daemon=True).start()
time.sleep(1)
";
    let _ = case.outcome(&session, timed(code, seconds(10.0))).await;
    let threads: usize = case
        .members(&session)
        .iter()
        .filter_map(|pid| std::fs::read_dir(format!("/proc/{pid}/task")).ok())
        .map(Iterator::count)
        .sum();
    assert!((2..=60).contains(&threads), "{threads} threads");
    watch.finish().await;
    case.end([session]).await;
}

fn few_processes() -> Limits {
    Limits {
        processes: 60,
        ..Limits::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn heavy_a10a_all_cpus() {
    let case = Case::begin(
        "A10a",
        Severity::PeerDos,
        "64 processes and as many threads that compute without end",
        "together they get the CPUs of one session; the sibling does not notice",
    )
    .await;
    let session = case
        .session_with(Limits {
            milli_cpus: 1000,
            processes: 200,
            grace: seconds(0.2),
            ..Limits::default()
        })
        .await;
    let watch = case.watch_sibling();
    let code = r"
import os, threading
def burn():
    while True: pass
for _ in range(64):
    if os.fork() == 0:
        break
threading.Thread(target=burn, daemon=True).start()
burn()
";
    let outcome = case.fails(&session, timed(code, seconds(3.0))).await;
    assert_eq!(outcome.cause, Cause::WallTime { limit_ms: 3000 });
    // One CPU, and what the last period may have run over.
    let durations = outcome.durations;
    assert!(
        durations.cpu_us <= durations.total_us * 12 / 10,
        "{durations:?}"
    );
    watch.finish().await;
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a10b_priorities() {
    let case = Case::begin(
        "A10b",
        Severity::PeerDos,
        "nice -20, SCHED_FIFO, SCHED_DEADLINE, I/O priority, memory policy",
        "each is refused (EPERM, EACCES); a lower priority is allowed",
    )
    .await;
    let code = r"
import ctypes, errno, os, platform
libc = ctypes.CDLL(None, use_errno=True)
arm = platform.machine() == 'aarch64'
def call(name, number, *arguments):
    ctypes.set_errno(0)
    result = libc.syscall(number, *arguments)
    print(name, 'made' if result >= 0 else errno.errorcode[ctypes.get_errno()])
try:
    os.setpriority(os.PRIO_PROCESS, 0, -20)
    print('nice made')
except OSError as error:
    print('nice', errno.errorcode[error.errno])
try:
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))
    print('fifo made')
except OSError as error:
    print('fifo', errno.errorcode[error.errno])
# struct sched_attr: size, policy, flags, nice, priority, runtime, deadline, period
deadline = (ctypes.c_uint64 * 6)(48 | 6 << 32, 0, 0, 1_000_000, 100_000_000, 100_000_000)
call('deadline', 274 if arm else 314, 0, deadline, 0)
call('ioprio', 30 if arm else 251, 1, 0, 1 << 13)
call('mempolicy', 237 if arm else 238, 0, None, 0)
os.setpriority(os.PRIO_PROCESS, 0, 5)
";
    if let Some(control) = case.control_as_root(code).await {
        // Whether root may have SCHED_FIFO in a cgroup depends on how the kernel was built.
        assert_eq!(
            control.stdout.replace("fifo EPERM", "fifo made"),
            "nice made\nfifo made\ndeadline made\nioprio made\nmempolicy made\n",
            "{control:?}"
        );
    }
    let session = case.session().await;
    assert_eq!(
        case.printed(&session, code).await,
        "nice EACCES\nfifo EPERM\ndeadline EPERM\nioprio EPERM\nmempolicy EPERM\n"
    );
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn heavy_a11_writing_out() {
    let case = Case::begin(
        "A11",
        Severity::PeerDos,
        "sync, syncfs of a directory of the host, fsync, O_DIRECT, without pause",
        "sync and syncfs are answered and not made, files are in memory: no disk moves, the sibling does not notice",
    )
    .await;
    let session = case.session().await;
    let watch = case.watch_sibling();
    let code = r"
import ctypes, mmap, os, time
libc = ctypes.CDLL(None, use_errno=True)
host = os.open('/usr', os.O_RDONLY)
page = mmap.mmap(-1, 4096)
try:
    file = os.open('direct', os.O_RDWR | os.O_CREAT | os.O_DIRECT)
except OSError:
    file = os.open('direct', os.O_RDWR | os.O_CREAT)
end = time.monotonic() + 2
rounds = 0
while time.monotonic() < end:
    os.sync()
    assert libc.syncfs(host) == 0
    os.pwrite(file, page, 0)
    os.fsync(file)
    rounds += 1
print(rounds > 1000)
# Who makes a sync waits for the kernel's threads, each time.
def waits():
    with open('/proc/self/status') as status:
        return next(int(line.split()[1]) for line in status if line.startswith('voluntary'))
before = waits()
for _ in range(200):
    os.sync()
print(waits() - before < 100)
# One that is made knows its descriptors.
print(libc.syncfs(-1))
";
    let printed = case.printed(&session, code).await;
    assert_eq!(printed, "True\nTrue\n0\n");
    watch.finish().await;
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn heavy_a12a_core_dumps() {
    let case = Case::begin(
        "A12a",
        Severity::HostDos,
        "100 processes with a large heap that crash",
        "each dies of its signal at once; nothing is dumped, and the limit of dumps can't be raised",
    )
    .await;
    let session = case.session().await;
    let watch = case.watch_sibling();
    let code = r"
import ctypes, os, resource, signal
heap = bytearray(os.urandom(1 << 20) * 128)
ends = {}
for _ in range(100):
    child = os.fork()
    if child == 0:
        ctypes.string_at(0)
    status = os.waitpid(child, 0)[1]
    end = signal.Signals(os.WTERMSIG(status)).name, os.WCOREDUMP(status)
    ends[end] = ends.get(end, 0) + 1
print(ends, os.listdir('/workspace'))
try:
    resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY,) * 2)
    print('raised')
except (ValueError, OSError) as error:
    print(type(error).__name__)
";
    let printed = case.printed(&session, timed(code, seconds(14.0))).await;
    assert_eq!(printed, "{('SIGSEGV', False): 100} []\nValueError\n");
    watch.finish().await;
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a12b_program_for_core_dumps() {
    let case = Case::begin(
        "A12b",
        Severity::HostDos,
        "crash where the host has a program for core dumps (core_pattern with a pipe)",
        "it is never started: the limit is 1, which alone says so to the kernel, and can't be changed (EPERM)",
    )
    .await;
    // The machine's core_pattern is not for a test to change, so the limit itself is looked at: by
    // core(5) and the kernel's do_coredump a pipe is used with any limit but 1.
    let set = r"
import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
CORE = 4
print('set' if libc.setrlimit(CORE, (ctypes.c_ulong * 2)(0, 0)) == 0 else errno.errorcode[ctypes.get_errno()])
";
    let control = case.control(set).await;
    assert_eq!(control.stdout, "set\n", "{control:?}");
    let session = case.session().await;
    let limits = case
        .printed(&session, "print(open('/proc/self/limits').read())")
        .await;
    let core = limits
        .lines()
        .find(|line| line.starts_with("Max core file size"));
    let core: Vec<&str> = core.unwrap().split_whitespace().collect();
    assert_eq!(core[4..], ["1", "1", "bytes"], "{limits}");
    assert_eq!(case.printed(&session, set).await, "EPERM\n");
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn heavy_a13_zombies_and_orphans() {
    let case = Case::begin(
        "A13",
        Severity::PeerDos,
        "400 orphans, and as many zombies as can be",
        "orphans are reaped at once; zombies count for the limit of processes and end with the session",
    )
    .await;
    let session = case.session().await;
    let watch = case.watch_sibling();
    // A child that forks and ends leaves an orphan.
    let orphans = r"
import os
for _ in range(400):
    child = os.fork()
    if child == 0:
        os.fork()
        os._exit(0)
    os.waitpid(child, 0)
";
    case.printed(&session, timed(orphans, seconds(12.0))).await;
    let left = r"
import time
for _ in range(100):
    left = [name for name in os.listdir('/proc') if name.isdigit()]
    if len(left) <= 1:
        break
    time.sleep(0.02)
print(len(left))
";
    // The interpreter; init is hidden.
    assert_eq!(case.printed(&session, left).await, "1\n");
    let zombies = r"
made = 0
try:
    while True:
        if os.fork() == 0:
            os._exit(0)
        made += 1
except BlockingIOError:
    print(made)
";
    let made = case.printed(&session, zombies).await;
    // The interpreter and init are among the 128.
    assert!((120..128).contains(&made.trim().parse().unwrap()), "{made}");
    watch.finish().await;
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a14_colliding_hashes() {
    let case = Case::begin(
        "A14",
        Severity::SelfDos,
        "a dict whose keys all have the same hash",
        "the session's own CPU time is used up, and no other's: typed as a timeout; variables are kept",
    )
    .await;
    let session = case
        .session_with(Limits {
            cpu_time: Some(seconds(0.3)),
            ..Limits::default()
        })
        .await;
    let code = r"
import sys
table = {}
for number in range(1_000_000):
    table[number * sys.hash_info.modulus] = number
";
    let outcome = case.fails(&session, code).await;
    assert_eq!(outcome.status, Status::Timeout, "{outcome:?}");
    assert_eq!(outcome.cause, Cause::CpuTime { limit_ms: 300 });
    assert_eq!(outcome.state, Fate::Kept);
    let printed = case
        .printed(&session, "print(len(table) < 1_000_000)")
        .await;
    assert_eq!(printed, "True\n");
    case.end([session]).await;
}
