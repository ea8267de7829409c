//! How fast two sessions that want to talk can, by what stays open between them: the figures of SECURITY.md. They are
//! measurements, and nothing is promised of them but that the bits arrive.
//!
//! `cargo nextest run -p belljar-sandbox --test it -E 'test(covert)' --run-ignored only --no-capture`

use std::process::Command;

use belljar_sandbox::Session;

use crate::support::{engine, good, printed};

async fn pair() -> (Session, Session) {
    let engine = engine();
    (
        engine.session().await.unwrap(),
        engine.session().await.unwrap(),
    )
}

/// `BITS` are the same in both sessions; `tell` prints how many of them arrived.
const BITS: &str = r"
import fcntl, os, random, struct, time
random.seed(1)
BITS = [random.getrandbits(1) for _ in range(2_000)]
def tell(bits, seconds):
    right = sum(a == b for a, b in zip(BITS, bits))
    print(f'{len(bits)} bits, {right / len(bits):.1%} right, {len(bits) / seconds:.0f} bit/s')
";

/// Three files that both can read: data, clock, and the answer to it.
const LOCKS: &str = r"
data, clock, answer = [os.open(path, os.O_RDONLY) for path in ('/usr/bin/env', '/dev/null', '/etc/passwd')]
def set(file, on):
    fcntl.flock(file, fcntl.LOCK_EX if on else fcntl.LOCK_UN)
def is_set(file):
    try: fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError: return True
    fcntl.flock(file, fcntl.LOCK_UN)
    return False
def send():
    for at, bit in enumerate(BITS):
        set(data, bit)
        set(clock, at % 2 == 0)
        while is_set(answer) != (at % 2 == 0): time.sleep(10e-6)  # else who sets it never gets it
def receive():
    bits, began = [], time.perf_counter()
    for at in range(len(BITS)):
        while is_set(clock) != (at % 2 == 0): time.sleep(10e-6)  # else who sets it never gets it
        bits.append(int(is_set(data)))
        set(answer, at % 2 == 0)
    tell(bits, time.perf_counter() - began)
";

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement"]
async fn covert_locks() {
    let (a, b) = pair().await;
    for session in [&a, &b] {
        good(session, &format!("{BITS}{LOCKS}")).await;
    }
    let (_, text) = tokio::join!(good(&a, "send()"), printed(&b, "receive()"));
    println!("flock: {text}");
    assert!(text.contains("100.0% right"), "{text}");
}

/// A page that was read is there sooner for the next one. Nobody in a session can push one out, so that each serves
/// once.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement"]
async fn covert_page_cache() {
    let (a, b) = pair().await;
    let open = r"
import sys
paths = []
for directory, _, names in sorted(os.walk(sys.base_prefix + '/lib')):
    paths += [os.path.join(directory, name) for name in sorted(names) if name.endswith('.py')]
paths = [path for path in paths if os.path.getsize(path) > 4096][:400]
files = [os.open(path, os.O_RDONLY) for path in paths]
del BITS[len(files):]
";
    for session in [&a, &b] {
        good(session, &format!("{BITS}{open}")).await;
    }
    let paths = printed(&a, "print(*paths, sep='\\n')").await;
    for path in paths.lines() {
        let dd = Command::new("dd")
            .args([&format!("if={path}"), "iflag=nocache", "count=0"])
            .output()
            .unwrap();
        assert!(dd.status.success(), "{dd:?}");
    }
    let send = r"
began = time.perf_counter()
for file, bit in zip(files, BITS):
    if bit: os.pread(file, 1, 0)
print(time.perf_counter() - began)
";
    let seconds = printed(&a, send).await;
    let receive = format!(
        r"
took, began = [], time.perf_counter()
for file in files:
    at = time.perf_counter()
    os.pread(file, 1, 0)
    took.append(time.perf_counter() - at)
tell([int(one < 20e-6) for one in took], time.perf_counter() - began + {seconds})
"
    );
    let text = printed(&b, &receive).await;
    println!("page cache: {text}");
}
