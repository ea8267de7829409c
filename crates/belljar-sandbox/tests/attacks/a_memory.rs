//! A: exhaustion of memory, by all the ways that there are.

use belljar_sandbox::Limits;
use belljar_sandbox::protocol::{Cause, Fate, Outcome, Status};

use crate::harness::{Case, Severity};
use crate::support::{data_environment, plain_builder, seconds, timed};

const MEMORY: u64 = 64 << 20;

fn little_memory() -> Limits {
    Limits {
        memory_bytes: MEMORY,
        ..Limits::default()
    }
}

/// The kernel ended the session for want of memory, and says so.
fn assert_memory(outcome: &Outcome) {
    assert_eq!(outcome.status, Status::Crashed, "{outcome:?}");
    let limit_bytes = MEMORY;
    assert_eq!(outcome.cause, Cause::Memory { limit_bytes }, "{outcome:?}");
    assert_eq!(outcome.state, Fate::Lost);
}

/// An attack that holds memory which is not the process's own until it is ended.
async fn fill(id: &'static str, attack: &'static str, code: &str) {
    let expectation =
        "charged to the session: a crash whose cause is memory; the sibling does not notice";
    let case = Case::begin(id, Severity::PeerDos, attack, expectation).await;
    let session = case.session_with(little_memory()).await;
    let watch = case.watch_sibling();
    let outcome = case.fails(&session, timed(code, seconds(8.0))).await;
    assert_memory(&outcome);
    watch.finish().await;
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn heavy_a3_doubling_memory() {
    let case = Case::begin(
        "A3",
        Severity::PeerDos,
        "b = bytearray(1 << 20), then b *= 2 without end",
        "a MemoryError, or a crash whose cause is memory; the sibling does not notice",
    )
    .await;
    let limits = Limits {
        memory_bytes: 128 << 20,
        ..Limits::default()
    };
    let session = case.session_with(limits.clone()).await;
    let watch = case.watch_sibling();
    let outcome = case
        .fails(&session, "b = bytearray(1 << 20)\nwhile 1: b *= 2")
        .await;
    assert_eq!(outcome.status, Status::Failure, "{outcome:?}");
    assert_eq!(outcome.exception.unwrap().type_name, "MemoryError");
    // What a process's own limit does not see, the cgroup does.
    let hungry = case.session_with(limits).await;
    let shared =
        "import mmap\nm = mmap.mmap(-1, 1 << 30)\nfor i in range(0, 1 << 30, 4096): m[i] = 1";
    let outcome = case.fails(&hungry, shared).await;
    let limit_bytes = 128 << 20;
    assert_eq!(outcome.cause, Cause::Memory { limit_bytes }, "{outcome:?}");
    assert_eq!(outcome.state, Fate::Lost);
    watch.finish().await;
    case.end([session, hungry]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn heavy_a4a_shared_memory() {
    let code = r"
with open('/dev/shm/all', 'wb') as file:
    while True:
        file.write(bytes(1 << 20))
";
    fill("A4a", "a file in /dev/shm that grows", code).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn heavy_a4b_anonymous_files() {
    let code = r"
import os
while True:
    file = os.memfd_create('all')
    os.write(file, bytes(1 << 20))
";
    fill("A4b", "anonymous files (memfd_create)", code).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn heavy_a4c_pipes() {
    let code = r"
import os
while True:
    if os.fork():
        continue
    for _ in range(500):
        read, write = os.pipe()
        os.set_blocking(write, False)
        try:
            while True:
                os.write(write, bytes(4096))
        except BlockingIOError:
            pass
    while True:
        os.read(os.pipe()[0], 1)
";
    let case = Case::begin(
        "A4c",
        Severity::PeerDos,
        "processes with full pipes",
        "charged to the session: it never holds more than its limit; the sibling does not notice",
    )
    .await;
    let session = case.session_with(little_memory()).await;
    let watch = case.watch_sibling();
    // The kernel ends the child that asks for the last page, or the interpreter.
    let outcome = case.fails(&session, timed(code, seconds(3.0))).await;
    let peak = outcome.peak_memory_bytes.unwrap();
    assert!((MEMORY / 2..=MEMORY).contains(&peak), "{outcome:?}");
    watch.finish().await;
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn heavy_a4d_buffers_of_local_sockets() {
    let code = r"
import socket
held = []
while True:
    write, read = socket.socketpair()
    write.setblocking(False)
    held.append((write, read))
    try:
        while True:
            write.send(bytes(1 << 16))
    except BlockingIOError:
        pass
";
    fill("A4d", "full buffers of local sockets", code).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn heavy_a4e_workspace() {
    let code = r"
number = 0
while True:
    with open(f'{number}', 'wb') as file:
        file.write(bytes(1 << 20))
    number += 1
";
    fill("A4e", "files in the workspace, which is in memory", code).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a4f_system_v_memory() {
    let case = Case::begin(
        "A4f",
        Severity::PeerDos,
        "System V shared memory, message queues, semaphores",
        "refused (EPERM): what would outlive its process is not there",
    )
    .await;
    let code = r"
import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
for made in [libc.shmget(0, 1 << 20, 0o1600), libc.msgget(0, 0o1600), libc.semget(0, 1, 0o1600)]:
    print('made' if made >= 0 else errno.errorcode[ctypes.get_errno()])
";
    let control = case.control(code).await;
    assert_eq!(control.stdout, "made\nmade\nmade\n", "{control:?}");
    let session = case.session().await;
    assert_eq!(case.printed(&session, code).await, "EPERM\nEPERM\nEPERM\n");
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn heavy_a4g_buffers_of_network_sockets() {
    let case = Case::begin(
        "A4g",
        Severity::HostDos,
        "full buffers of TCP and UDP sockets on loopback",
        "bounded by the session's memory: it never holds more than its limit; the sibling does not notice",
    )
    .await;
    let code = r"
import socket
listener = socket.create_server(('127.0.0.1', 0), backlog=500)
held = []
sent = received = 0
try:
    for _ in range(150):
        write = socket.create_connection(listener.getsockname())
        read, _ = listener.accept()
        held += [write, read]
        write.setblocking(False)
        write.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 22)
        try:
            while True:
                sent += write.send(bytes(1 << 16))
        except BlockingIOError:
            pass
    for _ in range(500):
        datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        datagrams.bind(('127.0.0.1', 0))
        datagrams.setblocking(False)
        held.append(datagrams)
        try:
            for _ in range(20):
                datagrams.sendto(bytes(60_000), datagrams.getsockname())
        except BlockingIOError:
            pass
        try:
            while True:
                received += len(datagrams.recv(65536, socket.MSG_PEEK))
                break
        except BlockingIOError:
            pass
except OSError as error:
    pass
print((sent + received) >> 20)
";
    // Without a limit of its own it is hundreds of megabytes; a control has the machine's.
    let session = case.session_with(little_memory()).await;
    let watch = case.watch_sibling();
    let outcome = case.outcome(&session, timed(code, seconds(8.0))).await;
    if outcome.is_success() {
        // Where they have a limit of their own, sending waits.
        let megabytes: u64 = outcome.stdout.text.trim().parse().unwrap();
        assert!(megabytes << 20 <= MEMORY, "{outcome:?}");
    } else {
        assert_memory(&outcome);
    }
    watch.finish().await;
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a5a_watches_of_files() {
    let case = Case::begin(
        "A5a",
        Severity::HostDos,
        "inotify instances and watches until it fails",
        "ENOSYS for the first: there are none",
    )
    .await;
    let session = case.session().await;
    let code = r"
import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
instances = 0
while instances < 1000 and libc.inotify_init1(0) >= 0:
    instances += 1
print(instances, errno.errorcode[ctypes.get_errno()])
";
    assert_eq!(case.printed(&session, code).await, "0 ENOSYS\n");
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a5b_objects_behind_descriptors() {
    let case = Case::begin(
        "A5b",
        Severity::PeerDos,
        "epoll, timerfd, eventfd, signalfd, pidfd until it fails",
        "EMFILE for each: bounded by the limits of files and processes",
    )
    .await;
    let session = case.session().await;
    let code = r"
import ctypes, errno, os
libc = ctypes.CDLL(None, use_errno=True)
mask = ctypes.create_string_buffer(128)
for make in [
    lambda: libc.epoll_create1(0),
    lambda: libc.timerfd_create(1, 0),
    lambda: libc.eventfd(0, 0),
    lambda: libc.signalfd(-1, mask, 0),
    lambda: libc.syscall(434, os.getpid(), 0),
]:
    made = []
    while (descriptor := make()) >= 0:
        made.append(descriptor)
    print(len(made), errno.errorcode[ctypes.get_errno()])
    for descriptor in made:
        os.close(descriptor)
";
    let expected = "1019 EMFILE\n".repeat(5);
    assert_eq!(case.printed(&session, code).await, expected);
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a5c_message_queues() {
    let case = Case::begin(
        "A5c",
        Severity::PeerDos,
        "POSIX message queues",
        "refused (EPERM)",
    )
    .await;
    let code = r"
import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
made = libc.mq_open(b'/queue', 0o102, 0o600, None)
print('made' if made >= 0 else errno.errorcode[ctypes.get_errno()])
";
    let control = case.control(code).await;
    assert_eq!(control.stdout, "made\n", "{control:?}");
    let session = case.session().await;
    assert_eq!(case.printed(&session, code).await, "EPERM\n");
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn heavy_a5d_names_that_do_not_exist() {
    let case = Case::begin(
        "A5d",
        Severity::HostDos,
        "ask for 150,000 long names that don't exist, in a directory of the host",
        "what the kernel remembers of them is charged to the session: given up at its limit, or a crash whose cause is memory; the sibling does not notice",
    )
    .await;
    let session = case
        .session_with(Limits {
            memory_bytes: 32 << 20,
            ..Limits::default()
        })
        .await;
    let watch = case.watch_sibling();
    let code = r"
import os
# Others than those that an earlier run has left in the kernel's memory.
mine = os.urandom(8).hex()
for number in range(150_000):
    os.path.exists(f'/usr/lib/{mine}{number:0>230}')
";
    let outcome = case.outcome(&session, timed(code, seconds(10.0))).await;
    let by_memory = matches!(outcome.cause, Cause::Memory { .. });
    assert!(outcome.is_success() || by_memory, "{outcome:?}");
    // 150,000 of them are more than the whole limit.
    let peak = outcome.peak_memory_bytes.unwrap();
    assert!((24 << 20..=32 << 20).contains(&peak), "{outcome:?}");
    watch.finish().await;
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a5e_timers_and_queued_signals() {
    let case = Case::begin(
        "A5e",
        Severity::HostDos,
        "POSIX timers and queued signals until it fails",
        "EAGAIN at the session's own limit; another session still makes timers and queues signals",
    )
    .await;
    let session = case.session().await;
    let code = r"
import ctypes, errno, os, platform, signal
libc = ctypes.CDLL(None, use_errno=True)
number = 107 if platform.machine() == 'aarch64' else 222
timer = ctypes.c_int()
def make():
    return libc.syscall(number, 1, None, ctypes.byref(timer)) == 0
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGRTMIN + 5})
def queue():
    return libc.sigqueue(os.getpid(), signal.SIGRTMIN + 5, None) == 0
";
    let exhaust = format!(
        "{code}{}",
        r"
while make():
    pass
print(errno.errorcode[ctypes.get_errno()], queue())
"
    );
    assert_eq!(case.printed(&session, exhaust).await, "EAGAIN False\n");
    let peer = case.session().await;
    let use_them = format!("{code}print(make(), queue())");
    assert_eq!(case.printed(&peer, use_them).await, "True True\n");
    case.end([session, peer]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn heavy_a15a_compressed_bomb() {
    let case = Case::begin(
        "A15a",
        Severity::SelfDos,
        "zlib.decompress of 400 MB of zeros in 2 MB",
        "MemoryError; the session lives on",
    )
    .await;
    let session = case
        .session_with(Limits {
            memory_bytes: 128 << 20,
            ..Limits::default()
        })
        .await;
    let code = r"
import zlib
packer = zlib.compressobj(1)
block = bytes(1 << 20)
bomb = b''.join(packer.compress(block) for _ in range(400)) + packer.flush()
zlib.decompress(bomb)
";
    let outcome = case.fails(&session, code).await;
    assert_eq!(outcome.state, Fate::Kept, "{outcome:?}");
    assert_eq!(outcome.exception.unwrap().type_name, "MemoryError");
    let printed = case.printed(&session, "print(len(bomb) < 1 << 21)").await;
    assert_eq!(printed, "True\n");
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a15b_bomb_of_entities() {
    let case = Case::begin(
        "A15b",
        Severity::SelfDos,
        "an XML document whose entities unfold to 200 GB",
        "an exception (of the parser, or MemoryError) or a crash whose cause is memory",
    )
    .await;
    let session = case
        .session_with(Limits {
            memory_bytes: 256 << 20,
            ..Limits::default()
        })
        .await;
    let code = r#"
import xml.etree.ElementTree as tree
layers = ''.join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 12))
tree.fromstring(f'<!DOCTYPE d [<!ENTITY e0 "ha">{layers}]><d>&e11;</d>')
"#;
    let outcome = case.fails(&session, timed(code, seconds(10.0))).await;
    match outcome.exception {
        Some(exception) => assert!(
            ["xml.etree.ElementTree.ParseError", "MemoryError"]
                .contains(&exception.type_name.as_str()),
            "{exception:?}"
        ),
        None => assert!(
            matches!(outcome.cause, Cause::Memory { .. }),
            "{:?}",
            outcome.cause
        ),
    }
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a15c_bomb_of_pixels() {
    let case = Case::begin_on(
        plain_builder(data_environment()),
        "A15c",
        Severity::SelfDos,
        "an image and an array of 100,000 times 100,000",
        "MemoryError; the session lives on",
    )
    .await;
    let session = case
        .session_with(Limits {
            memory_bytes: 512 << 20,
            ..Limits::default()
        })
        .await;
    for (code, error) in [
        (
            "from PIL import Image\nImage.new('RGB', (100_000, 100_000))",
            "MemoryError",
        ),
        (
            "import numpy\nnumpy.ones((100_000, 100_000))",
            "_ArrayMemoryError",
        ),
    ] {
        let outcome = case.fails(&session, code).await;
        assert_eq!(outcome.state, Fate::Kept, "{outcome:?}");
        let name = outcome.exception.unwrap().type_name;
        assert_eq!(name.rsplit('.').next(), Some(error), "{name}");
    }
    assert_eq!(
        case.printed(&session, "print(numpy.ones(3).sum())").await,
        "3.0\n"
    );
    case.end([session]).await;
}
