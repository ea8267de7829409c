//! What a manifest shows of values, and what a session uses while it lives.

use std::collections::HashMap;
use std::time::Duration;

use belljar_sandbox::Session;

use crate::support::{Stopwatch, data_session, good, seconds, session, timed};

/// The previews of a session's names.
async fn previews(session: &Session) -> HashMap<String, Option<String>> {
    let names = session.manifest().await.unwrap();
    let names = names.into_iter().map(|info| (info.name, info.preview));
    names.collect()
}

fn check(seen: &HashMap<String, Option<String>>, expected: &[(&str, Option<&str>)]) {
    for (name, preview) in expected {
        assert_eq!(seen[*name].as_deref(), *preview, "{name}");
    }
}

#[tokio::test]
async fn values_of_built_in_types_are_shown() {
    let session = session().await;
    let code = r#"
x = 41
pi = 3.25
yes, nothing = True, None
text = "one\ntwo"
raw, changing = b"\x00a", bytearray(b"b")
several = [1, "two", (3.0,), {4}]
pairs = {"a": 1, "b": [None, {}]}
numbers = range(3)
long = list(range(1000))
def function(): pass
"#;
    let outcome = good(&session, code).await;
    // A cell does not pay for what it was not asked for.
    let changed = outcome.changes.added.iter();
    assert!(changed.into_iter().all(|info| info.preview.is_none()));
    check(
        &previews(&session).await,
        &[
            ("x", Some("41")),
            ("pi", Some("3.25")),
            ("yes", Some("True")),
            ("nothing", Some("None")),
            ("text", Some(r"'one\ntwo'")),
            ("raw", Some(r"b'\x00a'")),
            ("changing", Some("bytearray(b'b')")),
            ("several", Some("[1, 'two', (3.0,), {4}]")),
            ("pairs", Some("{'a': 1, 'b': [None, {}]}")),
            ("numbers", Some("range(0, 3, 1)")),
            ("long", Some("[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, …]")),
            ("function", None),
        ],
    );
}

#[tokio::test]
async fn values_of_numpy_and_pandas_are_shown() {
    let session = data_session().await;
    let code = r#"
import mmap, numpy as np, pandas as pd
flat = np.arange(4)
square = np.zeros((2, 2))
number = np.float64(2.5)
objects = np.array([object()], dtype=object)
frame = pd.DataFrame({"river": ["Nile"], "km\u202e": [6650]})
series = pd.Series([1.5, 2.0])
big = np.zeros((3000, 3000))[:, ::7]
# To read these would end the session.
with open("short", "wb") as file:
    file.write(bytes(8192))
with open("short", "r+b") as file:
    gone = np.frombuffer(mmap.mmap(file.fileno(), 0), dtype="uint8")[4096:]
    file.truncate(0)
wild = np.lib.stride_tricks.as_strided(np.zeros(2), (10**9,), (1 << 40,))
"#;
    good(&session, code).await;
    check(
        &previews(&session).await,
        &[
            ("flat", Some("int64: 0, 1, 2, 3")),
            ("square", Some("float64: 0.0, 0.0, 0.0, 0.0")),
            ("number", Some("2.5")),
            ("objects", Some("object")),
            ("frame", Some(r"'river', 'km\u202e'")),
            ("series", Some("float64: 1.5, 2.0")),
            ("gone", Some("uint8")),
            ("wild", Some("float64")),
        ],
    );
    good(&session, "1").await;
}

/// No code of the program runs for a preview, and none costs more than a moment.
#[tokio::test]
async fn hostile_values_are_shown_without_their_help() {
    let session = session().await;
    let code = r#"
def ran(*_):
    open("ran", "w").close()
    while True: pass
class Meta(type):
    __hash__ = __eq__ = __instancecheck__ = __getattribute__ = ran
EVIL = "__repr__ __str__ __len__ __iter__ __hash__ __eq__ __bool__ __getattribute__ __getitem__ __format__ __index__".split()
def evil(base, meta=type):
    members = dict.fromkeys(EVIL + ["bit_length", "items", "keys", "item", "shape", "nbytes"], ran)
    return meta("Evil", (base,), members)
mine, by_meta = object.__new__(evil(object)), object.__new__(evil(object, Meta))
text = str.__new__(evil(str), "a")
number = int.__new__(evil(int), 7)
pairs, many = dict.__new__(evil(dict)), list.__new__(evil(list))
held = [mine, by_meta, text, number, {"a": pairs}]
itself = [1]
itself.append(itself)
deep = []
for _ in range(100_000): deep = [deep]
wide = {n: [n] * 1000 for n in range(1000)}
digits, below, longest = 10**1_000_000, -(10**1_000_000), range(10**1_000_000)
large = "a" * 100_000_000
bold = "\x1b[2J\x1b]0;x\x07\u202eevil\u2066\u2800"
"#;
    good(&session, code).await;
    let asked = Stopwatch::start();
    let seen = previews(&session).await;
    let took = asked.elapsed();
    assert!(took < seconds(1.0), "{took:?}");
    let large = format!("'{}…", "a".repeat(78));
    check(
        &seen,
        &[
            ("mine", None),
            ("by_meta", None),
            ("text", None),
            ("number", None),
            ("pairs", None),
            ("many", None),
            (
                "held",
                Some(
                    "[<__main__.Evil>, <__main__.Evil>, <__main__.Evil>, <__main__.Evil>, {'a': <__m…",
                ),
            ),
            ("itself", Some("[1, [1, [1, […]]]]")),
            ("deep", Some("[[[[…]]]]")),
            ("digits", Some("≈10**1000000")),
            ("below", Some("-≈10**1000000")),
            ("longest", Some("range(0, ≈10**1000000, 1)")),
            ("large", Some(&large)),
            (
                "bold",
                Some(r"'\x1b[2J\x1b]0;x\x07\u202eevil\u2066<U+2800>'"),
            ),
        ],
    );
    assert!(seen["wide"].as_deref().unwrap().starts_with("{0: [0, 0,"));
    good(&session, "import os; assert not os.path.exists('ran')").await;
}

/// The host cuts and cleans, whatever the guest sends.
#[tokio::test]
async fn a_preview_that_lies_is_cut_by_the_host() {
    let session = session().await;
    let code = r#"
import sys
forged = [{"name": "x", "type": "int", "cell": 1, "preview": "\x1b[2J\u202e" + "a" * 7_000_000}]
sys.modules["belljar_guest.manifest"].Manifest.names = lambda self: forged
"#;
    good(&session, code).await;
    let seen = previews(&session).await;
    let shown = seen["x"].as_deref().unwrap();
    assert!(shown.starts_with("<U+001B>[2J<U+202E>aaa"), "{shown}");
    assert_eq!(shown.chars().count(), 80);
}

/// The use of a session is reported also while a cell runs, and not while it is hibernated.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_tells_what_it_uses() {
    let session = session().await;
    good(&session, "x = 1").await;
    let before = session.in_use().unwrap();
    assert!(before.processes.unwrap() >= 1, "{before:?}");
    let cell = "held = bytearray(200_000_000)\nwhile True: pass";
    let running = session.run(timed(cell, seconds(20.0)));
    let enough = |used: belljar_sandbox::SessionUse| {
        used.memory_bytes.unwrap() > before.memory_bytes.unwrap() + 190_000_000
            && used.cpu_time.unwrap() > before.cpu_time.unwrap() + Duration::from_millis(200)
    };
    crate::support::eventually("a cell that uses much", || {
        enough(session.in_use().unwrap())
    })
    .await;
    assert!(session.interrupt());
    running.await.unwrap();
    session.hibernate().await.unwrap();
    assert_eq!(session.in_use(), None);
    session.wake().await.unwrap();
    assert!(session.in_use().is_some());
    session.end();
    assert_eq!(session.in_use(), None);
}
